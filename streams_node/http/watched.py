"""Answers with a tag, and the next other ones: what `_details` and `_index_status` have in common."""

from typing import Any, NamedTuple

from streams_node.details import Make, Moment, Parts, Shown, What, look, summed
from streams_node.http.context import Context
from streams_node.http.index_view import Measured, measured
from streams_node.http.query import parameters, waiting
from streams_node.http.reply import Reply, SubRequest
from streams_node.indexing.status import Looked
from streams_node.indexing.status import look as look_at_indexes
from streams_node.ingest.declare import standing_of
from streams_node.ingest.state import StreamState
from streams_node.meaning import Meaning
from streams_node.wal.tails import LogEnd

_KNOWN = frozenset(("live", "timeout", "timeout_ms"))
_PARTS_MAX = 1_000_000
_TRIES = 3  # to see parts and log at one moment, and a stream without a commit under way


async def watched(context: Context, request: SubRequest, what: What, make: Make) -> Reply[Any]:
    """What `make` makes; with `live=long-poll` and the tag of the one that is known, the next other one."""
    wait_ms = waiting(parameters(request.query_string, _KNOWN))
    known = request.headers.get(b"if-none-match", b"").decode("latin-1")
    state = await context.ledger.readable(request.name)
    shown: Shown | None = None
    if wait_ms is not None and known:
        ms_max = context.settings.long_poll_ms_max
        with context.live.attached(state, "long_poll") as hub:
            seconds = min(wait_ms or ms_max, ms_max) / 1000
            shown = await context.details.changed(what, state, hub, known, seconds, make)
        state = await context.ledger.readable(request.name)
    shown = shown or await context.details.shown(what, state, make)
    return Reply(200, None, shown.body, tag=shown.tag)


# --- one computation ------------------------------------------------------------------------------------------------


class Stored(NamedTuple):
    """What memory knows of a stream, of one moment, all of it on disk."""

    tail: LogEnd
    closed: bool
    ts: int
    stream_seq: str | None
    change: int
    meaning: Meaning | None
    meaning_number: int
    first_seq: int


class Sealed(NamedTuple):
    """What is in the bucket of a stream, and how far its indexes are."""

    moment: Moment
    parts: Parts
    looked: Looked
    measured: Measured

    @property
    def number(self) -> int:
        """Grows with whatever of the stream or its indexes is new in the bucket."""
        return (self.parts.located[-1].end_seq if self.parts.located else 0) + self.moment.moves


async def stored_now(context: Context, state: StreamState) -> Stored:
    """What memory knows; or why what is stored of the stream's declarations cannot be used."""
    for _ in range(_TRIES):
        await context.ledger.settle(state)
        if state.settled:  # on a busy stream another commit may be under way; then its time may run ahead of its end
            break
    own = 0 if state.lineage is None else state.lineage.fork_seq
    found = Stored(
        state.tail,
        state.tail_closed,
        state.ts,
        state.stream_seq,
        state.change,
        state.tail_meaning,
        state.tail_meaning_number,
        max(state.earliest_seq, own),
    )
    if found.meaning is not None and found.meaning.problem is not None:
        raise found.meaning.problem
    return found


async def sealed_now(context: Context, state: StreamState, stored: Stored) -> Sealed:
    """What the database and the catalogue know."""
    standing = standing_of(state, stored.meaning)
    readers, kept, workshop = context.database.readers, context.details.kept, context.ledger.workshop
    tail, reader = stored.tail, context.tiers.reader
    moment = await readers.run(look, state.id, tail)
    parts = summed([], 0)
    for _ in range(_TRIES):

        async def find() -> Parts:
            if reader is None:
                return summed([], 0)
            located = await reader.located(state.id, stored.first_seq, _PARTS_MAX)
            return await workshop.promote(lambda: summed(located, tail.seq))

        before = moment.generation
        parts = await kept.of(state.id, "parts", (before, stored.first_seq), find)
        moment = await readers.run(look, state.id, tail)
        if moment.generation == before:
            break

    async def index() -> tuple[Looked, Measured]:
        looked = await readers.run(look_at_indexes, state.id)
        return looked, await workshop.promote(lambda: measured(looked, standing.registry, parts.located))

    key = (parts.mark, moment.moves, stored.meaning_number)
    return Sealed(moment, parts, *await kept.of(state.id, "indexes", key, index))
