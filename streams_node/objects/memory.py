"""Objects in memory: for tests, and for a node that is thrown away."""

import hashlib
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from streams_node.errors import ObjectMissing, PreconditionFailed, StoreCorrupt, StoreUnavailable
from streams_node.objects import payload
from streams_node.objects.keys import Key, KeyPrefix
from streams_node.objects.protocol import LIST_KEYS_MAX, Data, ETag, Fetched, Listed, Page, Stored, WriteId
from streams_node.protocol.numbers import Micros

_BYTES_MAX = 1024**3


class _Object(NamedTuple):
    data: bytes
    stored: Stored
    modified_us: Micros


class MemoryStore:
    """A dictionary with the manners of S3; full at `bytes_max`, as memory ends."""

    place = "memory"

    def __init__(self, now: Callable[[], float] = time.time, bytes_max: int = _BYTES_MAX) -> None:
        self._now = now
        self._bytes_max = bytes_max
        self._bytes = 0
        self._objects: dict[Key, _Object] = {}
        self._lock = threading.Lock()

    def put(self, key: Key, data: Data, *, write_id: WriteId, if_match: ETag | None = None) -> Stored:
        content = b"".join(payload.chunks_of(data))
        # Of the content, as S3's: writing the same bytes again gives the same etag, and callers have to live with that.
        etag = ETag(f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"')
        stored = Stored(etag, len(content), payload.checksum_of(content), write_id)
        with self._lock:
            before = self._objects.get(key)
            if (before.stored.etag if before else None) != if_match:
                raise PreconditionFailed(key)
            grown = self._bytes + stored.size - (before.stored.size if before else 0)
            if grown > self._bytes_max:
                raise StoreUnavailable(f"memory: cannot put `{key}`: the store is full at {self._bytes_max} bytes")
            self._bytes = grown
            self._objects[key] = _Object(content, stored, Micros(int(self._now() * 1_000_000)))
        return stored

    def get(self, key: Key, start: int = 0, end: int | None = None) -> Fetched:
        found = self._objects.get(key)
        if found is None:
            raise ObjectMissing(key)
        if start and start >= found.stored.size:
            raise StoreCorrupt(key, f"bytes from {start} were asked for, and it has {found.stored.size}")
        return Fetched(found.data[start:end], found.stored)

    def head(self, key: Key) -> Stored | None:
        found = self._objects.get(key)
        return found.stored if found else None

    def delete(self, key: Key) -> None:
        with self._lock:
            gone = self._objects.pop(key, None)
            self._bytes -= gone.stored.size if gone else 0

    def list(self, prefix: KeyPrefix, after: Key | None = None, limit: int = LIST_KEYS_MAX) -> Page:
        with self._lock:
            keys = sorted(key for key in self._objects if key.startswith(prefix) and key > (after or ""))
            found = tuple(
                Listed(key, self._objects[key].stored.size, self._objects[key].modified_us) for key in keys[:limit]
            )
        return Page(found, found[-1].key if len(keys) > limit else None)

    def close(self) -> None:
        """What is in memory ends with it."""
