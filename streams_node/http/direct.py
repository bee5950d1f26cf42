"""The short way of an append, without a coroutine: decided in the read that brought it, answered by its batch.

Most appends are small and came whole: they wait for nothing but the disk, and for the state of their stream, if that is
not in memory. A coroutine for one costs more than its decision. Whatever is not like that or is refused takes
the long way (`write.post`), which decides anew: a decision changes nothing before all of its checks have passed.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from streams_node.errors import StreamsError
from streams_node.http.context import Context
from streams_node.http.cycle import Cycle
from streams_node.http.headers import RawHeaders, collected, write_headers
from streams_node.http.paths import Target
from streams_node.http.write import appended_answer, count_appended
from streams_node.ingest.append import LARGE_BYTES, AppendRequest, decide
from streams_node.ingest.batches import Batch
from streams_node.ingest.state import StreamState
from streams_node.observe.logs import get_logger

log = get_logger(__name__)
Answer = tuple[Cycle, int, RawHeaders, int]  # on which request, and how many entries it stored
Fail = Callable[[Cycle, BaseException], None]


class Direct:
    """Takes appends the short way. `fail` answers one that failed on it, `long` takes one that has to leave it."""

    def __init__(self, context: Context, fail: Fail, long: Callable[[Cycle], None]) -> None:
        self._context = context
        self._fail = fail
        self._long = long
        self._batch: Batch | None = None  # the newest one,
        self._answers: list[Answer] = []  # and what waits for it
        self._bytes_max = min(LARGE_BYTES - 1, context.settings.append_body_bytes_max)

    def take(self, target: Target, cycle: Cycle) -> bool:
        """Decide a whole append, now or once its stream is loaded; False, and nothing has changed, if it needs more."""
        if len(cycle.body) > self._bytes_max:
            return False
        states = self._context.ledger.states
        state = states.peek(target.name)
        if state is None:
            states.load_soon(target.name, partial(self._loaded, target, cycle))
            return True
        return self._decided(state, cycle)

    def _loaded(self, target: Target, cycle: Cycle) -> None:
        """The stream was asked for; the long way finds out why it is not there."""
        state = self._context.ledger.states.peek(target.name)
        try:
            taken = state is not None and self._decided(state, cycle)
        except StreamsError:
            taken = False
        except Exception as failure:  # noqa: BLE001 - no request may stop the ones that waited for the same load
            self._fail(cycle, failure)
            return
        if not taken:
            self._long(cycle)

    def _decided(self, state: StreamState, cycle: Cycle) -> bool:
        context = self._context
        ledger = context.ledger
        if state.gone or state.ttl_s is not None or state.expires_us is not None or ledger.broken:
            return False
        if state.meaning is not None:
            return False
        body = cycle.body
        familiar = cycle.familiar
        if familiar is None:
            found = collected(cycle.scope["headers"])
            said = write_headers(found, context.settings)
        else:
            found, said = familiar.found, familiar.said
        before = state.next_seq
        appended = decide(ledger, state, AppendRequest(bytes(body), *said))
        if appended.batch is None:  # its answer may rest on what is not stored yet
            return False
        status, headers = appended_answer(state, appended, found, empty=not body)
        entries = appended.next_seq - before
        batch = appended.batch
        if batch is not self._batch or batch.settling.done():  # one call a batch: each is a turn of the loop's queue
            self._batch, self._answers = batch, []
            batch.settling.add_done_callback(partial(self._settled, self._answers))
        self._answers.append((cycle, status, headers, entries))
        return True

    def _settled(self, answers: list[Answer], settling: asyncio.Future[None]) -> None:
        """The batch is on disk, or nobody knows."""
        failure = settling.exception()
        for answer in answers:
            cycle = answer[0]
            try:
                if failure is None:
                    self._answer(*answer)
                else:
                    self._fail(cycle, failure)
            except Exception:
                log.exception("an answer could not be given", path=cycle.scope["path"])

    def _answer(self, cycle: Cycle, status: int, headers: RawHeaders, entries: int) -> None:
        metrics = self._context.metrics
        count_appended(metrics, entries, len(cycle.body))
        cycle.answer_soon(status, headers)
        metrics.count_response("stream", status)
