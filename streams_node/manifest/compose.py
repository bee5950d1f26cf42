"""A generation as bytes: lines, zstd-compressed as one frame. `zstd -dc | jq` reads it."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import msgspec

from streams_node.errors import CatalogueError, invariant
from streams_node.manifest.records import Header, Record, decode, decode_header, encode, encode_all

_CHUNK_BYTES = 1 << 20
LINE_BYTES_MAX = 1 << 22  # a name, a key and a type are far shorter; what is longer is no line of ours

Ends = Path | bytes
Damage = list[str]  # messages: each names an object, a line and what was expected


def compose(header: Header, records: Iterable[Record], ends: Ends | Iterable[Ends] | None = None) -> bytes:
    """The bytes of a generation. `ends` are lines of seals, in their order; they are pasted as they are."""
    own = encode_all(records)
    pasted = [] if ends is None else [ends] if isinstance(ends, Path | bytes) else list(ends)
    count = own.count(b"\n") + sum(_count_lines(each) for each in pasted)
    first = encode(msgspec.structs.replace(header, records=count)) + b"\n"
    return packed(chain([first, own], *map(_chunks, pasted)))


def packed(chunks: Iterable[bytes]) -> bytes:
    """One zstd frame."""
    import pyarrow as pa  # noqa: PLC0415 - 30 MB, for which the start of a node need not wait

    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for chunk in chunks:
            stream.write(chunk)
    return bytes(sink.getvalue().to_pybytes())


def parse(
    data: bytes | Path, what: str = "generation", damage: Damage | None = None
) -> tuple[Header, Iterator[Record]]:
    """Header and records, streaming; `what` names the object.

    With a list for `damage`, damaged lines go there instead of raising, and the others come out.
    """
    lines = numbered_lines(data, what)
    first = next(lines, None)
    if first is None:
        raise CatalogueError(f"{what} is damaged: it is empty, and a header line was expected")
    header = decode_header(first[1], f"{what}, line 1")
    return header, counted_records(lines, what, header.records, damage)


def counted_records(
    lines: Iterator[tuple[int, bytes]], what: str, expected: int | None, damage: Damage | None
) -> Iterator[Record]:
    """Records of lines, which must be as many as were promised."""
    seen = 0
    try:
        for number, line in lines:
            seen += 1
            try:
                record = decode(line, f"{what}, line {number}")
            except CatalogueError as problem:
                if damage is None:
                    raise
                damage.append(problem.message)
                continue
            yield record
        _require_count(what, seen, expected)
    except CatalogueError as problem:
        if damage is None:
            raise
        damage.append(problem.message)


def _require_count(what: str, seen: int, expected: int | None) -> None:
    if expected is not None and seen != expected:
        raise CatalogueError(f"{what} is damaged: it has {seen} records, {expected} were expected")


def numbered_lines(data: bytes | Path, what: str) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers from 1, without ends; in chunks, whatever the whole size."""
    number, rest = 0, b""
    for chunk in _unpacked(data, what):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            number += 1
            yield number, line
        if len(rest) > LINE_BYTES_MAX:
            raise CatalogueError(f"{what}, line {number + 1} is damaged: longer than {LINE_BYTES_MAX} bytes")
    if rest:
        raise CatalogueError(f"{what}, line {number + 1} is damaged: it is cut off")


def _unpacked(data: bytes | Path, what: str) -> Iterator[bytes]:
    import pyarrow as pa  # noqa: PLC0415 - see above

    try:
        source = pa.BufferReader(data) if isinstance(data, bytes) else pa.OSFile(str(data), "rb")
        with source, pa.CompressedInputStream(source, "zstd") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                yield chunk
    except OSError as problem:
        raise CatalogueError(f"{what} is damaged: it cannot be unpacked ({problem})") from problem


def _count_lines(ends: Ends) -> int:
    last, count = b"\n", 0
    for chunk in _chunks(ends):
        count += chunk.count(b"\n")
        last = chunk[-1:]
    invariant(last == b"\n", "pasted lines end with a line's end")
    return count


def _chunks(ends: Ends) -> Iterator[bytes]:
    if isinstance(ends, bytes):
        if ends:
            yield ends
        return
    with ends.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk
