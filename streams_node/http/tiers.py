"""What the edge asks of the tiers below the log; the composition root brings it."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

from streams_node.answers import Indexes
from streams_node.cache import Cache
from streams_node.indexing.desk import Desk
from streams_node.objects import RequestCounts
from streams_node.read.cold import ColdReader


class TierFacts(NamedTuple):
    """How the tiers stand, for people. What is not there yet has the values of a node that does nothing."""

    opened: bool = False  # the bucket is known to be this node's
    away: bool = False  # the newest failure was that the store does not answer
    store_problem: str | None = None
    sealing_problem: str | None = None
    compaction_problem: str | None = None
    collection_problem: str | None = None
    backlog_bytes: int = 0
    sealed_bytes: int = 0  # of these: in files on their way
    lag_s: float = 0.0
    seals_waiting: int = 0
    waiting_bytes: int = 0
    seals: int = 0
    compactions: int = 0
    collected: int = 0
    damaged: Mapping[str, int] = {}  # by where they were found
    driver: Literal["off", "idle", "running"] = "off"
    driver_problem: str | None = None
    driver_starts: int = 0
    index_cache_bytes: int = 0
    view_bytes: int = 0


class Tiers(Protocol):
    @property
    def reader(self) -> ColdReader | None:
        """Reads entries that are not in the log any more."""

    @property
    def cache(self) -> Cache | None:
        """Copies of sealed objects."""

    @property
    def indexes(self) -> Indexes | None:
        """Answers out of index objects."""

    @property
    def desk(self) -> Desk | None:
        """Where index drivers come to, and what there is for them to do."""

    @property
    def generation(self) -> int:
        """The newest generation of the catalogue."""

    @property
    def published_through(self) -> int:
        """Log rows up to this one are in the bucket."""

    @property
    def counts(self) -> RequestCounts:
        """Requests to the object store since the start."""

    def facts(self) -> TierFacts:
        """How they stand."""

    async def flush(self, row: int) -> None:
        """Return once the log up to a row is in the bucket."""

    def hold_driver(self, *, hold: bool, end: bool) -> None:
        """Start no index driver beside the node for now, or again; end the one that runs."""

    def listening(self, url: str) -> None:
        """The operator's routes can be reached from this machine, at this address."""

    async def open(self) -> None:
        """Ask the store, and refuse one that cannot be used."""

    def start(self) -> None:
        """Begin the stages."""

    async def stop(self) -> None:
        """End them; what is under way is taken up by the next start."""


class NoTiers:
    """A node whose stages have not been started: whatever is flushed is not in the bucket yet."""

    generation = 0
    published_through = 0
    reader: ColdReader | None = None
    cache: Cache | None = None
    indexes: Indexes | None = None
    desk: Desk | None = None

    def __init__(self) -> None:
        self.counts = RequestCounts()

    def facts(self) -> TierFacts:
        return TierFacts()

    async def flush(self, row: int) -> None:
        """Nobody will."""
        raise TimeoutError(f"row {row} stays in the log")

    def hold_driver(self, *, hold: bool, end: bool) -> None: ...

    def listening(self, url: str) -> None: ...

    async def open(self) -> None: ...

    def start(self) -> None: ...

    async def stop(self) -> None: ...
