"""Begins an empty data folder with what the bucket holds, before anything else opens the folder."""

import contextlib
import secrets
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path

import sql
from streams_node.config import Settings
from streams_node.errors import StoreRefused
from streams_node.manifest import Chain
from streams_node.manifest.restore import bootstrap as restore
from streams_node.objects import open_store
from streams_node.observe.logs import get_logger
from streams_node.wal.folder import DataFolder

log = get_logger(__name__)
_PLACEMENT = sql.queries("placement")


def bootstrap(settings: Settings, folder: DataFolder, now_us: Callable[[], int]) -> None:
    """Fill the folder, and take the bucket over. A folder that has been in use is past that: nothing is done."""
    if folder.database.exists() and _untouched(folder.database):
        log.info("a start that was refused left the data folder empty", folder=str(folder.path))
        folder.sign(used=False)  # first: without its database it would pass for one that lost it
        for name in ("", "-wal", "-shm"):
            Path(f"{folder.database}{name}").unlink(missing_ok=True)
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
    log.info("subscriptions are not in the object store; those of the former node have to be made again")


def _untouched(database: Path) -> bool:
    """Whether no node has ever served from a database: it ended before it had a place in a bucket."""
    try:
        with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as db:
            return bool(db.execute(_PLACEMENT.untouched).fetchone()[0])
    except sqlite3.Error:  # of another layout, or damaged: the start says so
        return False
