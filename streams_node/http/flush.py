"""Flushing on demand: everything a stream holds by now goes to the bucket before the answer, if that is soon enough."""

import asyncio

import msgspec

from streams_node.details import look
from streams_node.http.context import Context
from streams_node.http.query import number, parameters
from streams_node.http.reply import Reply, SubRequest
from streams_node.http.tiers import Tiers
from streams_node.wal.lookup import Name

_MARGIN_MS = 500  # before the general time limit of a request
_LEAST, _MOST = "min_hot_bytes", "max_bytes"
_COLD = frozenset((_LEAST, _MOST))
_BYTES_MAX = 10**15


class FlushView(msgspec.Struct):
    stream: str
    flushed: bool
    next_offset: str
    generation: int


async def flush(context: Context, request: SubRequest) -> Reply[FlushView]:
    """Publish all of the log up to this moment: 200 once it is in the bucket, 202 if that takes longer."""
    return Reply(*await flush_stream(context, request.name))


async def flush_stream(context: Context, name: Name) -> tuple[int, FlushView]:
    state = await context.ledger.readable(name)
    await context.ledger.settle(state)
    offset = state.tail_token()
    tiers = context.tiers
    done = await _in_time(context, state.tail.row, tiers)
    status = 200 if done else 202
    return status, FlushView(f"{name.bucket}/{name.stream}", done, offset, tiers.generation)


async def flush_if_due(context: Context, name: Name, query_string: bytes) -> tuple[int, FlushView | None]:
    """The same for whoever asks again and again: 204 when there was nothing to do, or too little of it in the log."""
    asked = parameters(query_string, _COLD)
    least = number(asked, _LEAST, 0, least=0, most=_BYTES_MAX)
    # Of one stream, as others flush: ours takes all of the log, in pieces of `flush_bytes_max`.
    number(asked, _MOST, _BYTES_MAX, least=1, most=_BYTES_MAX)
    state = await context.ledger.readable(name)
    await context.ledger.settle(state)
    moment = await context.database.readers.run(look, state.id, state.tail)
    if moment.open_bytes < least:
        return 204, None
    status, view = await flush_stream(context, name)
    idle = not moment.open_bytes and view.flushed and view.generation == moment.generation
    return (204, None) if idle else (status, view)


async def _in_time(context: Context, row: int, tiers: Tiers) -> bool:
    limit_s = max(context.settings.request_ms_max - _MARGIN_MS, _MARGIN_MS) / 1000
    try:
        async with asyncio.timeout(limit_s):
            await tiers.flush(row)
    except TimeoutError:
        return False
    return True
