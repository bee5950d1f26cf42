"""A wake from its beginning to its end, as a value. Pure: what is decided here is stored first, and counts after that.

    idle ──begun──> calling     a webhook: the receiver is called until it has taken the wake, then has the lease
      ^             announced   pull-wake: anybody may claim it
      │             claimed     one worker has it, for as long as its lease
      └──cleared─── any of them: done, released, or the lease is over

Keeps    the generation only grows, by one a wake. What carries another generation or wake than the current ones is
         fenced, so of two workers that believe to hold a wake, one is told that it does not.
"""

from enum import StrEnum

import msgspec

from streams_node.errors import WakeFenced
from streams_node.wal.lookup import Name

RETRY_FIRST_MS = 1000
RETRY_MS_MAX = 60_000
_JITTER = 0.2
_DOUBLINGS_MAX = 6  # the wait has reached its bound by then
_MILLI_US = 1000


class Kind(StrEnum):
    WEBHOOK = "webhook"
    PULL = "pull-wake"


class Phase(StrEnum):
    IDLE = "idle"
    CALLING = "calling"
    ANNOUNCED = "announced"
    CLAIMED = "claimed"


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """A stream as a wake began: what was acknowledged of it, and its end."""

    bucket: str
    name: str
    stream: int
    seq: int
    acked: str
    tail: str
    explicit: bool
    pending: bool

    @property
    def who(self) -> Name:
        return Name(self.bucket, self.name)


class Wake(msgspec.Struct, frozen=True):
    """Where a subscription stands."""

    generation: int = 0
    phase: Phase = Phase.IDLE
    id: str | None = None
    holder: str | None = None
    lease_us: int = 0  # when the lease ends; 0 while nobody has it
    delivered: bool = False
    attempts: int = 0
    attempt_us: int = 0  # when the next call is due, 0 for at once
    seen: tuple[Seen, ...] = ()

    @property
    def failing(self) -> bool:
        return self.attempts > 0

    @property
    def due_us(self) -> int | None:
        """When something has to be done about it, unless somebody acts before."""
        match self.phase:
            case Phase.CALLING if not self.delivered:
                return self.attempt_us
            case Phase.CALLING | Phase.CLAIMED:
                return self.lease_us
            case _:
                return None

    def over(self, now_us: int) -> bool:
        """Whether somebody had the lease, and it has ended."""
        leased = self.phase is Phase.CLAIMED or (self.phase is Phase.CALLING and self.delivered)
        return leased and now_us >= self.lease_us


def begun(wake: Wake, kind: Kind, wake_id: str, seen: tuple[Seen, ...]) -> Wake:
    """The next wake."""
    phase = Phase.CALLING if kind is Kind.WEBHOOK else Phase.ANNOUNCED
    return Wake(wake.generation + 1, phase, wake_id, seen=seen)


def claimed(wake: Wake, holder: str, lease_us: int) -> Wake:
    return msgspec.structs.replace(wake, phase=Phase.CLAIMED, holder=holder, lease_us=lease_us)


def extended(wake: Wake, lease_us: int) -> Wake:
    """A holder that shows that it lives. A receiver that does so has taken the wake, whatever became of the call."""
    return msgspec.structs.replace(wake, lease_us=lease_us, delivered=True, attempts=0, attempt_us=0)


def failed(wake: Wake, now_us: int, chance: float) -> Wake:
    """A call came to nothing; the next one comes later each time. `chance` is from 0 to 1."""
    attempts = wake.attempts + 1
    wait_ms = min(RETRY_MS_MAX, RETRY_FIRST_MS << min(attempts - 1, _DOUBLINGS_MAX))
    wait_us = int(wait_ms * _MILLI_US * (1 + _JITTER * (2 * chance - 1)))
    return msgspec.structs.replace(wake, attempts=attempts, attempt_us=now_us + wait_us)


def cleared(wake: Wake) -> Wake:
    """Nobody has a wake; the generation stays, so the last one is fenced once there is another."""
    return Wake(wake.generation)


def guard(wake: Wake, *, token_generation: int, generation: int, wake_id: str) -> None:
    """Refuse whoever does not hold the current wake."""
    current = wake.generation
    if wake.phase not in {Phase.CALLING, Phase.CLAIMED} or not token_generation == generation == current:
        raise WakeFenced("the wake is over, or somebody else's by now", generation=current)
    if wake_id != wake.id:
        raise WakeFenced("another wake is under way", generation=current)
