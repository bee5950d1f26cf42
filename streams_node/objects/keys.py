"""Every object key is made here, and read back here: this file is the layout of the bucket.

    <prefix>/                                        setting `s3_prefix`; a folder store begins right here
    ├── owner                                        who may publish, with a fencing number; moves by if-match
    ├── latest                                       the newest generation somebody saw; a hint; moves by if-match
    ├── catalogue/
    │   ├── generations/<generation>                 put-if-absent of this object is the commit
    │   └── snapshots/<generation>/<part>            everything up to that generation, so that a start reads little
    ├── packs/<object>.parquet                       many small streams
    ├── segments/<stream>/<first seq>-<object>.parquet   one stream
    ├── index/<family>/<object>.<ending>             what is indexed of many streams; a filter lies beside an exact run
    └── probe/<run>/<name>                           what `store check` and a start leave when they are killed

Keeps  an object is never written twice under one key, except `owner` and `latest`: every data key ends with an object
       id of its own, so a re-made object, or another life of a stream, is another key.
       Text order is number order: generations, parts and sequences have a fixed width.
       Names of buckets and streams never appear: a stream is its incarnation's number. So a key leaks no name, needs
       no escaping, and no name can reach outside its place.
       No key is also the folder of another key, all letters are lower case, and no part begins with a dot: a folder
       store keeps objects as plain files, on any file system.
"""

import re
from typing import Literal, NamedTuple, NewType, get_args

from streams_node.errors import StoreRefused, invariant
from streams_node.protocol.numbers import Seq, StreamId

Key = NewType("Key", str)
KeyPrefix = NewType("KeyPrefix", str)  # of keys: what a listing asks for
RootPrefix = NewType("RootPrefix", str)  # of the whole layout inside a bucket: empty, or ends with `/`
ObjectId = NewType("ObjectId", str)
Generation = NewType("Generation", int)

IndexFamily = Literal["lexicon", "exact", "companion", "rollups", "metrics"]
Artifact = Literal["owner", "latest", "generation", "snapshot", "pack", "segment", IndexFamily, "probe", "other"]

KEY_CHARS_MAX = 512  # S3 allows 1024 bytes; the rest is for the prefix
PART_CHARS_MAX = 200  # file systems allow 255 bytes a name; the folder store appends an ending
ROOT_PREFIX_BYTES_MAX = 256

_NUMBER_DIGITS = 19  # holds every number below 2**63, which is what SQLite and Parquet can hold
_NUMBER_END = 2**63
_PART_DIGITS = 6
_PART_END = 10**_PART_DIGITS
_OBJECT_ID_BYTES = 16

OWNER = Key("owner")
LATEST = Key("latest")

EVERYTHING = KeyPrefix("")
GENERATIONS = KeyPrefix("catalogue/generations/")
SNAPSHOTS = KeyPrefix("catalogue/snapshots/")
PACKS = KeyPrefix("packs/")
SEGMENTS = KeyPrefix("segments/")
INDEXES = KeyPrefix("index/")
INDEX_FAMILIES: tuple[IndexFamily, ...] = get_args(IndexFamily)
PROBES = KeyPrefix("probe/")

_ARTIFACTS: tuple[tuple[str, Artifact], ...] = (
    (OWNER, "owner"),
    (LATEST, "latest"),
    (GENERATIONS, "generation"),
    (SNAPSHOTS, "snapshot"),
    (PACKS, "pack"),
    (SEGMENTS, "segment"),
    *((INDEXES + family + "/", family) for family in INDEX_FAMILIES),
    (PROBES, "probe"),
)


# --- making keys ----------------------------------------------------------------------------------------------------


def object_id(entropy: bytes) -> ObjectId:
    """The unique end of a data key, from 16 random bytes that come in from outside."""
    invariant(len(entropy) == _OBJECT_ID_BYTES, "an object id is made of 16 bytes", size=len(entropy))
    return ObjectId(entropy.hex())


def generation_key(generation: Generation) -> Key:
    return Key(GENERATIONS + _number(generation))


def snapshot_key(generation: Generation, part: int) -> Key:
    invariant(0 <= part < _PART_END, "a snapshot's part has six digits", part=part)
    return Key(f"{snapshot_parts(generation)}{part:0{_PART_DIGITS}d}")


def snapshot_parts(generation: Generation) -> KeyPrefix:
    """Of all parts of one snapshot."""
    return KeyPrefix(f"{SNAPSHOTS}{_number(generation)}/")


def pack_key(made: ObjectId) -> Key:
    return Key(f"{PACKS}{made}.parquet")


def segment_key(stream: StreamId, first_seq: Seq, made: ObjectId) -> Key:
    return Key(f"{segments_of(stream)}{_number(first_seq)}-{made}.parquet")


def segments_of(stream: StreamId) -> KeyPrefix:
    """Of all segments of one incarnation, in the order of their entries."""
    return KeyPrefix(f"{SEGMENTS}{_number(stream)}/")


def index_key(family: IndexFamily, made: ObjectId) -> Key:
    return Key(f"{INDEXES}{family}/{made}.{'companion' if family == 'companion' else 'parquet'}")


def index_filter_key(made: ObjectId) -> Key:
    """Of the filter beside a run of exact values."""
    return Key(f"{INDEXES}exact/{made}.filter")


def probe_key(run: ObjectId, name: str) -> Key:
    return Key(probe_run(run) + name)


def probe_run(run: ObjectId) -> KeyPrefix:
    return KeyPrefix(f"{PROBES}{run}/")


def _number(value: int) -> str:
    invariant(0 <= value < _NUMBER_END, "a number in a key has 63 bits", value=value)
    return f"{value:0{_NUMBER_DIGITS}d}"


# --- reading keys ---------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """What a key says about its object; what does not apply is None."""

    artifact: Artifact
    generation: Generation | None = None
    part: int | None = None
    stream: StreamId | None = None
    first_seq: Seq | None = None
    made: ObjectId | None = None
    name: str | None = None


_NUMBER = rf"[0-9]{{{_NUMBER_DIGITS}}}"
_MADE = rf"(?P<made>[0-9a-f]{{{2 * _OBJECT_ID_BYTES}}})"
_SHAPES: tuple[tuple[Artifact, re.Pattern[str]], ...] = (
    ("owner", re.compile(OWNER)),
    ("latest", re.compile(LATEST)),
    ("generation", re.compile(rf"{GENERATIONS}(?P<generation>{_NUMBER})")),
    ("snapshot", re.compile(rf"{SNAPSHOTS}(?P<generation>{_NUMBER})/(?P<part>[0-9]{{{_PART_DIGITS}}})")),
    ("pack", re.compile(rf"{PACKS}{_MADE}\.parquet")),
    ("segment", re.compile(rf"{SEGMENTS}(?P<stream>{_NUMBER})/(?P<first_seq>{_NUMBER})-{_MADE}\.parquet")),
    *(
        (family, re.compile(rf"{INDEXES}{family}/{_MADE}\.parquet"))
        for family in INDEX_FAMILIES
        if family != "companion"
    ),
    ("companion", re.compile(rf"{INDEXES}companion/{_MADE}\.companion")),
    ("exact", re.compile(rf"{INDEXES}exact/{_MADE}\.filter")),
    ("probe", re.compile(rf"{PROBES}{_MADE}/(?P<name>[a-z][a-z0-9-]*)")),
)
_NUMBERS = ("generation", "part", "stream", "first_seq")


def parse(key: str) -> Place | None:
    """The place that has this key, or None: not one of ours, so nobody here reads, moves or deletes it."""
    for artifact, shape in _SHAPES:
        if match := shape.fullmatch(key):
            facts = match.groupdict()
            numbers = {name: int(facts[name]) for name in _NUMBERS if name in facts}
            if max(numbers.values(), default=0) >= _NUMBER_END:
                return None
            return Place(artifact=artifact, **(facts | numbers))  # type: ignore[arg-type] # the shapes name the fields
    return None


def artifact_of(key: Key | KeyPrefix) -> Artifact:
    """What kind of object a request was about; cheap, as every request is counted by it."""
    return next((artifact for start, artifact in _ARTIFACTS if key.startswith(start)), "other")


# --- what a store may take for a key --------------------------------------------------------------------------------

_PART = r"[a-z0-9][a-z0-9._-]*"
_KEY = re.compile(rf"{_PART}(?:/{_PART})*")


def is_key(text: str) -> bool:
    """Whether every store can hold an object under this name."""
    return (
        len(text) <= KEY_CHARS_MAX
        and _KEY.fullmatch(text) is not None
        and all(len(part) <= PART_CHARS_MAX for part in text.split("/"))
    )


def root_prefix(setting: str) -> RootPrefix:
    """The setting `s3_prefix` as it stands before each key: without a slash at the start, with one at the end."""
    text = setting.strip("/")
    parts = text.split("/") if text else []
    if len(text.encode()) > ROOT_PREFIX_BYTES_MAX or not all(_is_prefix_part(part) for part in parts):
        raise StoreRefused(f"s3_prefix must be names separated by single slashes, not `{setting}`", setting="s3_prefix")
    return RootPrefix("".join(f"{part}/" for part in parts))


def _is_prefix_part(part: str) -> bool:
    return part.isprintable() and part not in {"", ".", ".."}


def with_root(root: RootPrefix, key: Key | KeyPrefix) -> str:
    return root + key


def without_root(root: RootPrefix, stored: str) -> Key | None:
    """The key behind a name in the bucket; None for a name that no key has."""
    text = stored.removeprefix(root)
    return Key(text) if stored.startswith(root) and is_key(text) else None
