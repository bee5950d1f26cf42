"""What all writes share: the states, the open batch, the counters of rows and lives, and the reasons to refuse."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import sql
from streams_node.config import Settings
from streams_node.errors import Gone, Missing, Overloaded, StreamsError, Unavailable
from streams_node.ingest.batches import Batch, Committer
from streams_node.ingest.cache import Absent, BucketCache, StateCache
from streams_node.ingest.state import NO_MORE_FORKS, StreamState
from streams_node.meaning import Workshop
from streams_node.observe.logs import get_logger
from streams_node.protocol.times import SECOND_US
from streams_node.wal.database import Database, Marks
from streams_node.wal.lookup import Name
from streams_node.wal.tails import LogEnd

log = get_logger(__name__)
_STREAMS = sql.queries("streams")
_BUCKETS = sql.queries("buckets")
_FORKS = sql.queries("forks")
_RECOVERY_S = 1.0
EPOCHS_UNTOLD_MAX = 1 << 20  # a node that begins from the bucket leaves out as many: none of them is ever used twice


class Ledger:
    """Everything a decision reads and writes. Only the event loop touches it."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        marks: Marks,
        *,
        now_us: Callable[[], int],
        on_committed: Callable[[Batch], None],
        observe: Callable[[Batch, float, float], None],
    ) -> None:
        self.settings = settings
        self.now_us = now_us
        self.database = database
        self._published = on_committed
        self.next_row = marks.last_row + 1
        self.next_stream = marks.last_stream + 1
        self.workshop = Workshop()
        self.states = StateCache(settings.state_cache_bytes_max, database.load_streams, self.workshop.meaning)
        self.buckets = BucketCache(database.load_bucket, newest=marks.last_bucket)
        self.epochs = marks.epochs
        self.refusals: dict[str, StreamsError] = {}  # why every write is refused at the moment, by reason
        self.broken = False  # a commit failed and the database has not been brought up to the log yet
        self.failures = 0
        self.openers = ThreadPoolExecutor(1, thread_name_prefix="open-json")
        self._recovery: asyncio.Task[None] | None = None
        self.committer = Committer(
            database.writer,
            settings,
            on_committed=self._committed,
            on_failed=self._failed,
            observe=observe,
        )
        self.committer.go_on_after(marks.last_row)

    def admit(self, size: int) -> None:
        """Refuse a write before anything is decided, if it cannot be taken now."""
        if self.refusals:
            raise next(iter(self.refusals.values()))
        self.committer.admit(size)

    async def state(self, name: Name) -> StreamState | Absent:
        """The stream of a name: living, or deleted and `kept` for its forks.

        One whose time is over is ended; one that is being deleted is waited for.
        """
        state = self.states.peek(name) or await self.states.get(name)
        if isinstance(state, Absent):
            return state
        if state.gone:
            await self.settle(state)
            if state.kept:
                return state
            return await self.state(name) if self.states.peek(name) is not state else Absent(state.epoch)
        if (state.ttl_s is not None or state.expires_us is not None) and state.ended(self.now_us()):
            if not self.broken:
                await self.end(state)
            return state if state.kept else Absent(state.epoch)
        return state

    async def readable(self, name: Name) -> StreamState:
        """The stream of a name for a reader: one that is still being created is waited for."""
        state = await self.living(name)
        if state.tail.seq == 0 and not state.tail_closed and not state.settled:
            await self.settle(state)
        return state

    async def living(self, name: Name) -> StreamState:
        """The stream of a name, or the answer that there is none."""
        state = self.states.peek(name)
        if state is not None and not state.gone and state.ttl_s is None and state.expires_us is None:
            return state
        state_or_absent = await self.state(name)
        if isinstance(state_or_absent, Absent):
            raise Missing(f"stream `{name.stream}` does not exist in bucket `{name.bucket}`")
        if state_or_absent.soft_deleted:
            raise Gone(f"stream `{name.stream}` was deleted; its data is kept for forks of it")
        return state_or_absent

    async def settle(self, state: StreamState) -> None:
        """Wait until what is decided about a stream by now is on disk: an answer that rests on it may go out."""
        batch = state.batch
        if batch is not None and not batch.settled:
            await batch.settling

    def trust(self) -> None:
        """Refuse while memory holds decisions of a failed batch: what they say is not stored must not be confirmed."""
        if self.broken:
            raise self.refusals["commit_failed"]

    def touch(self, state: StreamState) -> None:
        """A read restarts a sliding window; stored at most once every tenth of it.

        Also while writes are refused: a low disk has room for it, and a restart must not shorten what a reader saw.
        """
        if self.postpone(state):
            state.batch = state.window = self.committer.added(0, 0)

    async def kept(self, state: StreamState) -> None:
        """Wait until the window that somebody is about to be told of is on disk: a kill must not shorten it."""
        window = state.window
        if window is not None and not window.settled:
            try:
                await window.settling
            except StreamsError:
                raise Unavailable("the end of the stream's window could not be stored; try again") from None

    def postpone(self, state: StreamState) -> bool:
        """Restart a sliding window; whether its new end joined the open batch."""
        if self.broken or state.gone:  # the name of a stream that is gone may have a new life
            return False
        dies_us = state.touch(self.now_us())
        if dies_us is not None:
            self.committer.open.writes.statements.append(
                (_STREAMS.postpone_end, (dies_us, state.bucket_id, state.name.stream))
            )
        return dies_us is not None

    async def source(self, state: StreamState) -> StreamState | None:
        """What a fork was forked from; it is in memory when this returns."""
        if state.lineage is None:
            return None
        state.held += 1
        try:
            found = await self.states.get(state.lineage.source_name)
        finally:
            state.held -= 1
        return found if isinstance(found, StreamState) and found.id == state.lineage.source else None

    async def end(self, state: StreamState) -> bool:
        """Decide the end of a stream, and of whatever was kept for it alone: one step each, so that none waits for
        all. A crash between two of them leaves orphans, which `end_streams` finds. False: somebody else was first.
        """
        ending: StreamState | None = state
        while ending is not None:
            source = await self.source(ending)
            if (ending.gone and not ending.soft_deleted) or (ending.soft_deleted and ending.forks):
                return ending is not state
            self._delete(ending, source)
            ending = source if source is not None and source.soft_deleted and not source.forks else None
        return True

    def _delete(self, state: StreamState, source: StreamState | None) -> None:
        """Without waiting: the name is buried, or hidden as long as there are forks."""
        writes = self.committer.open.writes
        if state.forks:
            writes.statements.append((_FORKS.hide_stream, (state.bucket_id, state.name.stream)))
            state.gone = state.soft_deleted = True
            state.dies_us = None
            self.committer.open.hidden.append(state)
            state.batch = self.committer.added(0, 1)
            return
        statements: list[tuple[str, tuple[Any, ...]]] = [
            (_STREAMS.delete_stream, (state.bucket_id, state.name.stream)),
            (_STREAMS.delete_head, (state.id,)),
            (_STREAMS.bury_name, (state.bucket_id, state.name.stream, state.epoch, state.id, self.now_us())),
            (_BUCKETS.count_streams, (-1, state.bucket_id)),
        ]
        if state.producers:
            statements.append((_STREAMS.delete_producers, (state.id,)))
        if len(state.epochs) > 1:
            statements.append((_STREAMS.delete_epochs, (state.id,)))
        if state.last_row:
            statements.append((_STREAMS.dig_grave, (state.id, state.last_row)))
        if source is not None:
            statements.append((_FORKS.count_forks, (-1, source.bucket_id, source.name.stream)))
            source.forks -= 1
        if state.soft_deleted:
            state.forks = NO_MORE_FORKS
        writes.statements += statements
        state.gone = True
        self.committer.open.ended.append(state)
        state.batch = self.committer.added(0, len(statements))
        if source is not None:
            source.batch = state.batch
        self.count_stream(state.bucket_id, state.name.bucket, state.batch, by=-1)

    def admit_epoch(self, epoch: int) -> None:
        """Refuse an epoch that a start from the bucket, as it is now, might give again."""
        if epoch >= self.epochs.told + EPOCHS_UNTOLD_MAX:
            raise Overloaded("too many lives of one name since the bucket was last told of them; try again")

    def give_epoch(self, epoch: int) -> None:
        """Note an epoch in use; the highest one is stored, as the bucket is told of it."""
        if epoch > self.epochs.newest:
            self.epochs = self.epochs._replace(newest=epoch)
            self.committer.open.writes.statements.append((_STREAMS.newest_epoch, (epoch,)))

    def open_epoch(self, state: StreamState) -> None:
        """A stream that came out of the bucket goes on: what it had lost must never be taken for what comes now."""
        epoch = max(state.epoch + 1, self.epochs.base)
        self.give_epoch(epoch)
        self.committer.open.writes.statements += [
            (_STREAMS.insert_epoch, (state.id, epoch, state.next_seq)),
            (_STREAMS.open_epoch, (state.bucket_id, state.name.stream)),
        ]
        state.epochs = (*state.epochs, (epoch, state.next_seq))
        state.epoch, state.recovered = epoch, False

    def told(self, epoch: int) -> None:
        """The newest generation of the catalogue names this epoch as the highest."""
        self.epochs = self.epochs._replace(told=max(self.epochs.told, epoch))

    def count_stream(self, bucket_id: int, bucket_name: str, batch: Batch, *, by: int) -> None:
        """Move the decided count of a bucket; nobody loads it from the database before the batch is there."""
        bucket = self.buckets.peek(bucket_name)
        if bucket is not None:
            bucket.streams += by
        self.buckets.moving[bucket_id] = batch

    def touch_rows(self, count: int) -> int:
        """Take the next log row ids; returns the first."""
        first = self.next_row
        self.next_row += count
        self.committer.decided_through = self.next_row - 1
        return first

    def _committed(self, batch: Batch) -> None:
        for state, end, closed, _ in batch.touched:
            state.tail = end
            if closed:
                state.tail_closed = True
        for state, meaning, number in batch.meant:
            state.tail_meaning, state.tail_meaning_number = meaning, number
        _let_go(batch.retained)
        _begin_forks(batch.created)
        for state in batch.ended:
            self.states.drop(state)
        for state in (*batch.ended, *batch.hidden):
            if state.hub is not None:
                state.hub.end()
        self._published(batch)
        if self.committer.rows_behind >= self.settings.heads_flush_rows:
            self.committer.flush_heads()

    def _failed(self, doomed: list[Batch]) -> None:
        """What was decided is not what is stored. Reads go on from what is; writes wait until heads and log agree.

        Streams that only a refused batch would have made are forgotten, and those that it would have ended live on.
        """
        self.failures += 1
        self.refusals["commit_failed"] = Unavailable("a commit failed; writes are refused until the disk answers")
        self.broken = True
        created = {state.id for batch in doomed for state in batch.created}
        for state in (state for batch in doomed for state in batch.created):
            state.gone = True
            self.states.drop(state)
        for state in (state for batch in doomed for state in batch.ended):
            if state.id not in created:
                state.gone = state.soft_deleted
                state.forks = max(state.forks, 0)
                self.states.put(state)
        for state in (state for batch in doomed for state in batch.hidden):
            state.gone = state.soft_deleted = state.id in created
        if self._recovery is None:
            self._recovery = asyncio.get_running_loop().create_task(self._recover(), name="recover-after-failed-commit")

    async def _recover(self) -> None:
        marks = None
        while marks is None:
            try:
                marks = await self.database.recover()
            except Exception as problem:  # noqa: BLE001 - the edge is where failures are handled
                log.warning("the database is not usable yet", error=repr(problem))
                await asyncio.sleep(_RECOVERY_S)
        for state in self.states.clear():
            state.gone = True
            if state.hub is not None:
                state.hub.end()
        self.buckets.clear(marks.last_bucket)
        self.next_row, self.next_stream = marks.last_row + 1, marks.last_stream + 1
        self.epochs = marks.epochs
        self.committer.go_on_after(marks.last_row)
        del self.refusals["commit_failed"]
        self.broken, self._recovery = False, None
        log.info("writes are taken again", last_row=marks.last_row)


def _let_go(retained: list[tuple[StreamState, int]]) -> None:
    """What lies below an entry is gone, and is stored to be: whether or not anybody waits for that still."""
    for state, seq in retained:
        state.earliest_seq = max(state.earliest_seq, seq)
        if state.hub is not None:
            state.hub.wake()


def _begin_forks(created: list[StreamState]) -> None:
    """A new fork ends where it left its source, unless it has entries of its own already."""
    for state in created:
        if state.lineage is not None and state.tail.seq < state.lineage.fork_seq:
            state.tail = LogEnd(0, 0, 0, state.lineage.fork_seq)


def window_end_us(now_us: int, ttl_s: int, slack_us: int) -> int:
    """The stored end of a sliding window that begins now."""
    return now_us + ttl_s * SECOND_US + slack_us


def log_end(state: StreamState) -> LogEnd:
    """The decided end of a stream: what readers may see once the batch is stored."""
    return LogEnd(state.last_row, state.ordinal, state.position, state.next_seq)
