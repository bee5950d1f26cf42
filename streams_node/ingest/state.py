"""What is known of a stream in memory: its configuration, what is decided, and what is stored."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from streams_node.errors import Gone, InvalidOffset, InvariantBroken
from streams_node.meaning import Meaning
from streams_node.protocol import content_types
from streams_node.protocol.offsets import Position, encode
from streams_node.protocol.producers import Producer
from streams_node.protocol.times import SECOND_US
from streams_node.wal.batch import Writes
from streams_node.wal.heads import ProducerRow
from streams_node.wal.lineage import Lineage
from streams_node.wal.lookup import Configured, Head, Name
from streams_node.wal.tails import LogEnd

if TYPE_CHECKING:
    from streams_node.ingest.batches import Batch
    from streams_node.live.hub import Hub

_BASE_BYTES = 1400  # measured with 100,000 states of an ordinary name
_PRODUCER_BYTES = 240
_LOST = "entries above this offset were lost before they reached the bucket"
_SLACK_SHARE = 10  # a sliding window is stored at most once every tenth of it
Closing = tuple[str, int, int]  # the producer triple that closed a stream
_OPEN = (None, None, None)
NO_ANCHORS = (0, 0, 0, 0)
NO_MORE_FORKS = -1  # of a stream that was kept for forks, and has ended with the last of them
NOTHING_STORED = LogEnd(0, 0, 0, 0)


class StreamState(msgspec.Struct, gc=False, eq=False):
    """One incarnation. Plain fields, written only by `ingest`; everything else reads.

    The collector of cycles does not see it: as appends to a million streams come and go, looking through their states
    stopped the loop for 60 to 130 ms at a time (decisions/0002). What refers back to a state lets go of it by itself:
    a batch when it has ended, a hub when nobody reads.
    """

    name: Name
    bucket_id: int
    config: Configured | None  # as loaded, and the next two: what is decided from then on is in the fields below
    head: Head | None
    producers: dict[str, Producer]
    later_epochs: list[tuple[int, int]] | None
    meaning: Meaning | None = None  # None: nothing was ever declared, and entries are stored as they come
    id: int = 0
    content_type: str = ""
    media: str = ""
    is_json: bool = False
    created_us: int = 0
    ttl_s: int | None = None
    expires_us: int | None = None
    dies_us: int | None = None  # as stored: an upper bound of the window's end
    touched_us: int = 0
    profile: str = ""
    soft_deleted: bool = False  # gone for clients, and kept for its forks
    forks: int = 0  # that are, or will be, stored; NO_MORE_FORKS when it has ended with the last
    lineage: Lineage | None = None  # of a fork
    earliest_seq: int = 0
    recovered: bool = False  # out of the bucket, and not written since
    epochs: tuple[tuple[int, int], ...] = ()
    epoch: int = 0
    # Decided: what the next request is judged by.
    next_seq: int = 0
    last_row: int = 0
    ordinal: int = 0
    position: int = 0
    ts: int = 0
    anchors: tuple[int, int, int, int] = NO_ANCHORS
    closed: bool = False
    closed_by: Closing | None = None
    meaning_number: int = 0
    schema_version: int = 0
    stream_seq: str | None = None
    # Stored: what readers see.
    tail: LogEnd = NOTHING_STORED
    tail_closed: bool = False
    tail_meaning: Meaning | None = None
    tail_meaning_number: int = 0
    cold_below: int = 0  # entries below it are known to have left the log; a read saves asking
    # Bookkeeping.
    batch: "Batch | None" = None
    window: "Batch | None" = None  # the batch with the newest end of its window
    dirty: bool = False
    dirty_producers: set[str] | None = None
    held: int = 0  # by decisions that wait for something else
    gone: bool = False
    charged: int = 0  # bytes that the cache counts for it
    hub: "Hub | None" = None

    def __post_init__(self) -> None:
        """Take over what was loaded."""
        config, head, later_epochs = self.config, self.head, self.later_epochs
        if config is None or head is None:
            raise InvariantBroken("a state is made of a configuration and a head")
        self.config = self.head = self.later_epochs = None
        self.id = config.stream
        self.content_type, self.media, self.is_json = _typed(config.content_type)
        self.created_us = config.created_us
        self.ttl_s = config.ttl_s
        self.expires_us = config.expires_us
        self.dies_us = config.dies_us
        if config.ttl_s is not None:
            self.touched_us = (config.dies_us or 0) - config.ttl_s * SECOND_US
        self.profile = config.profile
        self.soft_deleted = self.gone = bool(config.soft_deleted)
        self.forks = config.forks
        self.earliest_seq = config.earliest_seq
        self.recovered = bool(config.recovered)
        self.epochs = _epochs(config.first_epoch) if not later_epochs else ((config.first_epoch, 0), *later_epochs)
        self.epoch = self.epochs[-1][0]
        self.next_seq = head.next_seq
        self.last_row = head.last_row
        self.ordinal = head.ordinal
        self.position = head.position
        self.ts = head.ts
        anchors = (head.anchor_1, head.anchor_2, head.anchor_3, head.anchor_4)
        if anchors != NO_ANCHORS:
            self.anchors = anchors
        self.closed = self.tail_closed = bool(head.closed)
        if head.closed_by is not None:
            self.closed_by = (head.closed_by, head.closed_epoch or 0, head.closed_seq or 0)
        self.stream_seq = head.stream_seq
        self.tail = LogEnd(head.last_row, head.ordinal, head.position, head.next_seq)
        self.meaning_number = self.tail_meaning_number = config.meaning
        if self.meaning is not None:
            self.schema_version = self.meaning.version
            self.tail_meaning = self.meaning

    @property
    def size(self) -> int:
        """Bytes that keeping this state costs, roughly."""
        meaning = 0 if self.meaning is None else self.meaning.size
        return _BASE_BYTES + len(self.name.stream) + _PRODUCER_BYTES * len(self.producers) + meaning

    @property
    def change(self) -> int:
        """Grows with whatever a reader can see of it, as stored (decisions/0013): rows, declarations, trims."""
        return self.tail.ordinal + self.tail_meaning_number + self.earliest_seq

    @property
    def kept(self) -> bool:
        """Whether it was deleted while it has forks."""
        return self.soft_deleted and self.forks != NO_MORE_FORKS

    @property
    def settled(self) -> bool:
        """Whether everything decided is on disk."""
        return self.batch is None or self.batch.settled

    def pinned(self) -> bool:
        """Whether memory holds something about it that the database does not, or somebody is reading it live."""
        return self.dirty or not self.settled or self.hub is not None or self.held > 0

    def token(self, seq: int) -> str:
        """The offset of the position before entry `seq`: it carries the epoch of the entry before it."""
        epochs = self.epochs
        if len(epochs) > 1:
            for epoch, first_seq in reversed(epochs):
                if seq > first_seq:
                    return encode(epoch, seq)
        return encode(epochs[0][0], seq)

    def tail_token(self) -> str:
        return self.token(self.tail.seq)

    def resolve(self, position: Position) -> int:
        """The sequence a client's offset stands for, or the reason why it stands for nothing."""
        seq = self.issued(position)
        if seq < self.earliest_seq:
            earliest = self.token(self.earliest_seq)
            raise Gone("entries below the earliest retained offset are gone", earliest=earliest)
        return seq

    def issued(self, position: Position) -> int:
        """The same, even if what it stands for has been trimmed since."""
        epoch, seq = position
        if seq == 0 and epoch <= self.epoch:
            return 0
        for at in range(len(self.epochs) - 1, -1, -1):
            known, first_seq = self.epochs[at]
            if epoch == known:
                return self._in_epoch(at, seq, first_seq)
        if epoch < self.epochs[0][0]:
            start = self.token(self.earliest_seq)
            raise Gone("the offset belongs to an earlier life of this name", next_offset=start, earliest=start)
        if epoch < self.epoch or self.recovered:
            fence = next((first_seq for known, first_seq in self.epochs if known > epoch), self.tail.seq)
            raise Gone(_LOST, next_offset=self.token(fence))
        raise InvalidOffset("the offset was never issued by this stream", self.tail_token())

    def _in_epoch(self, at: int, seq: int, first_seq: int) -> int:
        if at + 1 < len(self.epochs) and seq > (fence := self.epochs[at + 1][1]):
            raise Gone(_LOST, next_offset=self.token(fence))
        if self.recovered and seq > self.tail.seq:
            raise Gone(_LOST, next_offset=self.tail_token())
        if seq > self.tail.seq or (seq <= first_seq and at > 0):
            raise InvalidOffset("the offset lies beyond the end of the stream", self.tail_token())
        return seq

    def ended(self, now_us: int) -> bool:
        """Whether its lifetime is over. A live reader holds a sliding window open, never an absolute end."""
        ends_us = self.ends_us
        if ends_us is None or (self.expires_us is None and self.hub is not None and self.hub.readers):
            return False
        return now_us >= ends_us

    @property
    def ends_us(self) -> int | None:
        """When it ends if nothing restarts its window; what is stored of a sliding one is up to its slack later."""
        if self.expires_us is not None or self.ttl_s is None:
            return self.expires_us
        return self.touched_us + self.ttl_s * SECOND_US

    def touch(self, now_us: int) -> int | None:
        """Restart a sliding window; returns the end to store when the stored one may be overtaken before a crash."""
        ttl_s = self.ttl_s
        if ttl_s is None or self.dies_us is None:
            return None
        self.touched_us = max(self.touched_us, now_us)  # a clock that was set back must not shorten the window
        slack = window_slack_us(ttl_s)
        if self.dies_us - (now_us + ttl_s * SECOND_US) >= slack // 2:
            return None
        self.dies_us = now_us + ttl_s * SECOND_US + slack
        return self.dies_us

    def add_head(self, writes: Writes) -> None:
        """Add its head as decided to a batch that is not before any of its rows."""
        closed = 1 if self.closed else 0
        heads: tuple[Any, ...] = (
            self.next_seq, self.last_row, self.ordinal, self.position, self.ts, *self.anchors, closed,
            self.schema_version, len(self.producers),
        )  # fmt: skip
        if self.closed_by is None and self.stream_seq is None:
            writes.plain_heads += (*heads, self.id)
        else:
            writes.heads += (*heads, self.stream_seq, *(self.closed_by or _OPEN), self.id)

    def producer_rows(self) -> list[ProducerRow]:
        """The producers that changed since they were written last."""
        changed = self.dirty_producers or ()
        return [ProducerRow(self.id, name, *self.producers[name]) for name in changed]


@lru_cache(maxsize=1024)
def _typed(content_type: str) -> tuple[str, str, bool]:
    """The type and what follows from it, shared by all streams that have it."""
    return content_type, content_types.media(content_type), content_types.is_json(content_type)


@lru_cache(maxsize=64)
def _epochs(first: int) -> tuple[tuple[int, int], ...]:
    """The epochs of a stream that has one, shared by most streams."""
    return ((first, 0),)


def window_slack_us(ttl_s: int) -> int:
    """How far the stored end of a sliding window may run ahead of the true one."""
    return max(SECOND_US, ttl_s * SECOND_US // _SLACK_SHARE)
