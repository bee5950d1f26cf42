"""Which tiers a read asks, in which order. A plan is a list of parts, each a stretch of sequences from one place.

Today the log holds everything. Packs, segments and the entries a fork shares with its source become further kinds of
parts: `pages.py` walks whatever is here.
"""

from typing import NamedTuple

from streams_node.wal.tails import LogEnd


class LogPart(NamedTuple):
    """Entries [start, end.seq) of one incarnation, in the log."""

    stream: int
    start: int
    end: LogEnd


def plan(stream: int, start: int, tail: LogEnd) -> list[LogPart]:
    """The parts that hold the entries from `start` to the tail, in order."""
    return [LogPart(stream, start, tail)] if start < tail.seq else []
