"""The bounds of numbers and dates by blocks of a stream's rows: of a companion of very many entries, few of them have
what comes first in some order.

A block is the rows whose sequences differ in their last BLOCK_BITS only. The zones of a stream are all of those that a
companion has of it, or none: of streams with few entries, or with few at a time, the companion's bounds are enough.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indexers.messages import Cover
from indexers.records import Column, Table
from streams_node.schema.search_config import Field, Kind

# Sixteen thousand rows: some tenths of a millisecond for a search. A part of the format, as `block` is made of it.
BLOCK_BITS = 14
ENTRIES_MIN = 4096  # of a stream in a companion
_RUN_MIN = 256  # rows of one block in a row, on average: with fewer, to look at each takes longer than it helps,
_PIECE_MIN = 16  # and streams that come in smaller pieces than this have no zones
BOUNDED = (Kind.INTEGER, Kind.DATE, Kind.FLOAT)
_Bounds = Mapping[str, tuple[str, str]]
_Span = tuple[int, int]


class Zone(msgspec.Struct, frozen=True, kw_only=True):
    """A block of a stream: so many entries, and of each field that has values there the least and the greatest."""

    stream: int
    block: int
    entries: int
    bounds: _Bounds


class Zones:
    """The zones of a companion in the making."""

    def __init__(self, fields: Iterable[Field]) -> None:
        self._fields = [each for each in fields if each.kind in BOUNDED]
        self._entries = Counter[tuple[int, int]]()
        self._bounds: dict[tuple[int, int], dict[str, tuple[Any, Any]]] = {}
        self._none: set[int] = set()

    def note(self, streams: Sequence[int], seqs: Sequence[int], table: Table) -> None:
        """The next documents, in order, and what they have in the fields."""
        runs, at = list[tuple[tuple[int, int], int, int]](), 0
        for key, some in groupby(zip(streams, map(block_of, seqs), strict=True)):
            count = sum(1 for _ in some)
            runs.append((key, at, at + count))
            at += count
        if len(runs) > 4 + len(seqs) // _RUN_MIN:
            pieces = Counter(stream for (stream, _), _, _ in runs)
            self._none.update(stream for stream, rows in Counter(streams).items() if rows < _PIECE_MIN * pieces[stream])
        for key, begin, end in runs:
            if key[0] in self._none:
                continue
            self._entries[key] += end - begin
            known = self._bounds.setdefault(key, {})
            for field in self._fields:
                found = bounds(table.column(field), field.kind, begin, end)
                if found is not None:
                    known[field.name] = wider(known.get(field.name), found)

    def zones(self) -> list[Zone]:
        totals = Counter[int]()
        for (stream, _), count in self._entries.items():
            totals[stream] += count
        return [
            Zone(stream=stream, block=block, entries=self._entries[stream, block], bounds={
                name: (repr(least), repr(most)) for name, (least, most) in self._bounds[stream, block].items()
            })
            for stream, block in sorted(self._entries)
            if stream not in self._none and totals[stream] >= ENTRIES_MIN
        ]  # fmt: skip


def bounds(column: Column, kind: Kind, begin: int, end: int) -> tuple[Any, Any] | None:
    """The least and the greatest value of some records; None when they have none."""
    array = column.array(kind)
    if array is not None:
        found = pc.min_max(array.slice(begin, end - begin)).as_py()
        return None if found["min"] is None else (found["min"], found["max"])
    if column.many:
        values = [value for at in range(begin, end) for value in column.of(at)]
    else:
        values = [value for value in column.values[begin:end] if value is not None]
    return (min(values), max(values)) if values else None


def joined(parts: Sequence[tuple[Sequence[Zone], _Bounds, Sequence[Cover]]]) -> list[Zone]:
    """The zones of several companions as one. `parts`: of each its zones, its bounds, and the covers that live."""
    totals = Counter[int]()
    for _, _, living in parts:
        for cover in living:
            totals[cover.stream] += cover.entries
    found: dict[tuple[int, int], Zone] = {}
    for some, known, living in parts:
        for zone in _living(some, known, [cover for cover in living if totals[cover.stream] >= ENTRIES_MIN]):
            other = found.get((zone.stream, zone.block))
            found[zone.stream, zone.block] = zone if other is None else _both(other, zone)
    return [found[key] for key in sorted(found)]


def _living(some: Sequence[Zone], known: _Bounds, living: Sequence[Cover]) -> Iterator[Zone]:
    """The zones of some covers. Where there is none, the bounds of the companion hold for each block."""
    own = {(zone.stream, zone.block): zone for zone in some}
    entries = Counter[tuple[int, int]]()
    for cover in living:
        for block, (first, end) in cut([(cover.first_seq, cover.end_seq)]):
            entries[cover.stream, block] += end - first
    for (stream, block), count in entries.items():
        zone = own.get((stream, block))
        yield Zone(stream=stream, block=block, entries=count, bounds=known) if zone is None else zone


def cut(spans: Sequence[_Span]) -> Iterator[tuple[int, _Span]]:
    """The parts of spans, each in one block."""
    for first, end in spans:
        at = first
        while at < end:
            stop = min(end, last_of(at) + 1)
            yield block_of(at), (at, stop)
            at = stop


def block_of(row: int) -> int:
    return row >> BLOCK_BITS


def blocks_of(rows: Any) -> Any:
    """Of an Arrow array of u64."""
    return pc.shift_right(rows, pa.scalar(BLOCK_BITS, pa.uint64()))


def first_of(row: int) -> int:
    """The first row of its block."""
    return row >> BLOCK_BITS << BLOCK_BITS


def last_of(row: int) -> int:
    return first_of(row) + (1 << BLOCK_BITS) - 1


def number(text: str) -> float | int:
    """A bound that is written as text."""
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _both(one: Zone, other: Zone) -> Zone:
    wide = dict(one.bounds)
    for name, (least, most) in other.bounds.items():
        known = wide.get(name, (least, most))
        wide[name] = min(known[0], least, key=number), max(known[1], most, key=number)
    return Zone(stream=one.stream, block=one.block, entries=one.entries + other.entries, bounds=wide)


def wider(known: tuple[Any, Any] | None, found: tuple[Any, Any]) -> tuple[Any, Any]:
    """The bounds of both."""
    return found if known is None else (min(known[0], found[0]), max(known[1], found[1]))
