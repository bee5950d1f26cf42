"""The requests of a folder store."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from streams_node.errors import (
    ObjectMissing,
    PreconditionFailed,
    StoreCorrupt,
    StoreRefused,
    StoreUnavailable,
    StoreUnsuitable,
    invariant,
)
from streams_node.objects.folder import disk, notes
from streams_node.objects.folder.incoming import arriving, sweep
from streams_node.objects.folder.lock import FolderLock
from streams_node.objects.folder.looks import Looks
from streams_node.objects.folder.notes import Note
from streams_node.objects.keys import Key, KeyPrefix, is_key
from streams_node.objects.protocol import LIST_KEYS_MAX, Data, ETag, Fetched, Listed, Page, Stored, WriteId
from streams_node.protocol.numbers import Micros
from streams_node.testing.crashpoints import crash_point

_OWN = ".store"  # begins with a dot, which no key does
_FORMAT = b"1\n"
_REFUSALS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP}


class FolderStore:
    """Objects below one folder; made by `open`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._own = root / _OWN
        self._incoming = self._own / "incoming"
        self._notes = self._own / "notes"
        self._lock = FolderLock(self._own / "lock")
        self._looks = Looks()

    @classmethod
    def open(cls, root: Path) -> Self:
        """Make the folder if it is not there, and sweep what dead writers left."""
        store = cls(root.absolute())
        with store._failures("open", root):
            store._prepare()
            sweep(store._incoming)
        return store

    @property
    def place(self) -> str:
        return f"folder `{self._root}`"

    def put(self, key: Key, data: Data, *, write_id: WriteId, if_match: ETag | None = None) -> Stored:
        file = self._file(key)
        with self._failures("put", key), arriving(self._incoming, data) as coming:
            note = Note(coming.size, coming.mtime_ns, coming.checksum, write_id)
            crash_point("folder.written")
            with self._lock.held():
                with self._looks.at(key, file, self._note(key)) as before:
                    if before is not None and _is_same_write(before.stored, note):
                        # Asked again, perhaps because the first time ended in a failed fsync: make it durable now.
                        disk.sync(before.fd)
                        disk.sync_folders(file.parent, self._root)
                        return before.stored
                    if (before.stored.etag if before else None) != if_match:
                        raise PreconditionFailed(key)
                self._write_note(key, (note, *(before.notes if before else ())))
                crash_point("folder.noted")
                self._show(coming.path, key, replaces=before is not None)
        return note.stored()

    def get(self, key: Key, start: int = 0, end: int | None = None) -> Fetched:
        with self._failures("get", key), self._looks.at(key, self._file(key), self._note(key)) as seen:
            if seen is None:
                raise self._missing(key)
            size = seen.stored.size
            if start and start >= size:
                raise StoreCorrupt(key, f"bytes from {start} were asked for, and it has {size}")
            return Fetched(disk.read_all(seen.fd, (size if end is None else end) - start, start), seen.stored)

    def head(self, key: Key) -> Stored | None:
        with self._failures("head", key), self._looks.at(key, self._file(key), self._note(key)) as seen:
            if seen is None:
                self._check_root()
                return None
            return seen.stored

    def delete(self, key: Key) -> None:
        file, note = self._file(key), self._note(key)
        with self._failures("delete", key), self._lock.held():
            if file.is_file():
                file.unlink()
                disk.sync_path(file.parent)
                crash_point("folder.deleted")
            note.unlink(missing_ok=True)
            disk.prune_folders(file.parent, self._root)
            disk.prune_folders(note.parent, self._notes)

    def list(self, prefix: KeyPrefix, after: Key | None = None, limit: int = LIST_KEYS_MAX) -> Page:
        found: list[Listed] = []
        with self._failures("list", prefix):
            self._check_root()
            for key, entry in disk.files_below(self._root, prefix, after or ""):
                if len(found) == limit:
                    return Page(tuple(found), found[-1].key)
                with contextlib.suppress(FileNotFoundError):  # deleted while we walk
                    stat = entry.stat()
                    found.append(Listed(key, stat.st_size, Micros(stat.st_mtime_ns // 1000)))
        return Page(tuple(found), None)

    def close(self) -> None:
        """Nothing is kept open between two requests."""

    # --- steps ---

    def _write_note(self, key: Key, both: tuple[Note, ...]) -> None:
        path = self._note(key)
        with arriving(self._incoming, notes.encode(both)) as coming:
            disk.make_folders(path.parent)
            coming.path.replace(path)
            disk.sync_folders(path.parent, self._own)

    def _show(self, coming: Path, key: Key, *, replaces: bool) -> None:
        file = self._file(key)
        disk.make_folders(file.parent)
        if replaces:
            coming.replace(file)
        else:
            try:
                disk.create(coming, file)
            except FileExistsError as problem:
                # Of somebody who takes no lock; ours are seen before.
                raise PreconditionFailed(key) from problem
        crash_point("folder.visible")
        disk.sync_folders(file.parent, self._root)

    # --- the folder itself ---

    def _prepare(self) -> None:
        for folder in (self._incoming, self._notes):
            disk.make_folders(folder)
            disk.sync_folders(folder, self._root)
        disk.sync_path(self._root.parent)
        self._own_file("lock", b"")
        found = self._own_file("format", _FORMAT)
        if found != _FORMAT:
            shown = found.decode("ascii", "replace").strip()[:20]
            raise StoreUnsuitable(
                f"the objects in `{self._root}` have layout `{shown}`, which this program does not know; "
                "use the version that wrote them, or a newer one"
            )

    def _own_file(self, name: str, content: bytes) -> bytes:
        path = self._own / name
        if not path.exists():
            with arriving(self._incoming, content) as coming, contextlib.suppress(FileExistsError):
                disk.create(coming.path, path)
            disk.sync_path(self._own)
        return path.read_bytes()

    def _missing(self, key: Key) -> ObjectMissing:
        self._check_root()
        return ObjectMissing(key)

    def _check_root(self) -> None:
        """A disk that is not mounted looks like an empty folder: without this, like a store without objects."""
        if not (self._own / "format").is_file():
            raise StoreUnavailable(f"{self.place} is gone, or its disk is not mounted")

    def _file(self, key: Key) -> Path:
        invariant(is_key(key), "only a key becomes a file", key=key)
        return self._root / key

    def _note(self, key: Key) -> Path:
        return self._notes / f"{key}.json"

    @contextlib.contextmanager
    def _failures(self, action: str, what: object) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            if problem.errno == errno.ENOENT and action != "open":
                self._check_root()
            text = f"{self.place}: cannot {action} `{what}`: {problem.strerror}"
            if problem.errno in _REFUSALS:
                raise StoreRefused(f"{text}; look at its owner and permissions") from problem
            raise StoreUnavailable(text) from problem


def _is_same_write(before: Stored, note: Note) -> bool:
    return (before.write_id, before.checksum) == (note.write_id, note.checksum)
