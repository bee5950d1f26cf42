"""A companion in a folder of this disk."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from indexers.companion import Directory


class Unpacked(NamedTuple):
    """A companion in a folder; what a view needs of a `Pack`."""

    name: str
    directory: "Directory"
    folder: Path
    size: int

    def unpack(self, folder: Path) -> None:
        """The same files once more, as links."""
        folder.mkdir(parents=True)
        for path in self.folder.iterdir():
            (folder / path.name).hardlink_to(path)


def unpacked(path: Path, made: str, folder: Path) -> Unpacked:
    """The companion in a file, unpacked into a new folder; in a thread."""
    from indexers.companion import Pack  # noqa: PLC0415 - loads tantivy

    pack = Pack(path, name=made)
    try:
        pack.unpack(folder)
    except BaseException:
        remove(folder)
        raise
    return Unpacked(made, pack.directory, folder, sum(each.bytes for each in pack.directory.files))


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
