"""Idempotent producers against a reference that remembers every accepted request."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_node.protocol.producers import Producer, Verdict, expected_seq, judge

steady = settings(deadline=None)
requests = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=40)


def reference(accepted: Sequence[tuple[int, int]], epoch: int, seq: int) -> Verdict:
    """The protocol's words over the whole history, without keeping a state."""
    newest = max((one for one, _ in accepted), default=None)
    if newest is not None and epoch < newest:
        return Verdict.FENCED
    if newest is not None and epoch > newest and seq:
        return Verdict.MUST_START_AT_ZERO
    if (epoch, seq) in accepted:
        return Verdict.DUPLICATE
    before = {one for in_epoch, one in accepted if in_epoch == epoch}
    return Verdict.ACCEPT if seq == len(before) else Verdict.GAP


@steady
@given(requests)
def test_a_history_of_requests_is_judged_as_the_reference_does(history: list[tuple[int, int]]) -> None:
    accepted: list[tuple[int, int]] = []
    last: Producer | None = None
    for epoch, seq in history:
        verdict = judge(last, epoch, seq)
        assert verdict is reference(accepted, epoch, seq)
        if verdict is Verdict.GAP:
            assert expected_seq(last) == len({one for in_epoch, one in accepted if in_epoch == epoch})
        if verdict is Verdict.ACCEPT:
            accepted.append((epoch, seq))
            last = Producer(epoch, seq, len(accepted))
    assert len(accepted) == len(set(accepted))


@steady
@given(requests)
def test_a_retry_of_the_newest_request_is_never_stored_twice(history: list[tuple[int, int]]) -> None:
    last: Producer | None = None
    for epoch, seq in history:
        if judge(last, epoch, seq) is Verdict.ACCEPT:
            last = Producer(epoch, seq, 0)
            assert judge(last, epoch, seq) is Verdict.DUPLICATE


@pytest.mark.parametrize(
    ("last", "epoch", "seq", "verdict"),
    [
        (None, 0, 0, Verdict.ACCEPT),
        (None, 7, 0, Verdict.ACCEPT),
        (None, 0, 1, Verdict.GAP),
        (Producer(1, 4, 9), 1, 5, Verdict.ACCEPT),
        (Producer(1, 4, 9), 1, 4, Verdict.DUPLICATE),
        (Producer(1, 4, 9), 1, 0, Verdict.DUPLICATE),
        (Producer(1, 4, 9), 1, 6, Verdict.GAP),
        (Producer(1, 4, 9), 0, 5, Verdict.FENCED),
        (Producer(1, 4, 9), 2, 0, Verdict.ACCEPT),
        (Producer(1, 4, 9), 2, 5, Verdict.MUST_START_AT_ZERO),
    ],
)
def test_the_table_of_the_protocol(last: Producer | None, epoch: int, seq: int, verdict: Verdict) -> None:
    assert judge(last, epoch, seq) is verdict
