"""After a publish whose end nobody saw: what is in the bucket above the local generation, applied as if just published.

Keeps    only this node's own generations, of its own fence, in an unbroken chain; anything else stops the node.
Dies     between two of them: the next look goes on behind the last one that was applied.
"""

import hashlib
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

import sql
from streams_node.errors import CatalogueError, Fenced
from streams_node.manifest.chain import Chain
from streams_node.manifest.compose import parse
from streams_node.manifest.local import local, published
from streams_node.manifest.records import Drop, Header, Object
from streams_node.placement.made import ObjectFacts

_CATALOGUE = sql.queries("catalogue")


class Found(NamedTuple):
    """A generation in the bucket that the database does not know yet; what `published` takes."""

    header: Header
    sha256: str
    objects: list[ObjectFacts]
    drops: list[str]


def reconcile(db: sqlite3.Connection, chain: Chain, node: str, fence: int, now_us: int) -> int:
    """Apply what is there; returns how many generations. Blocks for the store: the database is not locked meanwhile."""
    known = local(db)
    count = 0
    for found in unapplied(chain, known.generation, known.generation_sum, node, fence):
        apply_found(db, found, now_us)
        count += 1
    return count


def unapplied(chain: Chain, generation: int, checksum: str, node: str, fence: int) -> Iterator[Found]:
    """Own generations above a known one, oldest first; Fenced at the first one of somebody else."""
    newest = chain.newest(generation)
    if newest < generation:
        raise CatalogueError(
            f"generation {generation} of the catalogue, which this node published, is not in {chain.store.place} any "
            "more: it is another place, or was emptied. Point the node at the right one (s3_bucket, s3_prefix, "
            "object_store_folder), or restore it from a copy"
        )
    for number in range(generation + 1, newest + 1):
        data = chain.fetch(number)
        name = f"generation {number}"
        header, records = parse(data, name)
        if (header.node, header.fence) != (node, fence):
            raise Fenced(
                f"node `{header.node}` (fence {header.fence}) published {name}; this node is `{node}` (fence {fence}) "
                "and must not publish any more",
                generation=number,
                node=header.node,
                fence=header.fence,
            )
        if header.generation != number or header.previous != checksum:
            raise CatalogueError(
                f"{name} of the catalogue in {chain.store.place} does not follow the one that this node knows: the "
                "bucket, or the data folder, is a copy of another time. Use the pair that belongs together, or start "
                "an empty folder with --bootstrap-from-store"
            )
        objects: list[ObjectFacts] = []
        drops: list[str] = []
        for record in records:
            if isinstance(record, Object):
                objects.append(record.facts())
            elif isinstance(record, Drop):
                drops.append(record.made)
        checksum = hashlib.sha256(data).hexdigest()
        yield Found(header, checksum, objects, drops)


def apply_found(db: sqlite3.Connection, found: Found, now_us: int) -> None:
    """The transaction of one of them. Names stay untold: which of them it told is not known any more."""
    newest_row: int = db.execute(_CATALOGUE.newest_row).fetchone()[0]
    if found.header.through_row > newest_row:
        raise CatalogueError(
            f"generation {found.header.generation} holds log rows up to {found.header.through_row}, and this data "
            f"folder has none after {newest_row}: it is an older copy of the one that published. Serving it would give "
            "new entries the places of old ones; start an empty folder with --bootstrap-from-store instead"
        )
    published(db, found.header, found.sha256, found.objects, found.drops, 0, now_us)
