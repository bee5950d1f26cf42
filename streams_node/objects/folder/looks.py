"""An object and the note that fits it, seen at one moment, while others replace and delete."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from streams_node.errors import StoreCorrupt, StoreUnavailable
from streams_node.objects.folder import disk, notes
from streams_node.objects.folder.notes import Note
from streams_node.objects.keys import Key
from streams_node.objects.protocol import Checksum, Stored

_LOOKS_MAX = 10  # a reader that meets a replacement looks again; ten in a row is no race any more
_CHUNK_BYTES = 1024 * 1024
_HASHES_MAX = 4096


class Seen(NamedTuple):
    """An opened object; `notes` are those that fit it, none for a stranger's file."""

    fd: int
    stored: Stored
    notes: tuple[Note, ...]


class Looks:
    """Reads objects with their notes. Files without a fitting note are read once, to know their checksum."""

    def __init__(self) -> None:
        self._hashes: dict[tuple[int, int, int, int], Checksum] = {}

    @contextlib.contextmanager
    def at(self, key: Key, file: Path, note: Path) -> Iterator[Seen | None]:
        """The object, open for as long as the block runs; None if there is none."""
        for _ in range(_LOOKS_MAX):
            try:
                fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except (FileNotFoundError, NotADirectoryError):
                yield None
                return
            try:
                described = self._described(key, fd, file, note)
                if described is not None:
                    yield Seen(fd, *described)
                    return
            finally:
                os.close(fd)
        raise StoreUnavailable(f"object `{key}` is replaced faster than it can be read")

    def _described(self, key: Key, fd: int, file: Path, note: Path) -> tuple[Stored, tuple[Note, ...]] | None:
        """What the opened file is; None if it left its name meanwhile, so that its note may have gone, too."""
        stat = os.fstat(fd)
        known = _read(key, note)
        for each in known:
            if (each.size, each.mtime_ns) == (stat.st_size, stat.st_mtime_ns):
                return each.stored(), (each,)
        # A copied folder has new times, and a folder filled by other tools has no notes: the bytes decide.
        checksum = self._checksum(fd, stat)
        for each in known:
            if each.checksum == checksum:
                return each.stored(), (each,)
        if not _is_current(file, stat):
            return None
        if known:
            problem = f"its file is not what was stored there; restore it, or remove `{note}` to take it as it is"
            raise StoreCorrupt(key, problem)
        return Stored(notes.etag_of(checksum), stat.st_size, None, None), ()

    def _checksum(self, fd: int, stat: os.stat_result) -> Checksum:
        identity = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        known = self._hashes.get(identity)
        if known is None:
            known = _hash(fd, stat.st_size)
            if len(self._hashes) >= _HASHES_MAX:
                self._hashes.clear()
            self._hashes[identity] = known
        return known


def _read(key: Key, note: Path) -> tuple[Note, ...]:
    try:
        return notes.decode(key, note.read_bytes())
    except FileNotFoundError:
        return ()


def _is_current(file: Path, stat: os.stat_result) -> bool:
    try:
        return os.path.samestat(stat, file.stat())
    except FileNotFoundError:
        return False


def _hash(fd: int, size: int) -> Checksum:
    digest = hashlib.sha256()
    for position in range(0, size, _CHUNK_BYTES):
        digest.update(disk.read_all(fd, _CHUNK_BYTES, position))
    return Checksum(digest.hexdigest())
