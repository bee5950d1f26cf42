"""An object as a file that is read where it is asked: of a big object, or a pruned one, only what is needed travels."""

import io

from typing_extensions import Buffer, override

from streams_node.objects import Key, RetryingStore

_BLOCK_BYTES = 256 << 10  # at least this much a request: footers and columns lie close together


class RangeFile(io.RawIOBase):
    """Keeps the block that was read last. Parquet's page checksums guard what comes."""

    def __init__(self, store: RetryingStore, key: str, size: int) -> None:
        self._store = store
        self._key = Key(key)
        self._size = size
        self._position = 0
        self._block = b""
        self._start = 0

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def tell(self) -> int:
        return self._position

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    @override
    def readinto(self, buffer: Buffer) -> int:
        target = memoryview(buffer).cast("B")
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)

    @override
    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._position + size)
        if self._position >= end:
            return b""
        if not (self._start <= self._position and end <= self._start + len(self._block)):
            stop = min(self._size, max(end, self._position + _BLOCK_BYTES))
            self._block, self._start = self._store.get(self._key, self._position, stop).data, self._position
        data = self._block[self._position - self._start : end - self._start]
        self._position = end
        return data
