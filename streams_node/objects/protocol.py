"""What the node asks of an object store, and nothing more.

All methods block; callers run them in a bounded executor. They may be called from many threads at once, and by several
processes on one store. Each is one attempt that ends by itself within the store's time limit, with an answer or with a
`StoreError`: retries, verified bytes and counts are `retry.RetryingStore`'s.

There is no way to write unconditionally. Without `if_match` a put creates, and never overwrites; with it a put replaces
exactly the object that has this etag. A late, repeated or rival request can therefore destroy nothing.

After any failure of a put but PreconditionFailed the object may be there, or may come yet. Putting the same bytes with
the same write id again finds out; so a caller that must survive a restart keeps the write id.
"""

from pathlib import Path
from typing import NamedTuple, NewType, Protocol

from streams_node.objects.keys import Key, KeyPrefix
from streams_node.protocol.numbers import Micros

ETag = NewType("ETag", str)  # opaque; equal content may or may not have an equal one
Checksum = NewType("Checksum", str)  # SHA-256 in lower-case hex: what `sha256sum` prints, and what S3 checks on arrival
WriteId = NewType("WriteId", str)  # names one intention to write, however often it is sent; ASCII letters, digits, `-`

Data = bytes | Path  # of an object to put; a file is read while it is sent

OBJECT_BYTES_MAX = 5 * 1024**3  # what S3 takes in one request; only one request can be conditional as a whole
LIST_KEYS_MAX = 1000  # what S3 lists in one request


class Stored(NamedTuple):
    """An object as the store knows it; checksum and write id are None for what others put there."""

    etag: ETag
    size: int
    checksum: Checksum | None
    write_id: WriteId | None


class Fetched(NamedTuple):
    """Bytes and the object they are of, seen at one moment: a record can be changed with the etag it was read with."""

    data: bytes
    stored: Stored


class Listed(NamedTuple):
    key: Key
    size: int
    modified_us: Micros  # by the store's clock


class Page(NamedTuple):
    """Some keys in byte order. `next_after` goes on; None is the end of the listing."""

    objects: tuple[Listed, ...]
    next_after: Key | None


class ObjectStore(Protocol):
    @property
    def place(self) -> str:
        """Where it is, for people; never with credentials."""

    def put(self, key: Key, data: Data, *, write_id: WriteId, if_match: ETag | None = None) -> Stored:
        """Create the object, or with `if_match` replace it; PreconditionFailed if another one is there, or none."""

    def get(self, key: Key, start: int = 0, end: int | None = None) -> Fetched:
        """Bytes [start, end); ObjectMissing. The store sends what it has: less than asked if the object is shorter."""

    def head(self, key: Key) -> Stored | None: ...

    def delete(self, key: Key) -> None:
        """An object that is not there is no failure: a delete may be repeated."""

    def list(self, prefix: KeyPrefix, after: Key | None = None, limit: int = LIST_KEYS_MAX) -> Page:
        """Objects whose key begins with `prefix` and is greater than `after`; names that are no key are left out."""

    def close(self) -> None: ...
