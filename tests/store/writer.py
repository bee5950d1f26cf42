"""A process that writes into a folder store until it is done or killed, and says what was answered.

python -m tests.store.writer FOLDER create COUNT [RUN]    the same objects each time, unless RUN differs
python -m tests.store.writer FOLDER replace COUNT         the record `owner`, from wherever it is
python -m tests.store.writer FOLDER delete COUNT
python -m tests.store.writer FOLDER rival COUNT NAME
"""

import hashlib
import sys
from pathlib import Path

from streams_node.errors import PreconditionFailed
from streams_node.objects import FolderStore, Key, RequestCounts, RetryingStore, WriteId
from streams_node.objects.keys import OWNER, object_id, pack_key

_REPEATS = 3000  # some 100 KB, so that a kill may hit the middle


def main(folder: str, action: str, count: str, run: str = "") -> None:
    store = RetryingStore(FolderStore.open(Path(folder)), RequestCounts())
    for number in range(int(count)):
        key = key_of(number, "" if action == "rival" else run)
        write_id = WriteId(f"{action}-{number}-{run.replace('.', '-')}" if run else f"{action}-{number}")
        match action:
            case "replace":
                before = store.head(OWNER)
                data = b"%d" % number
                store.put(OWNER, data, write_id=write_id, if_match=before.etag if before else None)
            case "delete":
                store.put(key, content_of(key), write_id=write_id)
                store.delete(key)
            case _:
                try:
                    store.put(key, content_of(key), write_id=write_id)
                except PreconditionFailed:
                    if action != "rival":
                        raise
                    continue
        print(key, write_id, "done", flush=True)  # noqa: T201 - what the test reads


def key_of(number: int, run: str) -> Key:
    return pack_key(object_id(hashlib.md5(f"{run} {number}".encode(), usedforsecurity=False).digest()))


def content_of(key: Key) -> bytes:
    """What belongs under a key: any other bytes are damage."""
    return key.encode() * _REPEATS


if __name__ == "__main__":
    main(*sys.argv[1:])
