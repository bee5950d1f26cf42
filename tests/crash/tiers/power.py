"""What a disk may hold after the power went away: any state between what was synced and what was written.

The model. A file's bytes and size are safe once the file was synced after them; a name is safe once its folder was
synced after it. Of everything else any subset may be there: whole writes, single sectors of one, changes of size, and
names, each on its own and in any order of files; only a rename within one folder is whole or not at all. The order of
two writes to one place stays. A sync stands for what was written before it began.

Not modelled: a sync that lies, sectors that are half old and half new, damage to what was safe, and whatever is written
through memory maps; SQLite does that to `-shm` only, which is left out of every image, as it is made anew.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

from tests.support.syscalls import Step

T = TypeVar("T")
_SECTOR = 512
_TORN_SHARE = 0.3


class Change(NamedTuple):
    """Of a file: bytes at an offset, or a new size."""

    at: int  # the step
    offset: int
    data: bytes | None


@dataclass(slots=True)
class File:
    safe: bytearray = field(default_factory=bytearray)
    open: list[Change] = field(default_factory=list)
    folder: bool = False


class Naming(NamedTuple):
    """Of a folder: what these names stand for now; None for nothing."""

    at: int
    names: dict[str, int | None]


class Disk:
    """The steps so far. Files have numbers, as a name may stand for another one later."""

    def __init__(self, roots: Iterable[Path]) -> None:
        self._files: list[File] = []
        self._now: dict[str, int] = {}
        self._safe: dict[str, int] = {}
        self._open: dict[str, list[Naming]] = defaultdict(list)
        self._steps = 0
        self._roots = {str(root) for root in roots}  # they were there before
        for root in self._roots:
            self._now[root] = self._safe[root] = self._new(folder=True)

    def apply(self, step: Step) -> None:
        path = step.path
        match step.kind:
            case "create" | "mkdir":
                self._name({path: self._new(folder=step.kind == "mkdir")})
            case "write":
                self._change(path, step.number, step.data)
            case "size":
                self._change(path, step.number, None)
            case "link":
                self._name({step.other: self._now[path]})
            case "rename":
                self._name({path: None, step.other: self._now[path]})
            case "unlink" | "rmdir":
                self._name({path: None})
            case "sync":
                self._sync(path, step.number)
            case _:
                raise AssertionError(f"nobody knows what {step} does to a disk")
        self._steps += 1

    def image(self, random: Random, folder: Path) -> None:
        """Write one of the possible states into a folder, roots under their own names."""
        names = dict(self._safe)
        for changes in self._open.values():
            for naming in _some(changes, random):
                for name, number in naming.names.items():
                    if number is None:
                        names.pop(name, None)
                    else:
                        names[name] = number
        for name in sorted(names):  # folders before what is in them
            target = folder / name.lstrip("/")
            file = self._files[names[name]]
            if file.folder and (name in self._roots or target.parent.is_dir()):
                target.mkdir(parents=True, exist_ok=True)
            elif not file.folder and target.parent.is_dir() and not name.endswith("-shm"):
                target.write_bytes(_content(file, random))

    def _new(self, *, folder: bool) -> int:
        self._files.append(File(folder=folder))
        return len(self._files) - 1

    def _change(self, path: str, offset: int, data: bytes | None) -> None:
        self._files[self._now[path]].open.append(Change(self._steps, offset, data))

    def _name(self, names: dict[str, int | None]) -> None:
        by_folder: dict[str, dict[str, int | None]] = defaultdict(dict)
        for name, number in names.items():
            by_folder[str(Path(name).parent)][name] = number
            if number is None:
                self._now.pop(name, None)
            else:
                self._now[name] = number
        for folder, some in by_folder.items():
            self._open[folder].append(Naming(self._steps, some))

    def _sync(self, path: str, stands_for: int) -> None:
        file = self._files[self._now[path]]
        if not file.folder:
            for change in file.open:
                if change.at < stands_for:
                    _put(file.safe, change.offset, change.data)
            file.open = [change for change in file.open if change.at >= stands_for]
            return
        for naming in self._open[path]:
            if naming.at < stands_for:
                for name, number in naming.names.items():
                    if number is None:
                        self._safe.pop(name, None)
                    else:
                        self._safe[name] = number
        self._open[path] = [naming for naming in self._open[path] if naming.at >= stands_for]


def _some(changes: list[T], random: Random) -> list[T]:
    """All of them, none, or each or not."""
    share = random.choice((0.0, 1.0, 0.1, 0.5, 0.9))
    return [change for change in changes if random.random() < share]


def _content(file: File, random: Random) -> bytes:
    content = bytearray(file.safe)
    for change in _some(file.open, random):
        if change.data is not None and len(change.data) > _SECTOR and random.random() < _TORN_SHARE:
            for at in range(0, len(change.data), _SECTOR):
                if random.random() < 0.5:
                    _put(content, change.offset + at, change.data[at : at + _SECTOR])
        else:
            _put(content, change.offset, change.data)
    return bytes(content)


def _put(content: bytearray, offset: int, data: bytes | None) -> None:
    """Bytes at an offset, or, without bytes, a new size."""
    if data is None:
        if offset <= len(content):
            del content[offset:]
            return
        content.extend(bytes(offset - len(content)))
        return
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data
