"""The judge itself: each way in which a node could break its promises is seen, and what is allowed is not."""

import re
from collections.abc import Sequence

import pytest

from tests.crash.load import body_of
from tests.crash.model import Broken, Found, Outcome, Presence, Stream, place
from tests.crash.readback import compare_listing, entries_of

ZERO = "00000000000000000000000000"


def token(epoch: int, seq: int) -> str:
    digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    bits = (epoch << 96 | seq << 32) << 2
    return "".join(digits[bits >> 5 * at & 31] for at in reversed(range(26)))


@pytest.fixture(name="stream")
def _stream() -> Stream:
    """A stream with two acknowledged appends, an open batch of three, and one that was refused."""
    stream = Stream("/v1/stream/s", json=True)
    stream.created(stream.creating("w"), token(0, 0))
    for seq, entry in enumerate(("one", "two"), 1):
        stream.acknowledge(stream.attempt("w", [entry]), token(0, seq))
    stream.attempt("v", ["a", "b", "c"])
    stream.attempt("u", ["never"]).refused()
    return stream


def found(entries: Sequence[str], *, epoch: int = 0, closed: bool = False, tail: int | None = None) -> Found:
    return Found(epoch, len(entries) if tail is None else tail, closed, list(entries))


def test_a_token_is_read_as_its_numbers() -> None:
    assert place(ZERO) == (0, 0)
    assert place(token(3, 1 << 40)) == (3, 1 << 40)


@pytest.mark.parametrize("entries", [["one", "two"], ["one", "two", "a", "b", "c"]])
def test_what_is_allowed_settles_the_open_append(stream: Stream, entries: list[str]) -> None:
    stream.settle(found(entries))
    assert stream.attempts[3].outcome is (Outcome.STORED if "a" in entries else Outcome.REFUSED)
    stream.settle(found(entries))


@pytest.mark.parametrize(
    ("seen", "complaint"),
    [
        (found(["one"]), "acknowledged 'two' is lost"),
        (found([]), "acknowledged 'one' is lost"),
        (found(["one", "two", "two"]), "stands at 1 and at 2"),
        (found(["two", "one"]), "was at 1 before, now at 2"),
        (found(["one", "a", "b", "c", "two"]), "was at 2 before, now at 5"),
        (found(["one", "two", "a", "b"]), "is not a whole run"),
        (found(["one", "two", "c", "b", "a"]), "is not a whole run"),
        (found(["one", "two", "never"]), "was refused and is there"),
        (found(["one", "two", "invented"]), "nobody sent"),
        (found(["one", "two"], tail=3), "the tail says 3, 2 were read"),
        (found(["one", "two"], closed=True), "nobody closed it"),
        (found(["one", "two"], epoch=1), "without a new life"),
        (None, "is not there"),
    ],
)
def test_what_is_broken_is_seen(stream: Stream, seen: Found | None, complaint: str) -> None:
    with pytest.raises(Broken, match=re.escape(complaint)):
        stream.settle(seen)


def test_what_was_settled_as_lost_may_not_come_back(stream: Stream) -> None:
    stream.settle(found(["one", "two"]))
    with pytest.raises(Broken, match="was refused and is there"):
        stream.settle(found(["one", "two", "a", "b", "c"]))


def test_what_a_reader_saw_stays_where_it_was(stream: Stream) -> None:
    stream.saw(0, ["one", "two", "a"])
    with pytest.raises(Broken, match="a reader saw 'a' at 2"):
        stream.settle(found(["one", "two"]))


def test_the_order_of_open_appends_follows_the_clock(stream: Stream) -> None:
    stream.settle(found(["one", "two", "a", "b", "c"]))
    late = stream.attempt("t", ["late"])
    assert late.sent > stream.attempts[3].answered
    with pytest.raises(Broken, match="was at 5 before"):
        stream.settle(found(["one", "two", "late", "a", "b", "c"]))
    stream.attempts[3].end = None
    with pytest.raises(Broken, match="'late' was sent after"):
        stream.settle(found(["one", "two", "late", "a", "b", "c"]))


def test_closed_stays_closed_at_its_end(stream: Stream) -> None:
    stream.acknowledge(stream.attempt("w", [], closes=True), token(0, 2))
    stream.settle(found(["one", "two"], closed=True))
    for seen in (found(["one", "two"]), found(["one", "two", "a", "b", "c"], closed=True)):
        with pytest.raises(Broken):
            stream.settle(seen)


def test_an_open_closure_is_settled_once(stream: Stream) -> None:
    stream.attempt("w", ["last"], closes=True)
    with pytest.raises(Broken, match="its closure is not"):
        stream.settle(found(["one", "two", "last"]))
    stream.settle(found(["one", "two", "last"], closed=True))
    assert stream.final == 3


def test_deleted_stays_deleted_and_a_new_life_is_above_the_old(stream: Stream) -> None:
    stream.gone()
    with pytest.raises(Broken, match="it was deleted"):
        stream.settle(found(["one", "two"]))
    stream.creating("w", ["new"])
    with pytest.raises(Broken, match="belongs to an earlier life"):
        stream.settle(found(["new"]))
    stream.settle(found(["new"], epoch=1))


def test_an_open_delete_is_settled_by_what_is_there(stream: Stream) -> None:
    stream.presence = Presence.DELETING
    stream.settle(found(["one", "two"]))
    assert stream.presence is Presence.PRESENT
    stream.presence = Presence.DELETING
    stream.settle(None)
    assert stream.presence is Presence.ABSENT


def test_a_window_is_neither_shortened_nor_endless() -> None:
    stream = Stream("/v1/stream/s", ttl_s=10)
    stream.created(stream.creating("w"), token(0, 0))
    stream.touched(100.0, 100.5)
    with pytest.raises(Broken, match="is not there"):
        stream.missing(109.9)
    with pytest.raises(Broken, match="its time was over"):
        stream.settle(found([]), 112.0, 112.1)
    stream.settle(found([]), 111.0, 111.1)
    stream.settle(None, 121.2, 121.3)
    assert stream.presence is Presence.ABSENT


def test_a_listing_names_the_living_with_their_ends(stream: Stream) -> None:
    stream.settle(found(["one", "two"]))
    compare_listing({"s": {"next_offset": "2"}}, [stream])
    for listed in ({}, {"s": {"next_offset": "1"}}, {"s": {"next_offset": "2"}, "t": {"next_offset": "0"}}):
        with pytest.raises(Broken):
            compare_listing(listed, [stream])


def test_bodies_and_pages_mean_the_same_entries(stream: Stream) -> None:
    lines = Stream("/v1/stream/l")
    assert entries_of(lines, body_of(lines, lines.attempt("w", ["one\n"])) + b"two\n") == ["one\n", "two\n"]
    assert entries_of(stream, body_of(stream, stream.attempts[3])) == ["a", "b", "c"]
    with pytest.raises(Broken, match="within an entry"):
        entries_of(lines, b"one\ntw")
