"""A subscription in memory: what was asked for, where its wake stands, and which streams have news for it."""

import asyncio
import hashlib
from typing import NamedTuple

import msgspec

from streams_node.subscriptions.patterns import Segments, parse, path_of
from streams_node.subscriptions.wakes import Kind, Phase, Seen, Wake
from streams_node.wal.lookup import Name


class Wanted(NamedTuple):
    """What a request asks for, checked and in one form."""

    kind: Kind
    pattern: str | None
    streams: tuple[Name, ...]
    url: str | None
    wake_stream: Name | None
    lease_ms: int
    description: str | None

    @property
    def digest(self) -> str:
        """The same for two requests that ask for the same."""
        parts = (
            self.kind.value, self.pattern, sorted({path_of(name) for name in self.streams}), self.url,
            None if self.wake_stream is None else path_of(self.wake_stream), self.lease_ms, self.description,
        )  # fmt: skip
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


class Row(NamedTuple):
    """A row of `subscriptions`."""

    number: int
    id: str
    kind: str
    pattern: str | None
    url: str | None
    wake_bucket: str | None
    wake_name: str | None
    lease_ms: int
    description: str | None
    digest: str
    base: str
    created_us: int
    since_row: int
    linked: int = 0
    generation: int = 0
    phase: str = "idle"
    wake: str | None = None
    holder: str | None = None
    lease_us: int = 0
    delivered: int = 0
    attempts: int = 0
    attempt_us: int = 0
    seen: str = "[]"


class Link(NamedTuple):
    """A stream of a subscription: a row of `subscription_links`."""

    name: Name
    stream: int
    acked_seq: int
    acked: str
    explicit: bool


class Subscription:
    """Only the event loop touches it; what it stands for is in the database, and changes there first.

    Streams that are not newer than `linked` have their links. `pending` holds streams that may have more than was
    acknowledged. There may be others only when `missed` says so: then the database is asked, once the heads are written
    up to that log row.
    """

    __slots__ = (
        "again", "alarm_us", "attending", "base", "calling", "created_us", "deleted", "description", "digest", "id",
        "kind", "lease_ms", "linked", "lock", "missed", "named", "number", "pattern", "pending", "queued", "segments",
        "since_row", "suspect", "url", "wake", "wake_stream",
    )  # fmt: skip

    def __init__(self, row: Row) -> None:
        self.number = row.number
        self.id = row.id
        self.kind = Kind(row.kind)
        self.pattern = row.pattern
        self.segments: Segments | None = None if row.pattern is None else parse(row.pattern)
        self.url = row.url
        self.wake_stream: Name | None = None
        if row.wake_bucket is not None and row.wake_name is not None:
            self.wake_stream = Name(row.wake_bucket, row.wake_name)
        self.lease_ms = row.lease_ms
        self.description = row.description
        self.digest = row.digest
        self.base = row.base
        self.created_us = row.created_us
        self.since_row = row.since_row
        self.linked = row.linked
        self.wake = wake_of(row)
        self.pending: dict[Name, int | None] = {}  # and which life of them, if a commit brought it
        self.missed: int | None = None
        self.lock = asyncio.Lock()
        self.named: set[Name] = set()
        self.attending = self.again = False  # somebody looks at it; and has to look once more
        self.alarm_us = 0
        self.queued = False  # a call waits for its turn
        self.calling = 0  # the generation of the wake that a call is on its way with
        self.deleted = False
        self.suspect = False  # a change of it may be stored or not

    @property
    def status(self) -> str:
        return "failed" if self.wake.failing else "active"

    @property
    def news(self) -> bool:
        """Whether there may be something that was not acknowledged."""
        return bool(self.pending) or self.missed is not None

    @property
    def wanting(self) -> bool:
        """Whether the next wake may begin."""
        return self.wake.phase is Phase.IDLE and self.news


def wake_of(row: Row) -> Wake:
    return Wake(
        row.generation,
        Phase(row.phase),
        row.wake,
        row.holder,
        row.lease_us,
        bool(row.delivered),
        row.attempts,
        row.attempt_us,
        msgspec.json.decode(row.seen, type=tuple[Seen, ...]),
    )


def moved(number: int, wake: Wake) -> tuple[object, ...]:
    """A wake in the order of `move_subscription`."""
    return (
        wake.generation, wake.phase.value, wake.id, wake.holder, wake.lease_us, int(wake.delivered), wake.attempts,
        wake.attempt_us, msgspec.json.encode(wake.seen).decode(), number,
    )  # fmt: skip
