"""The file of a companion.

4 bytes   b"SNXC"
u8        version, 1
3 bytes   0
u32le     bytes of the directory
u32le     0
16 bytes  xxh3_128 of the 16 bytes above and of the directory, as its hexadecimal digits read
          the directory, JSON
          the files of the Tantivy index, one after another as the directory lists them, each zstd where that is shorter

Every byte is covered by a checksum, so a Tantivy index is never opened over damaged files: it would not always notice.
"""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
import pyarrow as pa
import xxhash

from indexers.companion.zones import Zone
from indexers.messages import Cover
from indexers.runs import IndexDamaged, IndexTooNew, Source, Written

_MAGIC, _VERSION = b"SNXC", 1
_HEAD = struct.Struct("<4sB3xII")
_SUM_BYTES = 16
_START = _HEAD.size + _SUM_BYTES
_DIRECTORY_BYTES_MAX = 1 << 28
_FILE_BYTES_MAX = 1 << 34
_SHORTER = 0.9  # of what it was, else it is not worth decompressing
FAMILY = "companion"
FORMAT = 1
META = "meta.json"
# Whose bytes a file is: fast columns, or terms, postings, positions and lengths.
_PARTS = {"fast": "col", "term": "fts", "idx": "fts", "pos": "fts", "fieldnorm": "fts"}


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the Tantivy index: its bytes there, and here; its checksum is of the latter."""

    name: str
    bytes: int
    stored: int
    coding: str  # "" or "zstd"
    sum: str


class FieldFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all documents have in a field. Bounds are of canonical values, as text: they may be beyond 64 bits."""

    name: str
    column: str
    docs: int = 0
    inexact: int = 0
    least: str | None = None
    most: str | None = None
    full: bool = False  # every document is known to have a value in its column
    single: bool = False  # none is known to have several


class Directory(msgspec.Struct, frozen=True, kw_only=True):
    """What a companion holds. After a merge that left entries out, the facts of fields and zones are bounds."""

    config: str
    docs: int
    min_ts: int
    max_ts: int
    objects: list[str]
    covers: list[Cover]
    fields: list[FieldFacts]
    files: list[FileFacts]
    zones: list[Zone] = []


class Bytes(NamedTuple):
    """The bytes of a companion by what they are for."""

    col: int
    fts: int
    other: int


_DECODER = msgspec.json.Decoder(Directory)


class Pack:
    """An opened companion. `expected` is what the catalogue knows of it: given, the whole file is verified first."""

    def __init__(self, source: Source, *, name: str = "", expected: tuple[int, str] | None = None) -> None:
        self.name = name or (source.name if isinstance(source, Path) else f"{len(source)} bytes")
        self._source = source
        if expected is not None:
            self._verify(*expected)
        head = self._read(0, _START)
        length = _checked_head(self.name, head)
        self.directory = _directory(self.name, head, self._read(_START, length))
        self._files_at = _START + length
        if self.size != self._files_at + sum(each.stored for each in self.directory.files):
            raise IndexDamaged(self.name, f"it has {self.size} bytes, and not what its directory says")

    @property
    def size(self) -> int:
        return len(self._source) if isinstance(self._source, bytes) else self._source.stat().st_size

    @property
    def bytes_of(self) -> Bytes:
        found = {"col": 0, "fts": 0, "other": self._files_at}
        for each in self.directory.files:
            found[_PARTS.get(each.name.rpartition(".")[2], "other")] += each.stored
        return Bytes(**found)

    def unpack(self, folder: Path) -> None:
        """Write the Tantivy index into a new folder, every byte verified."""
        folder.mkdir(parents=True)
        for each, data in self._files():
            (folder / each.name).write_bytes(data)
        names = [each.name for each in self.directory.files]
        (folder / ".managed.json").write_bytes(msgspec.json.encode(names))

    def _files(self) -> Iterator[tuple[FileFacts, bytes]]:
        at = self._files_at
        for each in self.directory.files:
            if "/" in each.name or each.name.startswith(".") or not 0 <= each.bytes <= _FILE_BYTES_MAX:
                raise IndexDamaged(self.name, f"it has no file `{each.name[:40]}`")
            yield each, self._plain(each, self._read(at, each.stored))
            at += each.stored

    def _plain(self, facts: FileFacts, data: bytes) -> bytes:
        if xxhash.xxh3_128_hexdigest(data) != facts.sum:
            raise IndexDamaged(self.name, f"the checksum of its file `{facts.name}` is another")
        if facts.coding:
            try:
                data = pa.decompress(data, facts.bytes, codec=facts.coding, asbytes=True)
            except (pa.ArrowException, OSError, ValueError) as problem:
                raise IndexDamaged(self.name, f"its file `{facts.name}` cannot be decompressed: {problem}") from problem
        if len(data) != facts.bytes:
            raise IndexDamaged(self.name, f"its file `{facts.name}` has {len(data)} bytes, not {facts.bytes}")
        return data

    def _read(self, at: int, size: int) -> bytes:
        if isinstance(self._source, bytes):
            data = self._source[at : at + size]
        else:
            with self._source.open("rb") as file:
                file.seek(at)
                data = file.read(size)
        if len(data) != size:
            raise IndexDamaged(self.name, f"it ends after {at + len(data)} bytes")
        return data

    def _verify(self, size: int, checksum: str) -> None:
        if self.size != size:
            raise IndexDamaged(self.name, f"it has {self.size} bytes, and should have {size}")
        if xxhash.xxh3_128_hexdigest(self._read(0, size)) != checksum:
            raise IndexDamaged(self.name, "its bytes have another checksum than when it was written")


def directory_of(beginning: bytes, name: str) -> Directory | int:
    """What the first bytes of a companion say of it; or how many bytes are needed, when these are too few."""
    if len(beginning) < _START:
        return _START
    end = _START + _checked_head(name, beginning[:_START])
    return end if end > len(beginning) else _directory(name, beginning[:_START], beginning[_START:end])


def write_pack(target: Path, folder: Path, names: Sequence[str], directory: Directory) -> Written:
    """Pack the files of an index; `directory` comes without them."""
    facts: list[FileFacts] = []
    datas: list[bytes] = []
    for name in names:
        data = (folder / name).read_bytes()
        stored, coding = _stored(data)
        datas.append(stored)
        summed = xxhash.xxh3_128_hexdigest(stored)
        facts.append(FileFacts(name=name, bytes=len(data), stored=len(stored), coding=coding, sum=summed))
    text = msgspec.json.encode(msgspec.structs.replace(directory, files=facts))
    head = _HEAD.pack(_MAGIC, _VERSION, len(text), 0)
    with target.open("xb") as file:
        return _written(file, [head, _digest(head, text), text, *datas], directory)


def _written(file: BinaryIO, parts: Sequence[bytes], directory: Directory) -> Written:
    digest, size = xxhash.xxh3_128(), 0
    for part in parts:
        digest.update(part)
        size += len(part)
        file.write(part)
    streams = [cover.stream for cover in directory.covers]
    return Written(
        family=FAMILY,
        format=FORMAT,
        objects=tuple(directory.objects),
        rows=directory.docs,
        size=size,
        xxh128=digest.hexdigest(),
        min_stream=min(streams, default=None),
        max_stream=max(streams, default=None),
    )


def _stored(data: bytes) -> tuple[bytes, str]:
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True) if data else b""
    return (packed, "zstd") if data and len(packed) < _SHORTER * len(data) else (data, "")


def _directory(name: str, head: bytes, text: bytes) -> Directory:
    if _digest(head[: _HEAD.size], text) != head[_HEAD.size :]:
        raise IndexDamaged(name, "the checksum of its directory is another")
    try:
        return _DECODER.decode(text)
    except msgspec.DecodeError as problem:
        raise IndexDamaged(name, f"its directory cannot be read: {problem}") from problem


def _checked_head(name: str, head: bytes) -> int:
    magic, version, length, zero = _HEAD.unpack_from(head)
    if magic != _MAGIC:
        raise IndexDamaged(name, "it is no companion")
    if version > _VERSION:
        raise IndexTooNew(name, f"it has format {version}, this version knows {_VERSION}; rebuild the index")
    if version != _VERSION or zero or length > _DIRECTORY_BYTES_MAX:
        raise IndexDamaged(name, "its head cannot be read")
    return int(length)


def _digest(head: bytes, text: bytes) -> bytes:
    digest = xxhash.xxh3_128(head)
    digest.update(text)
    return digest.digest()
