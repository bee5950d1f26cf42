"""What an answer about a whole stream rests on: a plain value, alike for all kinds of aggregations."""

from dataclasses import dataclass, field

from streams_node.answers.ranges import Range
from streams_node.wal.tails import LogEnd


@dataclass(slots=True, kw_only=True)
class Basis:
    """What of the stream is not in the answer, and where the rest came from. `logged` entries are in the log."""

    tail: LogEnd
    omitted: list[Range]
    timed_out: bool
    logged: list[Range]
    used_rollups: bool = False
    indexed: int = 0  # covers
    scanned: int = 0  # sealed objects
    tail_docs: int = 0
    omitted_objects: int = 0
    oldest_omitted_us: int | None = None
    families: set[str] = field(default_factory=set)
