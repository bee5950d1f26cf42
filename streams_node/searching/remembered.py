"""What rollups add up to, kept from one aggregation to the next.

Keeps    what is kept is of index objects that never change, and of the sources whose covers were used: an answer takes
         what is of the same ones. All of it together is bounded by bytes; the question that was not asked for longest
         leaves first. One that alone would take half of the room is not kept.
Dies     with the process.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from itertools import count
from sys import getsizeof
from typing import Any, NamedTuple

from search.language import Plan

_PIECE_BYTES, _WINDOW_BYTES = 2000, 400  # beside tables and texts, about
_START_BYTES = 100
_ROWS_MAX = 1 << 20  # about 100 megabytes


class Question(NamedTuple):
    """What the same windows answer, whatever time they are asked for. `config` is the hash of a rollup's covers."""

    stream: int
    config: str
    rollup: str
    interval: int
    plan: Plan | None
    group_by: tuple[str, ...]
    measures: tuple[str, ...]


class Piece(NamedTuple):
    """What some sources of a row group of a run add up to: rows by start, of which each begins at a place."""

    number: int
    table: Any
    starts: Sequence[int]
    places: Sequence[int]  # one more than there are starts

    @property
    def size(self) -> int:
        """In memory, about."""
        return _PIECE_BYTES + _START_BYTES * len(self.starts) + int(self.table.nbytes)


class Window(NamedTuple):
    """A window of an answer as it is spelled, and how many groups it has."""

    text: bytes
    groups: int


class Room:
    """Rows of pieces that one answer may hold: what is beyond it is added up as it comes."""

    def __init__(self) -> None:
        self._rows = _ROWS_MAX

    def take(self, rows: int) -> bool:
        """Whether there is room for them."""
        self._rows -= rows
        return self._rows >= 0


class Shelf:
    """What is known of a question. In any thread: what is there is never changed."""

    def __init__(self, kept: "Kept", question: Question) -> None:
        self._kept, self._question = kept, question
        self._numbers = count()
        self._sources: dict[tuple[str, int], frozenset[int]] = {}
        self._pieces: dict[tuple[str, int, frozenset[int]], Piece] = {}
        self._windows: dict[tuple[int, tuple[int, ...]], Window] = {}
        self.size = 0

    def sources(self, made: str, group: int) -> frozenset[int] | None:
        """Of which sources a row group of a run has rows; None: not known."""
        return self._sources.get((made, group))

    def keep_sources(self, made: str, group: int, sources: frozenset[int]) -> None:
        if self._sources.setdefault((made, group), sources) is sources:
            self._kept.charge(self._question, self, getsizeof(sources))

    def piece(self, made: str, group: int, sources: frozenset[int]) -> Piece | None:
        """What these sources of a row group add up to, if that is known."""
        return self._pieces.get((made, group, sources))

    def keep_piece(
        self, made: str, group: int, sources: frozenset[int], table: Any, starts: Sequence[int], places: Sequence[int]
    ) -> Piece:
        """The piece that is known from now on: another thread may have been faster."""
        mine = Piece(next(self._numbers), table, starts, places)
        piece = self._pieces.setdefault((made, group, sources), mine)
        if piece is mine:
            self._kept.charge(self._question, self, piece.size + getsizeof(sources))
        return piece

    def window(self, start: int, pieces: tuple[int, ...]) -> Window | None:
        """The window of these pieces and of nothing else, if it is known."""
        return self._windows.get((start, pieces))

    def keep_window(self, start: int, pieces: tuple[int, ...], window: Window) -> None:
        if self._windows.setdefault((start, pieces), window) is window:
            self._kept.charge(self._question, self, len(window.text) + _WINDOW_BYTES)


class Kept:
    """All that is kept. In any thread."""

    def __init__(self, bytes_max: int) -> None:
        self._lock = threading.Lock()
        self._bytes_max = bytes_max
        self._shelves: OrderedDict[Question, Shelf] = OrderedDict()
        self.bytes = 0

    def shelf(self, question: Question) -> Shelf:
        """Of a question that is asked now."""
        with self._lock:
            shelf = self._shelves.get(question)
            if shelf is None:
                shelf = self._shelves[question] = Shelf(self, question)
            self._shelves.move_to_end(question)
            return shelf

    def bound(self, bytes_max: int) -> None:
        """Another bound from now on."""
        with self._lock:
            self._bytes_max = bytes_max
            self._make_room()

    def charge(self, question: Question, shelf: Shelf, size: int) -> None:
        """Count what came to a shelf, and make room."""
        with self._lock:
            shelf.size += size
            if self._shelves.get(question) is not shelf:
                return  # it left meanwhile
            self.bytes += size
            if 2 * shelf.size > self._bytes_max:
                self._leave(question)
            self._make_room()

    def _make_room(self) -> None:
        while self.bytes > self._bytes_max and self._shelves:
            self._leave(next(iter(self._shelves)))

    def _leave(self, question: Question) -> None:
        self.bytes -= self._shelves.pop(question).size
