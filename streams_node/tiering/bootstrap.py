"""Begins an empty data folder with what the bucket holds, before anything else opens the folder."""

import secrets
import socket
from collections.abc import Callable

from streams_node.config import Settings
from streams_node.errors import StoreRefused
from streams_node.manifest import Chain
from streams_node.manifest.restore import bootstrap as restore
from streams_node.objects import open_store
from streams_node.observe.logs import get_logger
from streams_node.wal.folder import DataFolder

log = get_logger(__name__)


def bootstrap(settings: Settings, folder: DataFolder, now_us: Callable[[], int]) -> None:
    """Fill the folder, and take the bucket over. A folder that has a database is past that: nothing is done."""
    if folder.database.exists():
        log.info("the data folder is not empty; nothing is taken from the object store", folder=str(folder.path))
        return
    if settings.object_store == "memory":
        raise StoreRefused("object_store=memory is empty at every start; there is nothing to begin from")
    store = open_store(settings)
    try:
        restored = restore(
            Chain(store),
            folder.path,
            secrets.token_bytes(16).hex(),
            socket.gethostname(),
            now_us(),
            accept_loss=settings.bootstrap_accept_loss,
        )
    finally:
        store.close()
    for lost in restored.lost:
        log.error("left out, as it is damaged", what=lost)
    for passed in restored.passed_over:
        log.warning("damaged, and nothing is lost by it", what=passed)
    log.info(
        "began from the object store",
        place=store.place,
        generation=restored.header.generation,
        streams=restored.streams,
        objects=restored.objects,
        entries=restored.entries,
    )
