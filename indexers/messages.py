"""What the node and an index driver say to each other, as JSON. `docs/index-protocol.md` is this page for people.

Owns     the shapes. Both sides import them, so neither can drift.
Keeps    a claim carries no secret: a driver has its own credentials for the store. Entries are named by stream and
         sequence, never by object: merging sealed objects changes no index.
"""

from typing import Literal

import msgspec

from indexers.plan import Family


class StoreAt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Where the bucket is."""

    kind: Literal["folder", "s3"]
    folder: str | None = None  # absolute
    endpoint: str | None = None
    region: str | None = None
    bucket: str | None = None
    prefix: str = ""
    path_style: bool = False


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A sealed object."""

    made: str
    key: str
    kind: Literal["pack", "segment"]
    bytes: int
    sha256: str


class Meaning(msgspec.Struct, frozen=True, kw_only=True):
    """What entries of some streams mean; equal for many streams, so a claim lists each once."""

    registry: msgspec.Raw  # as in GET _schema
    profile: str
    content_type: str
    configs: dict[Family, str]  # what to build, under which configuration


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Entries [first_seq, end_seq) of a stream: `row_index` is the row of the first in its object."""

    stream: int
    first_seq: int
    end_seq: int
    row_index: int
    meaning: int  # its place in the claim's list
    families: list[Family]  # of the meaning's: those that do not cover it yet


class Build(msgspec.Struct, frozen=True, kw_only=True, tag="build", tag_field="t"):
    """Read one object, and index these stretches of it in one pass."""

    source: Source
    stretches: list[Stretch]


class Cover(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of one stream that an index object covers."""

    stream: int
    first_seq: int
    end_seq: int
    config: str
    ordinal: int  # of the source in the index object's own list of objects
    entries: int
    payload_bytes: int
    min_ts: int  # append times, microseconds
    max_ts: int
    skipped: int = 0  # entries that were not JSON objects: covered, and without a value


class IndexObject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An immutable index object in the bucket."""

    made: str  # 32 hexadecimal digits, the unique end of its key
    family: Family
    level: int
    bytes: int
    sum: str  # xxh3_128 of the whole object, hexadecimal
    rows: int
    covers: list[Cover]
    filter_bytes: int = 0  # of the filter of an exact run, an object beside it
    filter_sum: str = ""
    col_bytes: int = 0  # of a companion: its fast columns
    fts_bytes: int = 0  # of a companion: terms, postings, positions and lengths
    sections: dict[str, int] = {}  # of a companion: bytes by `col` and `fts`, as far as the builder can tell them apart


class Merge(msgspec.Struct, frozen=True, kw_only=True, tag="merge", tag_field="t"):
    """Make one index object of several. Covers that are not named any more (deleted, superseded) are left out."""

    family: Family
    level: int  # of what comes out
    inputs: list[IndexObject]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Work for one driver until the lease ends."""

    claim: str
    fence: int
    lease_ms: int
    store: StoreAt
    meanings: list[Meaning]
    work: list[Build | Merge]


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    driver: str
    wait_ms: int = 0
    bytes_max: int = 256 << 20


class RenewRequest(msgspec.Struct, frozen=True, kw_only=True):
    claim: str
    fence: int
    done: int = 0  # of `work`, for whoever watches


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A source or an input that could not be used."""

    made: str
    reason: str
    ended: bool = False  # whoever worked with it was ended: it may be whole, and too much for that process


class CommitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """All that came of a claim; what it did not cover is claimable again."""

    claim: str
    fence: int
    objects: list[IndexObject]
    merged: list[list[str]] = []  # for each of `objects` that came of a merge: (its `made`, then those of the inputs)
    failed: list[Failed] = []
