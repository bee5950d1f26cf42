"""One generation of the catalogue after another: composed, committed by a put-if-absent, applied in one transaction.

What was composed stays until its fate is known: a put whose answer was lost is sent again with the same bytes, so a
generation is never made twice. A crash in between is settled by the next start, which finds the generation or not.
"""

import sqlite3
from dataclasses import dataclass
from typing import NamedTuple

import sql
from streams_node.ingest.ledger import Ledger
from streams_node.manifest import FORMAT, Chain, Drop, Header, Object, Record, changes, check, compose, local, published
from streams_node.manifest.indexes import Told
from streams_node.objects.threads import Threads
from streams_node.placement.made import Made, Rewrite, Seal
from streams_node.testing.crashpoints import crash_point
from streams_node.wal.database import Database

_PLACEMENT = sql.queries("placement")


class Identity(NamedTuple):
    """Who publishes: this node's id, and the number of its ownership of the bucket."""

    node: str
    fence: int


@dataclass(slots=True)
class Composed:
    """A generation on its way."""

    header: Header
    data: bytes
    seals: list[Seal]
    rewrites: dict[int, bool]  # by their place in the outbox: taken, or refused
    objects: list[Made]
    drops: list[str]
    newest_change: int
    told: tuple[Told, ...]  # of indexes
    sum: str | None = None  # once it is in the bucket


class Publisher:
    """Publishes for one node. Its calls follow one another."""

    def __init__(
        self,
        database: Database,
        ledger: Ledger,
        chain: Chain,
        threads: Threads,
        identity: Identity,
        standing: "Standing",
    ) -> None:
        self._database = database
        self._ledger = ledger
        self.chain = chain
        self._threads = threads
        self._identity = identity
        self.standing = standing
        self._pending: Composed | None = None

    async def publish(self, seals: list[Seal], rewrites: list[Rewrite]) -> Composed:
        """Publish as much as one generation takes; the answer says what that was."""
        if self._pending is None:
            self._pending = await self._composed(seals, rewrites)
        pending = self._pending
        if pending.sum is None:
            crash_point("publish.before")
            await self._threads.run(check, self.chain.store, self._identity.node, self._identity.fence)
            pending.sum = await self._threads.run(self.chain.commit, pending.header, pending.data)
            crash_point("publish.put")
        now_us = self._ledger.now_us()
        await self._database.writer.run(_apply, pending, now_us)
        crash_point("publish.after")
        header = pending.header
        self.standing = Standing(header.generation, pending.sum, header.through_row)
        self._ledger.told(header.epoch_newest)
        self._pending = None
        return pending

    async def trusted(self) -> bool:
        """Whether the bucket is this node's, and has nothing that its database does not know."""
        await self._threads.run(check, self.chain.store, self._identity.node, self._identity.fence)
        return not await self._threads.run(self.chain.exists, self.standing.generation + 1)

    async def _composed(self, seals: list[Seal], rewrites: list[Rewrite]) -> Composed:
        """The seals were made before this looks: every stream that they name is told of here, or was before."""
        changed = await self._database.looks.run(changes)
        if not changed.complete:  # streams first, in generations of their own: no object names one that is not told of
            seals, rewrites = [], []
        taken = {at: await self._database.looks.run(_all_live, each.inputs) for at, each in enumerate(rewrites)}
        chosen = [each for at, each in enumerate(rewrites) if taken[at]]
        objects = [made for seal in seals for made in seal.objects] + [made for each in chosen for made in each.outputs]
        drops = [made for each in chosen for made in each.inputs]
        lines: list[Record] = [*changed.records]
        lines += (Object.of(made.facts) for made in objects)
        lines += (Drop(made=made) for made in drops)
        header = self._header(seals[-1].through_row if seals else self.standing.through_row, complete=changed.complete)
        ends = [seal.ends for seal in seals if seal.ends is not None]
        data = await self._threads.run(compose, header, lines, ends)
        return Composed(header, data, seals, taken, objects, drops, changed.newest_change, changed.told)

    def _header(self, through_row: int, *, complete: bool) -> Header:
        ledger, standing = self._ledger, self.standing
        return Header(
            format=FORMAT,
            complete=complete,
            generation=standing.generation + 1,
            node=self._identity.node,
            fence=self._identity.fence,
            previous=standing.sum,
            made_us=ledger.now_us(),
            through_row=through_row,
            next_stream=ledger.next_stream,
            next_bucket=ledger.buckets.newest + 1,
            epoch_base=ledger.epochs.base,
            epoch_newest=ledger.epochs.newest,
        )


class Standing(NamedTuple):
    """Where the chain of generations ends, as this node's database knows it."""

    generation: int
    sum: str
    through_row: int


def standing_of(db: sqlite3.Connection) -> Standing:
    known = local(db)
    return Standing(known.generation, known.generation_sum, known.released_through)


def _apply(db: sqlite3.Connection, composed: Composed, now_us: int) -> None:
    facts = [made.facts for made in composed.objects]
    published(
        db,
        composed.header,
        composed.sum or "",
        facts,
        composed.drops,
        newest_change=composed.newest_change,
        now_us=now_us,
        told=composed.told,
    )
    for made in composed.objects:
        if made.directory is not None:
            db.execute(_PLACEMENT.keep_directory, {"made": made.facts.made, "directory": made.directory})


def _all_live(db: sqlite3.Connection, inputs: list[str]) -> bool:
    return all(db.execute(_PLACEMENT.is_live, (made,)).fetchone()[0] for made in inputs)
