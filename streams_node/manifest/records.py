"""The lines of the catalogue, one JSON object each; field `t` says which.

    header     first line of every generation, and of the first part of a snapshot
    bucket     as it is now
    stream     configuration of a living incarnation; takes the place of whatever had its name
    schema     what is declared of a stream, after its `stream` line: registry of schemas, configuration of its profile
    gone       a name whose last stream was deleted, and the epoch it died in
    end        how far the published entries of a stream go; of its optional fields, absent means unchanged
    producer   the newest published request of a producer
    object     a sealed object that holds entries from now on
    drop       an object that does not any more
    index_plan    how a stream is to be indexed, and which former configurations still serve
    index_object  an object of an index, followed by
    index_covers  the entries that it covers, some at a time
    index_drop    an object of an index that is not used any more
    index      last part of a snapshot: what the others are

Kinds that this version does not know are kept as they are: a later version of the node may write more of them.
Times are microseconds since 1970. `docs/catalogue.md` is this page for people who read the bucket without us.
"""

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from streams_node.errors import CatalogueError, invariant
from streams_node.placement.made import ObjectFacts

FORMAT = 1
INDEX_PART = 999_999  # the number of a snapshot's last part: who finds it knows that the snapshot is whole

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Sum = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Node = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
_MADE = re.compile(r"[0-9a-f]{32}")
_SHOWN_CHARS = 120


class NewerFormat(CatalogueError):
    """Never to be taken for damage, however much loss is accepted: nothing is lost."""


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="t"):
    """An unknown field is refused: leaving it out of the next snapshot would lose what a newer version wrote."""


class Header(_Line, frozen=True, kw_only=True, tag="header"):
    """First line of a generation, and of a snapshot; what the node knew when it was written."""

    format: Number
    generation: Number
    node: Node
    fence: Number
    previous: Annotated[
        str, Meta(pattern=r"^([0-9a-f]{64})?\Z")
    ]  # SHA-256 of the generation before; empty for the first
    made_us: Number
    through_row: Number  # log rows up to this one are in objects
    next_stream: Number
    next_bucket: Number
    epoch_base: Number
    epoch_newest: Number
    records: Number = msgspec.field(default=-1)  # lines after this one; always written
    complete: bool = True  # nothing that had changed by then is left for a later generation
    parts: Number | UnsetType = UNSET  # of a snapshot: how many parts hold its lines,
    sum: Sum | UnsetType = UNSET  # and the SHA-256 of the generation that it stands for


class Bucket(_Line, frozen=True, kw_only=True, tag="bucket"):
    id: Number
    name: str
    created_us: Number
    alive: bool


class Stream(_Line, frozen=True, kw_only=True, tag="stream"):
    id: Number
    bucket: Number
    name: str
    content_type: str
    created_us: Number
    ttl_s: Number | None = None
    expires_us: Number | None = None
    first_epoch: Number
    epochs: tuple[tuple[Number, Number], ...] = ()  # later ones: each with the first sequence that it covers
    profile: str
    soft_deleted: bool = False
    source: Number | None = None
    fork_seq: Number | None = None
    fork_sub: Number | None = None
    earliest_seq: Number = 0
    ts: Number | None = None  # of a fork, whose times go on from those that it shares: before it has an end of its own


class Schema(_Line, frozen=True, kw_only=True, tag="schema"):
    """Both are JSON texts, as clients see them."""

    id: Number
    registry: msgspec.Raw
    config: msgspec.Raw | UnsetType = UNSET


class Gone(_Line, frozen=True, kw_only=True, tag="gone"):
    bucket: Number
    name: str
    epoch: Number
    id: Number
    deleted_us: Number


class End(_Line, frozen=True, kw_only=True, tag="end"):
    id: Number
    next_seq: Number
    ordinal: Number
    position: Number
    ts: Number
    schema_version: Number
    closed: bool | int | UnsetType = UNSET
    closed_by: str | UnsetType | None = UNSET
    closed_epoch: Number | UnsetType | None = UNSET
    closed_seq: Number | UnsetType | None = UNSET
    stream_seq: str | UnsetType | None = UNSET


class Producer(_Line, frozen=True, kw_only=True, tag="producer"):
    id: Number
    producer: str
    epoch: Number
    seq: Number
    next_seq: Number


class Object(ObjectFacts, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="t", tag="object"):
    """ObjectFacts as a line."""

    def __post_init__(self) -> None:
        if not _MADE.fullmatch(self.made):
            raise ValueError("`made` must be 32 hexadecimal digits")
        if (self.stream is None) != (self.kind == "pack"):
            raise ValueError("a segment is of one stream, a pack of none")
        if min(self.first_seq, self.min_stream, self.bytes, self.entries) < 0 or self.end_seq < self.first_seq:
            raise ValueError("its numbers must be 0 or more, and `end_seq` not below `first_seq`")

    @classmethod
    def of(cls, facts: ObjectFacts) -> "Object":
        return cls(**msgspec.structs.asdict(facts))

    def facts(self) -> ObjectFacts:
        return ObjectFacts(**msgspec.structs.asdict(self))


class Drop(_Line, frozen=True, kw_only=True, tag="drop"):
    made: str


class IndexPlan(_Line, frozen=True, kw_only=True, tag="index_plan"):
    """`configs`: family -> hash of its configuration. What covers the stream under others than these, and those that
    `kept` lists, is not used any more.
    """

    id: Number
    generation: Number
    configs: dict[str, str]
    since_us: Number
    kept: dict[str, tuple[str, ...]] = {}


class IndexObject(_Line, frozen=True, kw_only=True, tag="index_object"):
    """Takes the place of what was said of it before, with its covers."""

    made: Node
    family: str
    level: Number
    bytes: Number
    sum: str
    rows: Number
    filter_bytes: Number = 0
    filter_sum: str = ""
    sections: dict[str, int] = {}
    payload_bytes: Number
    made_us: Number


class IndexCovers(_Line, frozen=True, kw_only=True, tag="index_covers"):
    """Each cover: stream, first_seq, end_seq, place of its configuration in `configs`, ordinal, entries,
    payload_bytes, min_ts, max_ts, skipped.
    """

    made: Node
    configs: tuple[str, ...]
    covers: tuple[tuple[Number, Number, Number, Number, Number, Number, Number, Number, Number, Number], ...]

    def __post_init__(self) -> None:
        if any(cover[3] >= len(self.configs) or cover[1] > cover[2] for cover in self.covers):
            raise ValueError("each cover names one of `configs`, and ends behind its first entry")


class IndexDrop(_Line, frozen=True, kw_only=True, tag="index_drop"):
    made: Node


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a snapshot, as its index names it."""

    part: Number
    sha256: Sum
    bytes: Number
    records: Number


class Index(_Line, frozen=True, kw_only=True, tag="index"):
    """The only line of a snapshot's last part."""

    format: Number
    generation: Number
    sum: Sum  # of the generation that the snapshot stands for
    records: Number  # lines in all parts, without the header
    parts: tuple[Part, ...]


class Unknown(msgspec.Struct, frozen=True):
    """A line of a kind that this version does not know, as it is."""

    line: bytes


OfIndex: TypeAlias = IndexPlan | IndexObject | IndexCovers | IndexDrop
Known: TypeAlias = Bucket | Stream | Schema | Gone | End | Producer | Object | Drop | OfIndex
Record: TypeAlias = Known | Unknown

_KINDS = {"bucket", "stream", "schema", "gone", "end", "producer", "object", "drop"}
_KINDS |= {"index_plan", "index_object", "index_covers", "index_drop"}


class _Versioned(msgspec.Struct):
    t: str
    format: Any = None


_encoder = msgspec.json.Encoder()
_records: msgspec.json.Decoder[Known] = msgspec.json.Decoder(Known)
_headers = msgspec.json.Decoder(Header)
_indexes = msgspec.json.Decoder(Index)
_versioned = msgspec.json.Decoder(_Versioned)


def encode(record: Record | Header | Index) -> bytes:
    """One line, without its end."""
    if isinstance(record, Unknown):
        return record.line
    if isinstance(record, Header):
        invariant(record.records >= 0, "a header counts its lines")
    return _encoder.encode(record)


def encode_all(records: Iterable[Record]) -> bytes:
    """Lines with their ends."""
    chunks = []
    for is_unknown, group in groupby(records, lambda record: isinstance(record, Unknown)):
        if is_unknown:
            chunks += [encode(record) + b"\n" for record in group]
        else:
            chunks.append(_encoder.encode_lines(group))
    return b"".join(chunks)


def decode(line: bytes, where: str) -> Record:
    """A line after the header; `where` names object and line for the error."""
    try:
        return _records.decode(line)
    except msgspec.DecodeError as problem:
        return _unknown(line, where, problem)


def decode_header(line: bytes, where: str) -> Header:
    _check_format(line, "header", where)
    try:
        return _headers.decode(line)
    except msgspec.DecodeError as problem:
        raise _damaged(line, where, problem) from problem


def decode_index(line: bytes, where: str) -> Index:
    _check_format(line, "index", where)
    try:
        return _indexes.decode(line)
    except msgspec.DecodeError as problem:
        raise _damaged(line, where, problem) from problem


def _unknown(line: bytes, where: str, problem: msgspec.DecodeError) -> Unknown:
    """A line of another kind; a line of a known kind, and what is no JSON object at all, is damage."""
    try:
        kind = _versioned.decode(line).t
    except msgspec.DecodeError:
        raise _damaged(line, where, problem) from problem
    if kind in _KINDS or kind in {"header", "index"}:
        raise _damaged(line, where, problem) from problem
    return Unknown(line)


def _check_format(line: bytes, kind: str, where: str) -> None:
    try:
        found = _versioned.decode(line)
    except msgspec.DecodeError as problem:
        raise _damaged(line, where, f"a {kind} line was expected ({problem})") from problem
    if found.t != kind:
        raise _damaged(line, where, f"a line of kind `{kind}` was expected")
    if isinstance(found.format, int) and found.format > FORMAT:
        raise NewerFormat(
            f"{where}: written by a newer version (format {found.format}; this version knows {FORMAT}); run that"
        )
    if found.format != FORMAT:
        raise _damaged(line, where, f"`format` {FORMAT} was expected")


def _damaged(line: bytes, where: str, problem: object) -> CatalogueError:
    shown = line[:_SHOWN_CHARS].decode("utf-8", "backslashreplace") + ("…" if len(line) > _SHOWN_CHARS else "")
    return CatalogueError(f"{where} is damaged: {problem}; it is `{shown}`")
