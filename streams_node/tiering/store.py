"""Opens the object store at a start, and finds out whose it is."""

import secrets
import socket

from streams_node.config import Settings
from streams_node.errors import Fenced, StoreRefused, StoreUnavailable
from streams_node.indexing.known import KnownCovers
from streams_node.ingest.ledger import Ledger
from streams_node.manifest import owner
from streams_node.manifest.chain import Chain
from streams_node.manifest.local import Local, local, own
from streams_node.manifest.reconcile import Found, apply_found, unapplied
from streams_node.objects import RequestCounts, RetryingStore, connect, require_conditions
from streams_node.objects.keys import object_id
from streams_node.objects.threads import Threads
from streams_node.observe.logs import get_logger
from streams_node.uploader import Publisher
from streams_node.uploader.publisher import Identity, standing_of
from streams_node.wal.database import Database

log = get_logger(__name__)


def store_of(settings: Settings, counts: RequestCounts, known: Local) -> RetryingStore:
    """The store of these settings, not asked anything yet."""
    if settings.object_store == "memory" and known.fence:
        raise StoreRefused(
            "object_store=memory keeps nothing over a restart, and this data folder has entries there already; "
            "use it with an empty folder"
        )
    return connect(settings, counts)


class Opening:
    """Asks the store until it is known to be this node's: at the start, and again later if it was away then."""

    def __init__(
        self, store: RetryingStore, database: Database, covers: KnownCovers, ledger: Ledger, threads: Threads
    ) -> None:
        self._store = store
        self._database = database
        self._covers = covers
        self._ledger = ledger
        self._threads = threads
        self._suitable = False
        self._early: Publisher | None = None

    async def at_start(self) -> None:
        """Refuse a store that cannot be used. One that is merely away is no reason, once the folder has been in use."""
        try:
            self._early = await self.publisher()
        except Fenced as problem:  # the stage finds out again, and says so for as long as the node runs
            log.warning("another node owns the bucket", reason=problem.message)
        except StoreUnavailable as problem:
            if not (await self._database.readers.run(local)).generation:
                raise
            log.warning("the object store does not answer; the node serves what it has", error=problem.message)

    async def publisher(self) -> Publisher:
        """The publisher of this node, behind everything that it has published before."""
        if self._early is not None:
            early, self._early = self._early, None
            return early
        if not self._suitable:
            await self._threads.run(require_conditions, self._store, object_id(secrets.token_bytes(16)))
            self._suitable = True
        known = await self._database.readers.run(local)
        identity = await self._identity(known)
        chain = Chain(self._store)
        for found in await self._threads.run(self._unapplied, chain, known, identity):
            await self._covers.change(apply_found, found, self._ledger.now_us())
        standing = await self._database.readers.run(standing_of)
        return Publisher(self._database, self._ledger, chain, self._threads, identity, standing)

    async def _identity(self, known: Local) -> Identity:
        """Who this node is in the bucket. Its id is on disk before the bucket sees it."""
        node = known.node
        if not node:
            node = secrets.token_bytes(16).hex()
            await self._database.writer.run(own, node, 0)
        if known.fence:
            await self._threads.run(owner.check, self._store, node, known.fence)
            return Identity(node, known.fence)
        fence = await self._threads.run(owner.claim, self._store, node, socket.gethostname(), self._ledger.now_us())
        await self._database.writer.run(own, node, fence)
        return Identity(node, fence)

    def _unapplied(self, chain: Chain, known: Local, identity: Identity) -> list[Found]:
        return list(unapplied(chain, known.generation, known.generation_sum, identity.node, identity.fence))
