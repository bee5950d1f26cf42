"""What is known of a stream in memory: its configuration, what is decided, and what is stored."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from streams_node.errors import Gone, InvalidOffset
from streams_node.meaning import Meaning
from streams_node.protocol import content_types, offsets
from streams_node.protocol.offsets import Position
from streams_node.protocol.producers import Producer
from streams_node.protocol.times import SECOND_US
from streams_node.wal.batch import Writes
from streams_node.wal.heads import ProducerRow
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


class StreamState:
    """One incarnation. Plain fields, written only by `ingest`; everything else reads."""

    __slots__ = (
        "anchors",
        "batch",
        "bucket_id",
        "charged",
        "closed",
        "closed_by",
        "cold_below",
        "content_type",
        "created_us",
        "dies_us",
        "dirty",
        "dirty_producers",
        "earliest_seq",
        "epoch",
        "epochs",
        "expires_us",
        "gone",
        "hub",
        "id",
        "is_json",
        "last_row",
        "meaning",
        "meaning_number",
        "media",
        "name",
        "next_seq",
        "ordinal",
        "position",
        "producers",
        "profile",
        "recovered",
        "schema_version",
        "soft_deleted",
        "stream_seq",
        "tail",
        "tail_closed",
        "tail_meaning",
        "tail_meaning_number",
        "touched_us",
        "ts",
        "ttl_s",
        "window",
    )

    def __init__(
        self,
        name: Name,
        bucket_id: int,
        config: Configured,
        head: Head,
        producers: dict[str, Producer],
        later_epochs: list[tuple[int, int]],
        meaning: Meaning | None = None,
    ) -> None:
        self.name = name
        self.bucket_id = bucket_id
        self.id = config.stream
        self.content_type, self.media, self.is_json = _typed(config.content_type)
        self.created_us = config.created_us
        self.ttl_s = config.ttl_s
        self.expires_us = config.expires_us
        self.dies_us = config.dies_us  # as stored: an upper bound of the window's end
        self.touched_us = 0 if config.ttl_s is None else (config.dies_us or 0) - config.ttl_s * SECOND_US
        self.profile = config.profile
        self.soft_deleted = bool(config.soft_deleted)
        self.earliest_seq = config.earliest_seq
        self.recovered = bool(config.recovered)  # out of the bucket, and not written since
        self.epochs = _epochs(config.first_epoch) if not later_epochs else ((config.first_epoch, 0), *later_epochs)
        self.epoch = self.epochs[-1][0]
        # Decided: what the next request is judged by.
        self.next_seq = head.next_seq
        self.last_row = head.last_row
        self.ordinal = head.ordinal
        self.position = head.position
        self.ts = head.ts
        self.anchors = (head.anchor_1, head.anchor_2, head.anchor_3, head.anchor_4)
        self.closed = bool(head.closed)
        self.closed_by: Closing | None = None
        if head.closed_by is not None:
            self.closed_by = (head.closed_by, head.closed_epoch or 0, head.closed_seq or 0)
        self.meaning = meaning  # None: nothing was ever declared, and entries are stored as they come
        self.meaning_number = config.meaning
        self.schema_version = 0 if meaning is None else meaning.version
        self.producers = producers
        self.stream_seq = head.stream_seq
        # Stored: what readers see.
        self.tail = LogEnd(head.last_row, head.ordinal, head.position, head.next_seq)
        self.tail_closed = self.closed
        self.tail_meaning = meaning
        self.tail_meaning_number = config.meaning
        self.cold_below = 0  # entries below it are known to have left the log; a read saves asking
        # Bookkeeping.
        self.batch: Batch | None = None
        self.window: Batch | None = None  # the batch with the newest end of its window
        self.dirty = False
        self.dirty_producers: set[str] | None = None
        self.gone = False
        self.charged = 0  # bytes that the cache counts for it
        self.hub: Hub | None = None

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
    def settled(self) -> bool:
        """Whether everything decided is on disk."""
        return self.batch is None or self.batch.settled

    def pinned(self) -> bool:
        """Whether memory holds something about it that the database does not, or somebody is reading it live."""
        return self.dirty or not self.settled or self.hub is not None

    def token(self, seq: int) -> str:
        """The offset of the position before entry `seq`: it carries the epoch of the entry before it."""
        epochs = self.epochs
        if len(epochs) > 1:
            for epoch, first_seq in reversed(epochs):
                if seq > first_seq:
                    return offsets.encode(epoch, seq)
        return offsets.encode(epochs[0][0], seq)

    def tail_token(self) -> str:
        return self.token(self.tail.seq)

    def resolve(self, position: Position) -> int:
        """The sequence a client's offset stands for, or the reason why it stands for nothing."""
        epoch, seq = position
        if seq == 0 and epoch <= self.epoch:
            return self._retained(0)
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
        return self._retained(seq)

    def _retained(self, seq: int) -> int:
        if seq < self.earliest_seq:
            earliest = self.token(self.earliest_seq)
            raise Gone("entries below the earliest retained offset are gone", earliest=earliest)
        return seq

    def ended(self, now_us: int) -> bool:
        """Whether its lifetime is over. A live reader holds a sliding window open, never an absolute end."""
        if self.expires_us is not None:
            return now_us >= self.expires_us
        if self.ttl_s is None or (self.hub is not None and self.hub.readers):
            return False
        return now_us >= self.touched_us + self.ttl_s * SECOND_US

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
