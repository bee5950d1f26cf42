"""Who is at which work: leases with fencing numbers, in memory. A restart of the node ends them all."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from indexers.messages import Merge
from indexers.plan import Family
from streams_node.errors import LeaseEnded
from streams_node.indexing.spans import Span

LEASES_A_CLAIM = 60  # a claim may take so many leases in all, however often it is renewed
_FINISHED_KEPT = 256  # a driver whose answer was lost asks again within seconds


class Wanted(NamedTuple):
    """What a lease may cover of one stream in one family: these spans, under this configuration."""

    config: str
    spans: list[Span]


@dataclass(slots=True)
class Lease:
    """`builds` by (stream, family); `merges` by their inputs, in order."""

    claim: str
    fence: int
    driver: str
    began: float
    ends: float
    bytes: int
    work: int
    done: int = 0
    builds: dict[tuple[int, Family], Wanted] = field(default_factory=dict)
    merges: dict[tuple[str, ...], Merge] = field(default_factory=dict)
    sources: frozenset[str] = frozenset()

    def streams(self) -> set[int]:
        return {stream for stream, _ in self.builds}


class Finished(NamedTuple):
    """What came of a claim, for a driver that asks again."""

    fence: int
    covers: int
    left_out: int


class Leases:
    """A claim ends at last, however often it is renewed: what its driver put cannot be taken for an orphan before."""

    def __init__(self, lease_s: float, clock: Callable[[], float]) -> None:
        self.lease_s = lease_s
        self._life_s = lease_s * LEASES_A_CLAIM
        self._clock = clock
        self._living: dict[str, Lease] = {}
        self._finished: OrderedDict[str, Finished] = OrderedDict()

    def __len__(self) -> int:
        return len(self._living)

    def __iter__(self) -> Iterator[Lease]:
        return iter(list(self._living.values()))

    def grant(self, lease: Lease) -> None:
        lease.began = self._clock()
        lease.ends = lease.began + self.lease_s
        self._living[lease.claim] = lease

    def find(self, claim: str, fence: int) -> Lease:
        """The lease of a claim, as long as it lives."""
        lease = self._living.get(claim)
        if lease is None or lease.fence != fence or lease.ends <= self._clock():
            raise LeaseEnded(claim, fence)
        return lease

    def renew(self, claim: str, fence: int, done: int) -> Lease:
        lease = self.find(claim, fence)
        now = self._clock()
        lease.ends = min(now + self.lease_s, lease.began + self._life_s)
        lease.done = min(done, lease.work)
        return lease

    def finish(self, lease: Lease, covers: int, left_out: int) -> None:
        self._living.pop(lease.claim, None)
        self._finished[lease.claim] = Finished(lease.fence, covers, left_out)
        while len(self._finished) > _FINISHED_KEPT:
            self._finished.popitem(last=False)

    def finished(self, claim: str, fence: int) -> Finished | None:
        found = self._finished.get(claim)
        return found if found is not None and found.fence == fence else None

    def ended(self) -> list[Lease]:
        """Take out those whose time is over."""
        now = self._clock()
        over = [lease for lease in self._living.values() if lease.ends <= now]
        for lease in over:
            del self._living[lease.claim]
        return over

    def give_up(self, driver: str) -> int:
        """End the leases of drivers whose name begins so: they are known to be dead. Returns how many there were."""
        found = [lease for lease in self._living.values() if lease.driver.startswith(driver)]
        for lease in found:
            lease.ends = self._clock()
        return len(found)

    def taken(self, stream: int, family: Family) -> list[Span]:
        """Entries that somebody is at."""
        found: list[Span] = []
        for lease in self._living.values():
            wanted = lease.builds.get((stream, family))
            if wanted is not None:
                found += wanted.spans
        return found

    def merging(self) -> set[str]:
        """Index objects that somebody is merging."""
        return {made for lease in self._living.values() for inputs in lease.merges for made in inputs}
