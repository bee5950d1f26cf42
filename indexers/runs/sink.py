"""Where a run is written to."""

from typing import BinaryIO

import xxhash


class Sink:
    """A file that is hashed while it is written."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.hash = xxhash.xxh3_128()
        self.size = 0
        self.dropped = False

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:
        if not self.dropped:
            self.hash.update(data)
            self._file.write(data)
            self.size += len(data)
        return len(data)

    def flush(self) -> None:
        """The file is flushed at its end."""

    def close(self) -> None:
        """Ends with `end`: Arrow closes what it writes to, and a buffer of the caller stays open."""

    def end(self, *, own: bool) -> None:
        if not own:
            return
        self._file.close()
