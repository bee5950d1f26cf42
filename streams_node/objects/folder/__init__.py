"""Objects as plain files in a folder: the default store, for one machine.

    <root>/<key>                     the object: anybody's DuckDB or pandas reads it where it lies
    <root>/.store/format             version of this layout
    <root>/.store/lock               held for the moment in which an object becomes visible
    <root>/.store/incoming/<name>    being written; its writer holds a lock on it for as long as it lives
    <root>/.store/notes/<key>.json   checksum and write id of the object

Owns     everything below the root; several processes of one machine may share it.
Keeps    a put is done when file, note and the names of both are on disk (fsync of the files and of their folders).
         The kernel creates exclusively (`link`), so not even a stranger's file is overwritten.
Dies     while writing: a file in `incoming`, swept at the next start, as the kernel freed its lock. Between note and
         object: a note without an object, replaced by the next put of that key. Between the object's appearance and
         the answer: the object is there, and a repeated put with the same write id finds that.

Files    store.py (requests), incoming.py (files on their way in), looks.py (an object and its note at one moment),
         notes.py (the codec of notes), lock.py, disk.py (steps after which something is on disk).
"""

from streams_node.objects.folder.store import FolderStore

__all__ = ["FolderStore"]
