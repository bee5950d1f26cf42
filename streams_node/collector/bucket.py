"""Questions to the bucket; they block."""

import contextlib
import secrets

from streams_node.errors import CatalogueError, StoreError
from streams_node.manifest.records import INDEX_PART
from streams_node.manifest.snapshots import Listed, fetch_index
from streams_node.objects.keys import Generation, object_id, probe_key, probe_run, snapshot_key
from streams_node.objects.protocol import WriteId
from streams_node.objects.retry import RetryingStore


def is_whole(store: RetryingStore, snapshot: Listed) -> bool:
    """Whether every part that the index names is there as it says: a listing says too little to delete for it."""
    try:
        index = fetch_index(store, snapshot.generation)
    except CatalogueError:
        return False
    for part in index.parts:
        there = store.head(snapshot_key(Generation(snapshot.generation), part.part))
        if there is None or there.checksum not in (None, part.sha256):
            return False
    return INDEX_PART in snapshot.parts


def store_now_us(store: RetryingStore) -> int | None:
    """The time by the store's clock, which is the one that dates its objects; None if it does not show it."""
    run = object_id(secrets.token_bytes(16))
    key = probe_key(run, "clock")
    try:
        store.put(key, b"clock", write_id=WriteId(run))
        page = store.list(probe_run(run))
    finally:
        with contextlib.suppress(StoreError):  # the next scan deletes it
            store.delete(key)
    return next((listed.modified_us for listed in page.objects if listed.key == key), None)
