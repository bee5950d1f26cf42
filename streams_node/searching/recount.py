"""Counts entries for an aggregation, wherever they lie: what no rollup covers, and the edges of what one does."""

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from streams_node.answers.ranges import Range
from streams_node.errors import BadSearch, Gone, StreamsError
from streams_node.ingest.state import StreamState
from streams_node.meaning import StreamLenses
from streams_node.observe.logs import get_logger
from streams_node.read.cold import ColdReader
from streams_node.read.keyed import Chunk, Pruner
from streams_node.read.pages import deleted
from streams_node.read.scan import Bounds, read_matching
from streams_node.searching.recent import Piece
from streams_node.searching.scan import Budget
from streams_node.searching.sieve import Spans

if TYPE_CHECKING:
    from streams_node.searching.service import Searches

log = get_logger(__name__)
T = TypeVar("T")
_AT_ONCE = 1024  # entries that are counted between two looks at the clock
_STEP_BYTES_MIN, _STEP_BYTES_MAX = 64 << 10, 4 << 20
_ROOM = 1.25  # entries are of different sizes
_NOTHING_SHOWN = 1 << 20


class Counts(Protocol):
    """Makes of records a piece of an answer. `plain`: as JSON's fast reader makes them."""

    def counted(self, records: list[Any], *, plain: bool) -> Any: ...


class Adding:
    """A sieve that shows nothing: it keeps what entries before `end` add up to, piece by piece.

    A step may be done again, elsewhere, when an object is moved or damaged in the middle of it. So a piece takes the
    place of all pieces that begin where it does, or later.
    """

    key: str | None = None

    def __init__(self, counter: Counts, lenses: StreamLenses, pruner: Pruner, end: int) -> None:
        self.pruner = pruner
        self._counter, self._lenses, self._end = counter, lenses, end
        self._pieces: list[tuple[int, Any]] = []

    def matching(self, chunk: Chunk, count: int) -> Iterator[tuple[int, bytes | None]]:
        from streams_node.searching.totals import loaded  # noqa: PLC0415 - see above

        count = bisect_left(chunk.seqs, self._end, 0, count)
        for first in range(0, count, _AT_ONCE):
            last = min(count, first + _AT_ONCE)
            texts = [chunk.data[chunk.begins[at] : chunk.ends[at]] for at in range(first, last)]
            records, plain = loaded(texts)
            for at in range(first, min(last, bisect_left(chunk.seqs, self._lenses.current_from, first, last))):
                plain = False
                records[at - first] = self._promoted(chunk.seqs[at], texts[at - first])
            self._keep(chunk.seqs[first], self._counter.counted(records, plain=plain))
            yield last - 1, None

    def tables(self) -> list[Any]:
        return [table for _, table in self._pieces]

    def _promoted(self, seq: int, text: bytes) -> Any:
        """What cannot be promoted has no fields, as in an index."""
        try:
            return self._lenses.document(seq, text)
        except StreamsError:
            return None

    def _keep(self, seq: int, table: Any) -> None:
        while self._pieces and self._pieces[-1][0] >= seq:
            self._pieces.pop()
        self._pieces.append((seq, table))


class Recount:
    """Of one aggregation. Its budget is one for all spans; what `pieces` have is parsed, and costs nothing."""

    def __init__(self, searches: "Searches", cold: ColdReader | None, state: StreamState, lenses: StreamLenses,
                 pruner: Pruner | None, budget: Budget, pieces: Sequence[Piece]) -> None:  # fmt: skip
        self._searches, self._cold = searches, cold
        self._state, self._lenses, self._pruner = state, lenses, pruner
        self._bytes, self._until = budget
        self._pieces = pieces
        self._entry_bytes = state.position / max(1, state.next_seq)
        self.looked: list[Range] = []

    @property
    def _spent(self) -> bool:
        return self._bytes <= 0 or self._late

    @property
    def _late(self) -> bool:
        return time.monotonic() >= self._until

    async def run(self, span: Range, counter: Counts) -> tuple[int, Sequence[Any]]:
        """Up to which entry a span was counted, and the tables of it. Gone when it is trimmed meanwhile."""
        at, tables = span.first, list[Any]()
        for part, piece in split(span, [(Range(piece.first, piece.end), piece) for piece in self._pieces]):
            end, more = await (self._scanned(part, counter) if piece is None else self._known(part, piece, counter))
            tables += more
            at = end
            if at < part.end:
                break
        if at > span.first:
            self.looked.append(Range(span.first, at))
        return at, tables

    async def _known(self, part: Range, piece: Piece, counter: Counts) -> tuple[int, Sequence[Any]]:
        if self._late:
            return part.first, []
        records = piece.records[part.first - piece.first : part.end - piece.first]
        return part.end, [await self._searches.run(counter.counted, list(records), plain=False)]

    async def _scanned(self, span: Range, counter: Counts) -> tuple[int, Sequence[Any]]:
        at, tables = span.first, list[Any]()
        while at < span.end and not self._spent:
            adding = Adding(counter, self._lenses, Spans([Range(at, span.end)], self._pruner), span.end)
            about = int((span.end - at) * self._entry_bytes * _ROOM) + _STEP_BYTES_MIN
            bounds = Bounds(_NOTHING_SHOWN, min(self._bytes, about, _STEP_BYTES_MAX), self._until - time.monotonic())
            try:
                scanned = await read_matching(self._searches.database, self._cold, self._state, at, adding, bounds)
            except (Gone, BadSearch):
                raise
            except StreamsError as problem:
                if self._state.gone:
                    raise deleted(self._state) from None
                log.info("entries could not be counted", stream=self._state.id, seq=at, error=problem.message)
                break
            self._bytes -= scanned.bytes
            at = scanned.page.end
            tables += adding.tables()
        return min(at, span.end), tables


def split(span: Range, known: Iterable[tuple[Range, T]]) -> Iterator[tuple[Range, T | None]]:
    """A span in order, as others divide it, which are in order and overlap nowhere; None is what none of them has."""
    at = span.first
    for each, what in known:
        first, end = max(at, each.first), min(span.end, each.end)
        if first < end:
            if at < first:
                yield Range(at, first), None
            yield Range(first, end), what
            at = end
    if at < span.end:
        yield Range(at, span.end), None
