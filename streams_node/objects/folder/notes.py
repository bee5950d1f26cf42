"""What a folder store knows about an object beside its bytes: one small JSON file each, in a tree of its own.

An object has to stay the plain file that DuckDB reads, so write id and checksum are kept elsewhere. Not in extended
attributes: many file systems and copying tools lose them. The file:

    {"version": 1, "writes": [{"size": 5, "mtime_ns": 17..., "sha256": "2cf2...", "write_id": "9a..."}, ...]}

Keeps  the note is durable before its object is visible: whoever sees an object can name the write it came from.
       While an object is being replaced its note describes both, the new one first; a reader takes the one that fits
       the file it opened. So a crash between the two renames leaves a note that fits either file.
"""

import json
from typing import NamedTuple

from streams_node.errors import StoreCorrupt
from streams_node.objects.keys import Key
from streams_node.objects.protocol import Checksum, ETag, Stored, WriteId

_VERSION = 1
_ETAG_CHARS = 32


class Note(NamedTuple):
    """One write, as its file looked when it was written."""

    size: int
    mtime_ns: int
    checksum: Checksum
    write_id: WriteId

    def stored(self) -> Stored:
        return Stored(etag_of(self.checksum), self.size, self.checksum, self.write_id)


def etag_of(checksum: Checksum) -> ETag:
    """An etag of the content, as S3's is: found again from the bytes when notes are lost in a copy.

    Not of size and time: two replacements within one tick of the file system's clock (4 ms) would look the same, and
    a conditional write could destroy one of them.
    """
    return ETag(f'"{checksum[:_ETAG_CHARS]}"')


def encode(notes: tuple[Note, ...]) -> bytes:
    writes = [
        {"size": note.size, "mtime_ns": note.mtime_ns, "sha256": note.checksum, "write_id": note.write_id}
        for note in notes
    ]
    return json.dumps({"version": _VERSION, "writes": writes}).encode() + b"\n"


def decode(key: Key, text: bytes) -> tuple[Note, ...]:
    try:
        facts = json.loads(text)
        if facts["version"] != _VERSION:
            raise StoreCorrupt(key, f"its note has version {facts['version']}; this program knows version {_VERSION}")
        return tuple(
            Note(int(one["size"]), int(one["mtime_ns"]), Checksum(str(one["sha256"])), WriteId(str(one["write_id"])))
            for one in facts["writes"]
        )
    except (ValueError, KeyError, TypeError) as problem:
        raise StoreCorrupt(key, "its note cannot be read; without the note the object is taken as it is") from problem
