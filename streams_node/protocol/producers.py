"""Idempotent producers: what a (producer, epoch, seq) means against what was accepted last."""

from enum import Enum, auto
from typing import NamedTuple

SEQ_MAX = (1 << 53) - 1  # what a JavaScript client can count to


class Producer(NamedTuple):
    """The newest accepted request of one producer: its triple, and the stream's tail right after it."""

    epoch: int
    seq: int
    next_seq: int


class Verdict(Enum):
    ACCEPT = auto()
    DUPLICATE = auto()
    FENCED = auto()  # an older epoch than the one accepted last
    GAP = auto()  # a sequence number was skipped
    MUST_START_AT_ZERO = auto()  # a new epoch that does not begin at 0


def judge(last: Producer | None, epoch: int, seq: int) -> Verdict:
    """The verdict on a request; an unknown producer may begin in any epoch, always at 0."""
    if last is None:
        return Verdict.ACCEPT if seq == 0 else Verdict.GAP
    if epoch < last.epoch:
        return Verdict.FENCED
    if epoch > last.epoch:
        return Verdict.ACCEPT if seq == 0 else Verdict.MUST_START_AT_ZERO
    if seq <= last.seq:
        return Verdict.DUPLICATE
    return Verdict.ACCEPT if seq == last.seq + 1 else Verdict.GAP


def expected_seq(last: Producer | None) -> int:
    """The sequence number that would have been accepted."""
    return 0 if last is None else last.seq + 1
