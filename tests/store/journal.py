"""Every change of files and names that this process makes, and every fsync: what a power loss could take.

The model: bytes of a file are safe once the file was synced after them; a name in a folder is safe once the folder was
synced after it. What a rename takes away from `incoming` is of no interest.
"""

import os
from pathlib import Path
from typing import Literal, NamedTuple

import pytest


class Step(NamedTuple):
    kind: Literal["bytes", "name", "folder", "sync"]
    path: Path


class Journal:
    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        if not Path("/proc/self/fd").is_dir():
            pytest.skip("the journal finds out what a descriptor is from /proc")
        self.steps: list[Step] = []
        write, fsync, link, replace, mkdir, unlink = os.write, os.fsync, os.link, os.replace, os.mkdir, os.unlink

        def noted_write(fd: int, data: bytes) -> int:
            self._note("bytes", _path_of(fd))
            return write(fd, data)

        def noted_fsync(fd: int) -> None:
            fsync(fd)
            self._note("sync", _path_of(fd))

        def noted_link(source: Path, target: Path) -> None:
            link(source, target)
            self._named(source, target)

        def noted_replace(source: Path, target: Path) -> None:
            replace(source, target)
            self._named(source, target)

        def noted_mkdir(path: Path, mode: int = 0o777) -> None:
            mkdir(path, mode)
            self._note("folder", Path(path))

        def noted_unlink(path: Path) -> None:
            unlink(path)
            if Path(path).parent.name != "incoming":
                self._note("name", Path(path))

        for name, noted in {
            "write": noted_write,
            "fsync": noted_fsync,
            "link": noted_link,
            "replace": noted_replace,
            "mkdir": noted_mkdir,
            "unlink": noted_unlink,
        }.items():
            patch.setattr(os, name, noted)

    def at_risk(self, count: int) -> set[Path]:
        """Files and folders that a power loss right after the first `count` steps could find in an older state."""
        risky: set[Path] = set()
        for step in self.steps[:count]:
            match step.kind:
                case "bytes":
                    risky.add(step.path)
                case "name" | "folder":
                    risky.add(step.path.parent)
                case "sync":
                    risky.discard(step.path)
        return risky

    def _named(self, source: Path, target: Path) -> None:
        # The bytes keep their state under the new name.
        if Path(source) in self.at_risk(len(self.steps)):
            self._note("bytes", Path(target))
        self._note("name", Path(target))

    def _note(self, kind: Literal["bytes", "name", "folder", "sync"], path: Path) -> None:
        self.steps.append(Step(kind, path))


def _path_of(fd: int) -> Path:
    return Path(f"/proc/self/fd/{fd}").readlink()
