"""What clients were told, and what a node must therefore show after it died at any moment.

Owns     the attempts on every stream of a run: what was sent, what came back, where it must stand.
Pulls    answers from `load.py`, read-backs from `readback.py`.
Keeps    stored = acknowledged, or once seen by a reader: it stands there from now on, at that place, once.
         open = no answer: whole or not at all; the first read-back after the crash settles which, for good.
         refused = answered with a refusal, or settled as not stored: it never appears.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count
from math import inf
from typing import NamedTuple

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CLOCK = count(1)  # every sending and every answer, in the order in which the one test process saw them


def now() -> int:
    return next(_CLOCK)


class Place(NamedTuple):
    """A decoded offset token. Decoded here once more, so that the node's own codec is not its judge."""

    epoch: int
    seq: int


def place(token: str) -> Place:
    bits = 0
    for digit in token:
        bits = bits << 5 | _DIGITS.index(digit)
    return Place(bits >> 98, bits >> 34 & (1 << 64) - 1)


class Broken(AssertionError):
    """The node does not show what it must."""


class Outcome(Enum):
    OPEN = auto()
    STORED = auto()
    REFUSED = auto()


class Presence(Enum):
    ABSENT = auto()
    PRESENT = auto()
    CREATING = auto()  # a PUT without an answer
    DELETING = auto()  # a DELETE without an answer


@dataclass(slots=True)
class Attempt:
    """One append, or the first content of a create."""

    writer: str
    entries: tuple[str, ...]
    closes: bool = False
    sent: int = field(default_factory=now)
    answered: int = 0
    end: int | None = None  # the sequence after its last entry
    outcome: Outcome = Outcome.OPEN
    never: bool = False  # the node must refuse it, so it is refused whatever becomes of the answer

    def stored(self, end: int) -> None:
        if self.end not in (None, end):
            raise Broken(f"{self.writer}: {self.entries[:1]} was at {self.end} before, now at {end}")
        self.end, self.outcome, self.answered = end, Outcome.STORED, self.answered or now()

    def refused(self) -> None:
        self.outcome = Outcome.REFUSED

    def again(self) -> None:
        """It is about to be sent, perhaps not for the first time."""
        if self.outcome is Outcome.REFUSED and not self.never:
            self.outcome, self.sent = Outcome.OPEN, now()


class Found(NamedTuple):
    """A stream as it was read back whole; None for one that is not there."""

    epoch: int
    tail: int
    closed: bool
    entries: list[str]


@dataclass(slots=True)
class Stream:
    """One name and its current life."""

    path: str
    json: bool = False
    presence: Presence = Presence.ABSENT
    epoch: int | None = None
    epoch_least: int = 0  # of its next life
    attempts: list[Attempt] = field(default_factory=list)
    final: int | None = None  # the end it is known to be closed at
    seen: dict[int, str] = field(default_factory=dict)  # what a reader was shown, by sequence
    tail: int = 0  # at the last read-back
    ttl_s: int | None = None
    alive_until: float = 0.0  # of a sliding window: before this moment it must be there,
    dead_from: float = 0.0  # and from this one on it must not

    @property
    def content_type(self) -> str:
        return "application/json" if self.json else "text/plain"

    def attempt(self, writer: str, entries: Iterable[str], *, closes: bool = False) -> Attempt:
        made = Attempt(writer, tuple(entries), closes)
        self.attempts.append(made)
        return made

    def hopeless(self, writer: str, entries: Iterable[str]) -> Attempt:
        """An attempt that must be refused."""
        made = self.attempt(writer, entries)
        made.never, made.outcome = True, Outcome.REFUSED
        return made

    def creating(self, writer: str, entries: Iterable[str] = (), *, closes: bool = False) -> Attempt:
        """A new life begins: whatever an earlier one held is over."""
        assert self.presence is Presence.ABSENT, f"{self.path} is {self.presence}"
        self.attempts, self.seen, self.final, self.epoch = [], {}, None, None
        self.alive_until = self.dead_from = 0.0
        self.presence = Presence.CREATING
        return self.attempt(writer, entries, closes=closes)

    def created(self, attempt: Attempt, token: str) -> None:
        self.presence = Presence.PRESENT
        self.acknowledge(attempt, token)

    def acknowledge(self, attempt: Attempt, token: str) -> None:
        """A 2xx answer with this `Stream-Next-Offset`."""
        epoch, seq = place(token)
        self._in_epoch(epoch)
        attempt.stored(seq)
        if attempt.closes:
            self.final = seq

    def gone(self) -> None:
        """A DELETE was acknowledged, or a read-back says that there is nothing."""
        self.presence = Presence.ABSENT
        if self.epoch is not None:
            self.epoch_least = self.epoch + 1
        self.epoch = None

    def saw(self, start: int, entries: list[str]) -> None:
        """A reader was shown these entries from `start` on."""
        for seq, entry in enumerate(entries, start):
            if self.seen.setdefault(seq, entry) != entry:
                raise Broken(f"{self.path}: a reader saw {self.seen[seq]!r} at {seq}, then {entry!r}")

    def touched(self, sent: float, answered: float) -> None:
        """A read or a write between these moments restarted the window; a stored one may end a little later."""
        if self.ttl_s is not None:
            slack_s = max(1.0, self.ttl_s / 10)
            self.alive_until = max(self.alive_until, sent + self.ttl_s)
            self.dead_from = answered + self.ttl_s + slack_s

    def touching(self) -> None:
        """Something that restarts the window is under way: until it is answered nobody knows when it ends."""
        self.dead_from = inf

    def missing(self, answered: float) -> None:
        """It was answered 404 at this moment."""
        if self.presence is Presence.PRESENT and (self.ttl_s is None or answered < self.alive_until):
            raise Broken(f"{self.path}: an acknowledged stream is not there")
        self.gone()

    def settle(self, found: Found | None, sent: float = 0.0, answered: float = 0.0) -> None:
        """Judge a read-back that was made between two moments, and turn every open question into a fact."""
        if found is None:
            self.missing(answered)
            return
        if self.ttl_s is not None and self.presence is Presence.PRESENT and sent > self.dead_from:
            raise Broken(f"{self.path}: its time was over {sent - self.dead_from:.3f} s ago and it is there")
        if self.presence is Presence.ABSENT:
            raise Broken(f"{self.path}: it was deleted, and shows {len(found.entries)} entries")
        self.presence = Presence.PRESENT
        self._in_epoch(found.epoch)
        self.tail = found.tail
        Judge(self, found).run()
        self.touched(sent, answered)

    def _in_epoch(self, epoch: int) -> None:
        if epoch < self.epoch_least:
            raise Broken(f"{self.path}: epoch {epoch} belongs to an earlier life, {self.epoch_least} is the least")
        if self.epoch not in (None, epoch):
            raise Broken(f"{self.path}: its epoch was {self.epoch}, now {epoch}, without a new life")
        self.epoch = epoch


class Judge:
    """One read-back of one life against its attempts."""

    def __init__(self, stream: Stream, found: Found) -> None:
        self.stream = stream
        self.found = found
        self.at: dict[str, int] = {}

    def run(self) -> None:
        self._once_each()
        for attempt in self.stream.attempts:
            self._whole(attempt)
        self._nothing_invented()
        self._order()
        self._closure()
        for seq, entry in self.stream.seen.items():
            self._say(self.at.get(entry) == seq, f"a reader saw {entry!r} at {seq}, now it is at {self.at.get(entry)}")

    def _say(self, holds: bool, problem: str) -> None:  # noqa: FBT001 - reads as an assertion
        if not holds:
            raise Broken(f"{self.stream.path}: {problem}")

    def _once_each(self) -> None:
        found = self.found
        self._say(len(found.entries) == found.tail, f"the tail says {found.tail}, {len(found.entries)} were read")
        for seq, entry in enumerate(found.entries):
            self._say(entry not in self.at, f"{entry!r} stands at {self.at.get(entry)} and at {seq}")
            self.at[entry] = seq

    def _whole(self, attempt: Attempt) -> None:
        places = [self.at.get(entry) for entry in attempt.entries]
        present = [seq for seq in places if seq is not None]
        if not attempt.entries:
            if attempt.outcome is Outcome.OPEN and not attempt.closes:
                attempt.stored(0)  # the life is there, so its create took place
            return
        first = attempt.entries[0]
        if not present:
            self._say(attempt.outcome is not Outcome.STORED, f"{attempt.writer}: acknowledged {first!r} is lost")
            attempt.refused()
            return
        self._say(attempt.outcome is not Outcome.REFUSED, f"{attempt.writer}: {first!r} was refused and is there")
        whole = list(range(present[0], present[0] + len(places)))
        self._say(places == whole, f"{attempt.writer}: of one append {places} is not a whole run")
        attempt.stored(whole[-1] + 1)

    def _nothing_invented(self) -> None:
        known = {entry for attempt in self.stream.attempts for entry in attempt.entries}
        self._say(known.issuperset(self.at), f"nobody sent {sorted(set(self.at) - known)[:3]}")

    def _order(self) -> None:
        """What was acknowledged before something else was sent stands before it."""
        stored = [one for one in self.stream.attempts if one.outcome is Outcome.STORED and one.entries]
        answered_later = None
        for attempt in sorted(stored, key=lambda one: one.end or 0, reverse=True):
            if answered_later is not None and answered_later.answered < attempt.sent:
                self._say(False, f"{attempt.entries[0]!r} was sent after {answered_later.entries[0]!r} and precedes it")  # noqa: FBT003
            if answered_later is None or attempt.answered < answered_later.answered:
                answered_later = attempt

    def _closure(self) -> None:
        stream, found = self.stream, self.found
        if stream.final is not None:
            self._say(found.closed and found.tail == stream.final, f"closed at {stream.final}, now {found[:3]}")
            return
        closing = [one for one in stream.attempts if one.closes and one.outcome is not Outcome.REFUSED]
        self._say(not found.closed or bool(closing), "it is closed and nobody closed it")
        for attempt in closing:
            if found.closed:
                stream.final = found.tail
                attempt.stored(found.tail)
            else:
                self._say(attempt.outcome is not Outcome.STORED, "its last append is there, its closure is not")
                attempt.refused()
