"""How far a streaming query has come: sequences of streams, so that it holds however objects are merged meanwhile."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_index.source.plan import Spans

if TYPE_CHECKING:
    from spark_index.source.catalogue import Generation


class Position(NamedTuple):
    """`ends` has each incarnation with the sequence of its next entry. All rows of the log up to `row` were read, of
    these incarnations: an object of older rows only holds nothing new of them.
    """

    ends: Mapping[int, int] = {}
    row: int = 0

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Position":
        """From what Spark kept in its checkpoint."""
        return cls({int(stream): int(end) for stream, end in document["ends"].items()}, int(document["row"]))

    def document(self) -> dict[str, Any]:
        """As Spark keeps it: JSON."""
        return {"row": self.row, "ends": {str(stream): end for stream, end in sorted(self.ends.items())}}


def latest(start: Position, found: "Generation", entries_max: int | None) -> Position:
    """As far as the bucket goes, or `entries_max` entries on: oldest streams first."""
    left, ends = entries_max, {}
    for stream in found.streams:
        first = max(start.ends.get(stream.id, 0), stream.earliest_seq)
        end = max(first, stream.next_seq)
        if left is not None:
            end = min(end, first + left)
            left -= end - first
        ends[stream.id] = end
    caught_up = all(ends[stream.id] >= stream.next_seq for stream in found.streams)
    return Position(ends, max(start.row, found.through_row) if caught_up else start.row)


def between(start: Position, end: Position, found: "Generation") -> Spans:
    """The entries of a batch, as far as they are still there."""
    return {
        stream.id: (max(start.ends.get(stream.id, 0), stream.earliest_seq), min(end.ends[stream.id], stream.next_seq))
        for stream in found.streams
        if stream.id in end.ends
    }
