"""Parsed entries at the ends of streams that are searched: a search parses only what came since the last one.

Keeps    a window is of neighbouring entries up to some moment's end, promoted as the stream means them now. All windows
         together are bounded by bytes; those of the stream that was not searched for longest leave first, and what is
         in none is read like anything else.
"""

import asyncio
import sys
import time
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

from search.engine.bm25 import spoken
from search.language import values
from streams_node.errors import StreamsError
from streams_node.ingest.state import StreamState
from streams_node.meaning import Meaning
from streams_node.observe.logs import get_logger
from streams_node.read.cold import ColdReader
from streams_node.read.filtered import parsed
from streams_node.read.keyed import Chunk, Lenses, Pruner
from streams_node.read.scan import Bounds, read_matching
from streams_node.schema.search_config import Field
from streams_node.searching.sieve import Lenient
from streams_node.wal.database import Database

log = get_logger(__name__)
ENTRIES_MAX = 8192  # of one stream: a mini-companion takes over long before
_TEXT_BYTES_MAX = 8 << 20  # of one stream
_PIECE = 512  # entries
_STEP_BYTES = 4 << 20
_NOTHING_SHOWN = 1 << 20
_TIMES_TEXT, _ENTRY_BYTES = 5, 1000  # what a parsed record and its words take, measured with log events of 13 fields
_LEARNT_MAX = 6  # fields of which searches have asked; each takes as much as it has of the entries
_VALUES_MAX = 2 * _PIECE  # of a keyword in a piece: some 200 KB
_LEARNING_BYTES = 400  # to learn of an empty entry takes as long as of so many bytes
_ROOM = 1.25  # entries are of different sizes


@dataclass(frozen=True, eq=False)
class Piece:
    """Neighbouring entries from `first` on; never changed. `plain`: the records are what their texts spell.

    `learnt` is what searches have found out about its first entries, one after another: others need it, too, and a
    longer piece begins with it.
    """

    first: int
    texts: Sequence[bytes]
    records: Sequence[object]
    plain: bool
    learnt: dict[object, Any] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.first + len(self.texts)

    @cached_property
    def size(self) -> int:
        """In memory, about."""
        return _TIMES_TEXT * sum(map(len, self.texts)) + _ENTRY_BYTES * len(self.texts)

    def may_hold(self, text: bytes) -> Sequence[int]:
        """The entries that may have a lower-case text of ASCII in some string: by their places, in order.

        An entry of ASCII without escapes spells its strings as they are. Any other one may hold any text.
        """
        if not self.plain:
            return range(len(self.texts))
        known: _Spelled = self.learnt.get(_Spelled, _NOTHING_SPELLED)
        if len(known.begins) < len(self.texts):
            known = self.learnt[_Spelled] = known.and_then(self.texts[len(known.begins) :])
        return known.may_hold(text)

    def spoken(self, field: Field, version: int) -> Sequence[tuple[str, int]]:
        """The words of each entry in a text."""
        known: Sequence[tuple[str, int]] = self.learnt.get((field.name, version), ())
        if len(known) < len(self.records):
            self._forget_one()
            said = map(spoken(field, version), self.records[len(known) :])
            known = self.learnt[field.name, version] = [*known, *said]
        return known

    @cached_property
    def text_bytes(self) -> int:
        return sum(map(len, self.texts))

    def with_value(self, field: Field, version: int, value: object) -> Sequence[int] | None:
        """The entries with a value of a keyword: by their places, in order; None where entries have too many values."""
        known = self._valued(field, version)
        if known.entries < len(self.records):
            self._forget_one()
            known = known.and_then(map(values(field, version), self.records[known.entries :]))
            self.learnt[_Valued, field.name, version] = known
        return None if known.places is None else known.places.get(value, ())

    def unlearnt(self, field: Field, version: int) -> int:
        """Bytes of the entries whose values of a keyword nobody has asked for yet, and what each takes besides."""
        some = self.texts[self._valued(field, version).entries :]
        return sum(map(len, some)) + _LEARNING_BYTES * len(some)

    def _valued(self, field: Field, version: int) -> "_Valued":
        return self.learnt.get((_Valued, field.name, version), _NOTHING_VALUED)  # type: ignore[no-any-return]

    def _forget_one(self) -> None:
        if len(self.learnt) > _LEARNT_MAX:
            with suppress(RuntimeError):  # another thread learns just now
                self.learnt.pop(next(iter(self.learnt)), None)

    def and_then(self, other: "Piece") -> "Piece":
        """A longer one."""
        texts, records = [*self.texts, *other.texts], [*self.records, *other.records]
        return Piece(self.first, texts, records, self.plain and other.plain, dict(self.learnt))


class _Spelled(NamedTuple):
    """Entries in lower case, each with a line's end; where each begins, and which ones are not spelled as they are."""

    text: bytes
    begins: Sequence[int]
    strange: Sequence[int]

    def and_then(self, texts: Sequence[bytes]) -> "_Spelled":
        begins = accumulate((len(text) + 1 for text in texts[:-1]), initial=len(self.text))
        strange = (at for at, text in enumerate(texts, len(self.begins)) if b"\\" in text or not text.isascii())
        text = b"".join((self.text, b"\n".join(texts).lower(), b"\n"))
        return _Spelled(text, [*self.begins, *begins], [*self.strange, *strange])

    def may_hold(self, text: bytes) -> Sequence[int]:
        found, at = list[int](), self.text.find(text)
        while at >= 0:
            number = bisect_right(self.begins, at) - 1
            found.append(number)
            at = self.text.find(text, self.begins[number + 1]) if number + 1 < len(self.begins) else -1
        return sorted({*found, *self.strange}) if self.strange else found


_NOTHING_SPELLED = _Spelled(b"", [], [])


class _Valued(NamedTuple):
    """The values of a keyword in the first so many entries, and where they are; None: too many. Never changed."""

    entries: int
    seen: int  # values
    places: Mapping[object, tuple[int, ...]] | None

    def and_then(self, more: Iterable[Sequence[object]]) -> "_Valued":
        places, entries, seen = dict(self.places or {}), self.entries, self.seen
        for some in more:
            seen += len(some)
            if seen > _VALUES_MAX:
                return _Valued(sys.maxsize, seen, None)
            for value in set(some):
                places[value] = (*places.get(value, ()), entries)
            entries += 1
        return _Valued(entries, seen, places)


_NOTHING_VALUED = _Valued(0, 0, {})


class Collector:
    """A sieve that shows nothing: it keeps all entries before `end`, as they are stored and as they are promoted."""

    key: str | None = None
    pruner: Pruner | None = None

    def __init__(self, lenses: Lenses, end: int) -> None:
        self._lenses, self._end = Lenient(lenses), end
        self._found: dict[int, tuple[bytes, object]] = {}

    def matching(self, chunk: Chunk, count: int) -> Iterator[tuple[int, bytes | None]]:
        current_from = self._lenses.current_from
        for at in range(bisect_left(chunk.seqs, self._end, 0, count)):
            seq, text = chunk.seqs[at], chunk.data[chunk.begins[at] : chunk.ends[at]]
            self._found[seq] = text, parsed(text) if seq >= current_from else self._lenses.document(seq, text)
            yield at, None

    def record(self, seq: int) -> object:
        """Of an entry that was looked at."""
        return self._found[seq][1]

    def pieces(self, first: int, end: int) -> list[Piece]:
        """Of the entries [first, end), which were all looked at."""
        made: list[Piece] = []
        for at in range(first, end, _PIECE):
            found = [self._found[seq] for seq in range(at, min(end, at + _PIECE))]
            plain = at >= self._lenses.current_from
            made.append(Piece(at, [text for text, _ in found], [record for _, record in found], plain))
        return made


class Window:
    """Of one stream. `pieces` is replaced, never changed: a thread may be looking at it."""

    def __init__(self, meant: object) -> None:
        self.meant = meant
        self.lock = asyncio.Lock()
        self.pieces: tuple[Piece, ...] = ()
        self.size = 0
        self.charged = 0  # of it, in the sum of all

    def has(self, first: int, end: int) -> bool:
        """Whether all of it is there, and nothing from before it."""
        pieces = self.pieces
        return bool(pieces) and pieces[0].first <= first < pieces[0].end and end <= pieces[-1].end

    def begin(self, first: int) -> int:
        """Let go of what lies before an entry; where to read on from."""
        kept = tuple(piece for piece in self.pieces if piece.end > first)
        if kept and kept[0].first - first > kept[-1].end - kept[0].first:
            kept = ()  # more is missing before it than is there
        if len(kept) < len(self.pieces):
            self.pieces = kept
            self.size = sum(piece.size for piece in kept)
        return self.pieces[-1].end if self.pieces else first

    def add(self, pieces: Sequence[Piece]) -> None:
        """What comes behind; a short last piece and a short next one become one."""
        found = list(self.pieces)
        for piece in pieces:
            if found and len(found[-1].texts) + len(piece.texts) <= _PIECE:
                last = found.pop()
                self.size -= last.size
                piece = last.and_then(piece)  # noqa: PLW2901
            found.append(piece)
            self.size += piece.size
        self.pieces = tuple(found)


class Recent:
    """All windows; on the event loop only."""

    def __init__(self, database: Database, bytes_max: int) -> None:
        self._database = database
        self._bytes_max = bytes_max
        self._windows: OrderedDict[int, Window] = OrderedDict()
        self.bytes = 0

    async def read(
        self, cold: ColdReader | None, state: StreamState, meaning: Meaning, lenses: Lenses, *, first: int, end: int,
        scan_bytes: int, until: float,
    ) -> Sequence[Piece]:  # fmt: skip
        """Entries up to `end`, none before `first`: those that are known, and those that came since.

        As many as may be kept, and as fit into half of what may be examined; fewer where they cannot be read in time.
        """
        window = self._window(state.id, meaning)
        each = max(1.0, state.position / max(1, state.next_seq)) * _ROOM
        room = int(min(_TEXT_BYTES_MAX, scan_bytes / 2, self._bytes_max / (2 * _TIMES_TEXT)) / each)
        first = max(first, end - min(ENTRIES_MAX, room))
        if first >= end and not window.pieces:
            return ()  # all of it is indexed
        if not window.has(first, end):
            await self._read(window, cold, state, lenses, first, end, until)
        return [piece for piece in window.pieces if piece.first < end]

    async def _read(
        self, window: Window, cold: ColdReader | None, state: StreamState, lenses: Lenses, first: int, end: int,
        until: float,
    ) -> None:  # fmt: skip
        with suppress(TimeoutError):  # what is there by then is looked at
            async with asyncio.timeout(max(0.0, until - time.monotonic())), window.lock:
                await self._fill(window, cold, state, lenses, first, end, until)
        self._charge(state.id, window)

    async def _fill(
        self, window: Window, cold: ColdReader | None, state: StreamState, lenses: Lenses, first: int, end: int,
        until: float,
    ) -> None:  # fmt: skip
        at = window.begin(first)
        while at < end and time.monotonic() < until:
            collector = Collector(lenses, end)
            bounds = Bounds(_NOTHING_SHOWN, _STEP_BYTES, until - time.monotonic())
            try:
                scanned = await read_matching(self._database, cold, state, at, collector, bounds)
            except StreamsError as problem:  # whoever looks for what is missing will say why
                log.info("recent entries could not be read", stream=state.id, seq=at, error=problem.message)
                return
            stop = min(end, scanned.page.end)
            few = stop - at <= _PIECE
            window.add(collector.pieces(at, stop) if few else await asyncio.to_thread(collector.pieces, at, stop))
            at = stop

    def _window(self, stream: int, meaning: Meaning) -> Window:
        meant = (meaning.common, meaning.version, meaning.registry.current_from)
        window = self._windows.get(stream)
        if window is None or window.meant != meant:
            if window is not None:
                self.bytes -= window.charged
            window = self._windows[stream] = Window(meant)
        self._windows.move_to_end(stream)
        return window

    def _charge(self, stream: int, window: Window) -> None:
        """Count what a window has now, and make room: the ones that were not looked into for longest leave first."""
        if self._windows.get(stream) is not window:
            return  # it left meanwhile
        self.bytes += window.size - window.charged
        window.charged = window.size
        while self.bytes > self._bytes_max and self._windows:
            _, gone = self._windows.popitem(last=False)
            self.bytes -= gone.charged
