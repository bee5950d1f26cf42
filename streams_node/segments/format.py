"""What a sealed file looks like, and the check that a file is one.

columns   stream int64, seq int64, append_ts timestamp[us, UTC], append_start bool, schema_version int32,
          key string or null, payload binary
metadata  streams.format      {"format": 1, "made": "<32 hex digits>", "kind": "pack" | "segment", "level": 0…}
          streams.directory   of a pack: see directory.py, as base64, because there are readers of Parquet that refuse a
                              file whose metadata is not UTF-8
pages     zstd, with checksums; row groups of about 1 MiB of payload
"""

import base64
import binascii
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from streams_node.errors import ObjectDamaged

FORMAT = 1
GROUP_BYTES = 1 << 20  # payload in a row group: what a read of one entry has to decode
GROUP_ENTRIES = 1 << 16  # and not more entries than this, however small
FORMAT_KEY = b"streams.format"
DIRECTORY_KEY = b"streams.directory"

Kind = Literal["pack", "segment"]
_MADE = re.compile(r"[0-9a-f]{32}")

SCHEMA = pa.schema(
    [
        pa.field("stream", pa.int64(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("append_ts", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("append_start", pa.bool_(), nullable=False),
        pa.field("schema_version", pa.int32(), nullable=False),
        pa.field("key", pa.string(), nullable=True),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)


class Format(msgspec.Struct, frozen=True):
    """The value of `streams.format`."""

    format: int
    made: str
    kind: Kind
    level: int

    def __post_init__(self) -> None:
        if not _MADE.fullmatch(self.made):
            raise ValueError("the object id is not 32 hex digits")


class _AnyFormat(msgspec.Struct):
    format: int


_DECODER = msgspec.json.Decoder(Format, strict=True)
_ANY_DECODER = msgspec.json.Decoder(_AnyFormat, strict=True)


class Footer(NamedTuple):
    """What the end of a file says: worth keeping, as reading it takes longer than a small read."""

    format: Format
    metadata: pq.FileMetaData
    starts: Sequence[int]  # index of each row group's first row, and the number of all rows


def metadata_of(form: Format, directory: bytes | None) -> dict[bytes, bytes]:
    """The metadata of a new file."""
    found = {FORMAT_KEY: msgspec.json.encode(form)}
    return found if directory is None else found | {DIRECTORY_KEY: base64.b64encode(directory)}


def check(metadata: pq.FileMetaData, made: str) -> Footer:
    """The footer of a file that is one of ours and readable by this version; `made` is what it was asked for as."""
    pairs = metadata.metadata or {}
    text = pairs.get(FORMAT_KEY)
    if text is None:
        raise ObjectDamaged(made, "it is a Parquet file, and none that a node has sealed")
    try:
        version = _ANY_DECODER.decode(text).format
        if version > FORMAT:
            raise ObjectDamaged(
                made, f"it has format {version}, this version knows {FORMAT}; run the newer version that wrote it"
            )
        form = _DECODER.decode(text)
    except (msgspec.DecodeError, ValueError) as problem:
        raise ObjectDamaged(made, f"its format line cannot be read: {problem}") from problem
    if form.made != made:
        raise ObjectDamaged(made, f"it says that it is `{form.made}`")
    if not metadata.schema.to_arrow_schema().equals(SCHEMA):
        raise ObjectDamaged(made, "its columns are not those of its format")
    starts = [0]
    for at in range(metadata.num_row_groups):
        starts.append(starts[-1] + metadata.row_group(at).num_rows)
    if starts[-1] != metadata.num_rows or min(_lengths(starts), default=1) < 1:
        raise ObjectDamaged(made, "its row groups do not add up")
    if (form.kind == "pack") != (DIRECTORY_KEY in pairs):
        raise ObjectDamaged(made, "a pack has a directory, and a segment has none")
    return Footer(form, metadata, starts)


def directory_of(footer: Footer) -> bytes | None:
    """The directory of a pack, packed; None for a segment."""
    text = footer.metadata.metadata.get(DIRECTORY_KEY)
    try:
        return None if text is None else base64.b64decode(text, validate=True)
    except binascii.Error as problem:
        raise ObjectDamaged(footer.format.made, f"its directory cannot be read: {problem}") from problem


def payload_offsets(payloads: Any) -> "memoryview[int]":
    """Where each payload of a column begins in the column's data, and where the last one ends."""
    offsets = memoryview(payloads.buffers()[1]).cast("B").cast("i")
    return offsets[payloads.offset : payloads.offset + len(payloads) + 1]


def _lengths(starts: Sequence[int]) -> list[int]:
    return [end - start for start, end in pairwise(starts)]
