"""Which parts of which objects hold the entries that are asked for: plain values in and out."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from spark_index.source.filters import Wanted

if TYPE_CHECKING:
    from spark_index.source.catalogue import Stream
    from streams_node.placement.made import ObjectFacts
    from streams_node.segments.directory import Directory


VIEWS_MAX = 1000  # that a part has without a look at which of them its pack holds: each takes some 100 bytes on its way


class View(NamedTuple):
    """Entries [first, end) of objects of incarnation `life`, as entries of a stream."""

    life: int
    first: int
    end: int
    bucket: str
    name: str
    id: int
    epochs: tuple[tuple[int, int], ...]
    after_row: int = 0  # they are in no object whose rows of the log all are at or below this one


class Part(NamedTuple):
    """A piece of an object, of `pieces` of about one size."""

    key: str
    made: str
    sha256: str
    size: int
    piece: int
    pieces: int
    views: tuple[View, ...]


Spans = Mapping[int, tuple[int, int]]  # of streams: entries [first, end)


def spans_of(streams: Iterable["Stream"], wanted: Wanted) -> Spans:
    """All that the bucket holds of the streams, within the bounds."""
    return {
        stream.id: (max(stream.earliest_seq, wanted.first_seq), min(stream.next_seq, wanted.end_seq))
        for stream in streams
        if wanted.stream(stream)
    }


def views_of(streams: Iterable["Stream"], spans: Spans, after_row: Callable[["Stream"], int]) -> list[View]:
    """The spans, cut where a fork leaves what it was forked from; ascending by life."""
    return sorted(view for stream in streams if stream.id in spans for view in _cut(stream, spans, after_row))


def _cut(stream: "Stream", spans: Spans, after_row: Callable[["Stream"], int]) -> Iterator[View]:
    first, end = spans[stream.id]
    for life, start in stream.lives:
        low = max(first, start)
        if low < end:
            # What was shared by a fork may lie in objects that are older than the fork.
            row = after_row(stream) if life == stream.id else 0
            yield View(life, low, end, stream.bucket, stream.name, stream.id, stream.epochs, row)
        end = min(end, start)


def parts_of(
    objects: Iterable["ObjectFacts"],
    views: list[View],
    wanted: Wanted,
    partition_bytes: int,
    directory_of: Callable[["ObjectFacts"], "Directory"],
) -> list[Part]:
    """One part an object, several of a big one, in the order of their first entries' times."""
    lives = [view.life for view in views]
    parts = []
    for facts in sorted(objects, key=lambda facts: (facts.min_ts, facts.made)):
        if facts.max_ts < wanted.first_us or facts.min_ts >= wanted.end_us:
            continue
        low, high = bisect_left(lives, facts.min_stream), bisect_left(lives, facts.max_stream + 1)
        mine = tuple(view for view in views[low:high] if _may_hold(facts, view))
        if facts.stream is None and len(mine) > VIEWS_MAX:
            mine = _held(mine, directory_of(facts))
        if mine:
            pieces = max(1, round(facts.bytes / partition_bytes))
            whole = Part(facts.key(), facts.made, facts.sha256, facts.bytes, 0, pieces, mine)
            parts += [whole._replace(piece=piece) for piece in range(pieces)]
    return parts


def _may_hold(facts: "ObjectFacts", view: View) -> bool:
    if facts.last_row <= view.after_row:
        return False
    return facts.stream is None or (facts.first_seq < view.end and view.first < facts.end_seq)


def _held(views: tuple[View, ...], directory: "Directory") -> tuple[View, ...]:
    found = []
    for view in views:
        place = directory.find(view.life)
        if place is not None and place.first_seq < view.end and view.first < place.first_seq + place.entries:
            found.append(view)
    return tuple(found)
