"""What is known of a sealed object, and what the stages hand to one another."""

import hashlib
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from streams_node.objects.keys import Key, ObjectId, pack_key, segment_key
from streams_node.protocol.numbers import Seq, StreamId

Kind = Literal["pack", "segment"]


class ObjectFacts(msgspec.Struct, frozen=True, kw_only=True):
    """An immutable object of the bucket. A segment is of one stream; a pack names none and holds many."""

    made: str
    kind: Kind
    level: int
    stream: int | None
    first_seq: int
    end_seq: int
    min_stream: int
    max_stream: int
    streams: int
    entries: int
    bytes: int
    sha256: str
    payload_bytes: int
    min_ts: int
    max_ts: int
    first_row: int
    last_row: int

    def key(self) -> Key:
        """Where it lies in the bucket."""
        if self.stream is None:
            return pack_key(ObjectId(self.made))
        return segment_key(StreamId(self.stream), Seq(self.first_seq), ObjectId(self.made))

    def digest(self) -> "tuple[hashlib._Hash, str]":
        """A hash that has seen nothing yet, and what the object's bytes make of it."""
        return hashlib.sha256(), self.sha256


class Made(NamedTuple):
    """An object that a worker has built, and the file that holds it as a whole."""

    facts: ObjectFacts
    file: Path
    directory: bytes | None = None  # of a pack


class Seal(NamedTuple):
    """The log rows above `after_row` up to `through_row`, sealed: all of them, or of none."""

    after_row: int
    through_row: int
    log_bytes: int
    rows: int
    objects: list[Made]
    ends: Path | None  # record lines for the catalogue, made from exactly these rows
    stuck: list[tuple[int, str]]  # streams whose rows could not be sealed, and why


class Rewrite(NamedTuple):
    """Objects that take the place of others: the same living entries, fewer objects."""

    inputs: list[str]
    outputs: list[Made]
