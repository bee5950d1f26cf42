"""What runs contribute to whole windows, and the windows that come of it. In threads only: it loads pyarrow.

Keeps    a window that consists of known pieces, and of nothing else, is added up and spelled once.
"""

from bisect import bisect_left
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indexers.rollups import Rollups
from streams_node.searching.aggregated import Asked, Times, Windows, answerable
from streams_node.searching.remembered import Piece, Room, Shelf, Window
from streams_node.searching.totals import Texts, added, groups_of, placed, summed


class TimeIsOver(Exception):
    """The deadline has passed."""


class Stretch(NamedTuple):
    """Some windows of a piece: from the one at `low` to the one before `high`."""

    piece: Piece
    low: int
    high: int

    @property
    def starts(self) -> Sequence[int]:
        return self.piece.starts[self.low : self.high]

    @property
    def rows(self) -> int:
        return self.piece.places[self.high] - self.piece.places[self.low]

    def table(self, wanted: AbstractSet[int] | None = None) -> Any:
        """The rows of these windows; of those that are wanted."""
        rows = self.piece.table.slice(self.piece.places[self.low], self.rows)
        starts = self.starts if wanted is None else [start for start in self.starts if start in wanted]
        if len(starts) == self.high - self.low:
            return rows
        return rows.filter(pc.is_in(rows.column("start"), pa.array(starts, pa.int64())))


@dataclass(slots=True)
class Share:
    """What some sources have: windows of pieces, and rows of windows that are in none."""

    stretches: list[Stretch] = field(default_factory=list)
    tables: list[Any] = field(default_factory=list)


_Wanted = tuple[frozenset[int], Share]  # of these sources, to this share


@dataclass(slots=True)
class Taken:
    """Of one run: what the sources have that have nothing at the edges, and those that have, each by itself."""

    whole: Share
    parts: dict[int, Share]


def of_run(
    reader: Rollups, stream: int, asked: Asked, times: Times, ordinals: AbstractSet[int], shelf: Shelf, room: Room
) -> Taken:  # fmt: skip
    """What sources of a run contribute to whole windows. Those with something at the edges are kept apart."""
    run = _Run(reader, stream, asked, shelf, room)
    edged = run.edged(times.edges, ordinals)
    taken = Taken(Share(), {ordinal: Share() for ordinal in edged})
    shares = [(frozenset(ordinals - edged), taken.whole)]
    shares += [(frozenset([ordinal]), share) for ordinal, share in taken.parts.items()]
    for windows in times.windows:
        (run.take_pieces if windows.interval == asked.interval else run.take_rows)(windows, shares)
    for _, share in shares:
        share.tables = [table for table in [added(share.tables)] if table is not None]
    return taken


class _Run:
    """A run that is asked."""

    def __init__(self, reader: Rollups, stream: int, asked: Asked, shelf: Shelf, room: Room) -> None:
        self._reader, self._stream, self._asked = reader, stream, asked
        self._shelf, self._room = shelf, room
        self._name = asked.rollup.name
        self._texts = Texts(asked if answerable(asked) else asked._replace(plan=None))
        some = set(asked.measures) != set(asked.rollup.measures)
        self._measures = pa.array(asked.measures, pa.string()) if some else None

    def edged(self, edges: Sequence[tuple[int, int]], ordinals: AbstractSet[int]) -> set[int]:
        """The sources that may have something to count at the edges: the smallest windows around them tell."""
        finest = min(each.ms for each in self._asked.rollup.intervals)
        found = set[int]()
        for begin, end in edges:
            first, last = begin // finest * finest, (end - 1) // finest * finest
            for rows in self._reader.tables_within(self._stream, self._name, finest, first, last):
                self._look_at_the_clock()
                found.update(pc.unique(self._texts.taken(_of_sources(rows, ordinals)).column("object")).to_pylist())
        return found

    def take_pieces(self, windows: Windows, shares: Sequence[_Wanted]) -> None:
        """Windows of the answer."""
        interval, begin, end = windows
        for number in self._reader.numbers_within(self._stream, self._name, interval, begin, end - interval):
            self._look_at_the_clock()
            known = self._sources(number, interval)
            for sources, share in shares:
                if not sources & known:
                    continue
                piece = self._piece(number, interval, sources & known)
                stretch = Stretch(piece, bisect_left(piece.starts, begin), bisect_left(piece.starts, end))
                if self._room.take(stretch.rows):
                    share.stretches.append(stretch)
                else:
                    share.tables.append(stretch.table())

    def take_rows(self, windows: Windows, shares: Sequence[_Wanted]) -> None:
        """Windows that are parts of those of the answer."""
        interval, begin, end = windows
        for rows in self._reader.tables_within(self._stream, self._name, interval, begin, end - interval):
            self._look_at_the_clock()
            for sources, share in shares:
                share.tables.append(self._summed(_of_sources(rows, sources)))

    def _look_at_the_clock(self) -> None:
        if self._asked.late:
            raise TimeIsOver

    def _sources(self, number: int, interval: int) -> frozenset[int]:
        known = self._shelf.sources(self._reader.name, number)
        if known is None:
            rows = self._reader.rows_in(number, self._stream, self._name, interval)
            known = frozenset(pc.unique(rows.column("object")).to_pylist())
            self._shelf.keep_sources(self._reader.name, number, known)
        return known

    def _piece(self, number: int, interval: int, sources: frozenset[int]) -> Piece:
        piece = self._shelf.piece(self._reader.name, number, sources)
        if piece is None:
            rows = self._reader.rows_in(number, self._stream, self._name, interval)
            some = sources != self._sources(number, interval)
            table = self._summed(_of_sources(rows, sources) if some else rows).sort_by("start")
            counts = pc.value_counts(table.column("start"))
            places = [0, *accumulate(counts.field("counts").to_pylist())]
            starts = counts.field("values").to_pylist()
            piece = self._shelf.keep_piece(self._reader.name, number, sources, table, starts, places)
        return piece

    def _summed(self, rows: Any) -> Any:
        if self._measures is not None:
            rows = rows.filter(pc.is_in(rows.column("measure"), self._measures))
        return summed(placed(self._texts.taken(rows), self._asked.interval, self._texts))


def _of_sources(rows: Any, sources: AbstractSet[int]) -> Any:
    return rows.filter(pc.is_in(rows.column("object"), pa.array(sorted(sources), pa.int32())))


# --- the windows of the answer ---


def windows_of(
    stretches: Sequence[Stretch], table: Any, asked: Asked, shelf: Shelf, groups_max: int
) -> list[bytes]:  # fmt: skip
    """The windows by time, as they are spelled: of stretches, and of a table of rows beside them."""
    lying: dict[int, tuple[int, ...]] = {}
    for stretch in stretches:
        for start in stretch.starts:
            lying[start] = (*lying.get(start, ()), stretch.piece.number)
    touched = frozenset[int]() if table is None else frozenset(pc.unique(table.column("start")).to_pylist())
    found: dict[int, Window] = {}
    for start, pieces in lying.items():
        known = None if start in touched else shelf.window(start, pieces)
        if known is not None:
            found[start] = known
    missing = lying.keys() - found.keys()
    groups_max -= sum(window.groups for window in found.values())
    rows = added([table, *(stretch.table(missing) for stretch in stretches)])
    for start, of_start in groupby(groups_of(rows, groups_max), key=attrgetter("start")):
        groups = list(of_start)
        found[start] = Window(asked.spelled(start, groups), len(groups))
        if start not in touched:
            shelf.keep_window(start, lying[start], found[start])
    return [found[start].text for start in sorted(found)]
