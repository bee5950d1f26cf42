"""Flushing on demand: everything a stream holds by now goes to the bucket before the answer, if that is soon enough."""

import asyncio

import msgspec

from streams_node.http.context import Context
from streams_node.http.reply import Reply, SubRequest
from streams_node.http.tiers import Tiers
from streams_node.wal.lookup import Name

_MARGIN_MS = 500  # before the general time limit of a request


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


async def _in_time(context: Context, row: int, tiers: Tiers) -> bool:
    limit_s = max(context.settings.request_ms_max - _MARGIN_MS, _MARGIN_MS) / 1000
    try:
        async with asyncio.timeout(limit_s):
            await tiers.flush(row)
    except TimeoutError:
        return False
    return True
