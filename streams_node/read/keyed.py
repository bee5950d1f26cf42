"""Stretches of a stream as chunks: entries that lie together, of which those with another routing key are left out.

The key comes first: a row group whose keys do not fit is not decoded further, and a row of the log is not taken apart.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

from streams_node.errors import StreamsError
from streams_node.protocol.frames import KEY_FOR_ALL, unpack_keys, unpack_lens
from streams_node.wal.tails import Row

if TYPE_CHECKING:
    from streams_node.segments.reader import SealedFile


@dataclass(frozen=True, slots=True)
class Chunk:
    """The entries `seqs`, among those of [start, end): entry i is `data[begins[i]:ends[i]]`, in this order.

    `passed` is what it took to leave the others out, in bytes.
    """

    start: int
    end: int
    seqs: Sequence[int]
    data: bytes
    begins: Sequence[int]
    ends: Sequence[int]
    passed: int = 0

    def size(self, count: int) -> int:
        """Bytes of the first entries."""
        return sum(self.ends[:count]) - sum(self.begins[:count])

    def within(self, bytes_max: int) -> int:
        """How many entries take that much: the one that reaches the bound is among them."""
        if len(self.data) < bytes_max or not self.seqs:
            return len(self.seqs)
        sizes = [end - begin for begin, end in zip(self.begins, self.ends, strict=True)]
        return min(len(sizes), bisect_left(list(accumulate(sizes)), bytes_max) + 1)


class NotShown(Exception):
    """An entry of a chunk cannot be shown as the current schema has it; `reason` is what a client is told."""

    def __init__(self, index: int, reason: StreamsError) -> None:
        super().__init__(index, reason)
        self.index = index
        self.reason = reason


class Lenses(Protocol):
    """How entries of older versions are shown."""

    @property
    def current_from(self) -> int:
        """The first entry of the current version: from there on, entries are as they are stored."""

    def document(self, seq: int, text: bytes) -> Any:
        """An older entry, parsed, as the current version has it."""

    def text(self, seq: int, document: Any) -> bytes:
        """Such a document as it is shown."""


class Pruner(Protocol):
    """What indexes know of a stream, and of what one read of it is after."""

    async def stretch(self, at: int, end: int) -> tuple[int, int]:
        """The first stretch from an entry on, before `end`, that may hold some of it; empty when there is none."""


class Keyed:
    """The sieve that takes every entry with a routing key."""

    def __init__(self, key: str | None, lenses: Lenses | None = None, pruner: Pruner | None = None) -> None:
        self.key = key
        self.pruner = pruner
        self._lenses = lenses

    def matching(self, chunk: Chunk, count: int) -> Iterator[tuple[int, bytes | None]]:
        """All of them."""
        lenses = self._lenses
        current_from = 0 if lenses is None else lenses.current_from
        for at in range(count):
            text = chunk.data[chunk.begins[at] : chunk.ends[at]]
            if lenses is not None and chunk.seqs[at] < current_from:
                yield at, shown(lenses, chunk, at, promoted(lenses, chunk, at))
            else:
                yield at, text


def promoted(lenses: Lenses, chunk: Chunk, at: int) -> Any:
    """An older entry as the current version has it."""
    try:
        return lenses.document(chunk.seqs[at], chunk.data[chunk.begins[at] : chunk.ends[at]])
    except StreamsError as reason:
        raise NotShown(at, reason) from reason


def shown(lenses: Lenses, chunk: Chunk, at: int, document: Any) -> bytes:
    """The text of such a document."""
    try:
        return lenses.text(chunk.seqs[at], document)
    except StreamsError as reason:
        raise NotShown(at, reason) from reason


def group_chunk(file: "SealedFile", number: int, row: int, start: int, end: int, key: str | None) -> Chunk:
    """Entries [start, end) of a stream out of a row group; the first of them is row `row` of the file."""
    import pyarrow as pa  # noqa: PLC0415 - that a node without sealed entries never needs

    from streams_node.segments.format import payload_offsets  # noqa: PLC0415
    from streams_node.segments.reader import keyed_rows  # noqa: PLC0415

    first = row - file.footer.starts[number]
    seqs: Sequence[int] = range(start, end)
    passed, rows = 0, None
    if key is not None:
        keys = file.columns(number, ("key",))["key"].slice(first, end - start)
        passed, rows = keys.nbytes, keyed_rows(keys, 0, key)
        if not rows:
            return Chunk(start, end, (), b"", (), (), passed)
        seqs = [start + at for at in rows]
    payloads = file.columns(number, ("payload",))["payload"].slice(first, end - start)
    if rows is not None and len(rows) < len(payloads):
        payloads = payloads.take(pa.array(rows))
    offsets = payload_offsets(payloads)
    base = offsets[0]
    data = memoryview(payloads.buffers()[2] or b"").cast("B")[base : offsets[-1]].tobytes()
    bounds = [offset - base for offset in offsets] if base else offsets.tolist()
    return Chunk(start, end, seqs, data, bounds[:-1], bounds[1:], passed)


def log_chunk(rows: Iterable[Row], start: int, key: str | None = None, end: int = 0, passed: int = 0) -> Chunk:
    """The entries from `start` on that rows of the log hold whole. `end` and `passed` tell of those left out."""
    wanted = None if key is None else KEY_FOR_ALL + key.encode()
    parts: list[bytes] = []
    seqs: list[int] = []
    begins: list[int] = []
    ends: list[int] = []
    pieces: list[bytes] = []  # of an entry that spans rows and has not ended yet
    at, end = 0, max(start, end)
    for row in rows:
        if row.entries == 0:
            pieces.append(row.payload)
            continue
        payload = b"".join((*pieces, row.payload)) if pieces else row.payload
        pieces.clear()
        lens = [len(payload)] if row.lens is None else unpack_lens(row.lens)
        end = max(end, row.seq + row.entries)
        chosen = _chosen(row, max(0, start - row.seq), key, wanted)
        if not chosen:
            passed += len(row.keys or b"")
            continue
        bounds = list(accumulate([length + 1 for length in lens], initial=at))
        parts.append(payload)
        at += len(payload)
        seqs += [row.seq + index for index in chosen]
        begins += [bounds[index] for index in chosen]
        ends += [bounds[index + 1] - 1 for index in chosen]
    return Chunk(start, end, seqs, b"".join(parts), begins, ends, passed)


def _chosen(row: Row, skip: int, key: str | None, wanted: bytes | None) -> Sequence[int]:
    """Which entries of a row have the key."""
    if wanted is None or row.keys == wanted:
        return range(skip, row.entries)
    if row.keys is None or row.keys[:1] == KEY_FOR_ALL or wanted[1:] not in row.keys:
        return ()
    keys = unpack_keys(row.keys, row.entries)
    return [index for index in range(skip, row.entries) if keys[index] == key]
