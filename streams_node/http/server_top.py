"""The streams that take most of something; a few, and only those whose names are in memory."""

import asyncio
import heapq
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import NamedTuple

from streams_node.http.context import Context
from streams_node.http.server_view import (
    BusyStreamView,
    LocalStreamView,
    PendingStreamView,
    TopStreamsView,
    WaitedStreamView,
)
from streams_node.ingest.state import StreamState
from streams_node.meaning import name_of
from streams_node.observe.busy import Rate

_TOP = 5
_LOOKED_AT = 20  # some of the busiest may be gone


class Largest(NamedTuple):
    """A stream in the newest part of the log."""

    stream: int
    bytes: int
    entries: int


async def top_streams(context: Context, largest: list[Largest]) -> TopStreamsView:
    """Names of streams are known while their states are in memory, as those of busy streams are."""
    states = list(context.ledger.states)
    appends, reads = context.busy_appends.top(_LOOKED_AT), context.busy_reads.top(_LOOKED_AT)
    wanted = {each.stream for each in largest} | {each.stream for each in (*appends, *reads)}
    names = await asyncio.to_thread(_names, states, wanted)
    known = [(names[each.stream], each) for each in largest if each.stream in names]
    return TopStreamsView(
        local_storage_bytes=[LocalStreamView(name, each.bytes, each.bytes, None, None) for name, each in known],
        pending_wal_bytes=[PendingStreamView(name, each.bytes, each.entries) for name, each in known],
        touch_journal_filter_bytes=[],
        notifier_waiters=_waited(context),
        appends=_busiest(names, appends),
        reads=_busiest(names, reads),
    )


def _busiest(names: Mapping[int, str], rates: list[Rate]) -> list[BusyStreamView]:
    known = [BusyStreamView(names[each.stream], round(each.per_second, 2)) for each in rates if each.stream in names]
    return known[:_TOP]


def _names(states: Iterable[StreamState], wanted: set[int]) -> dict[int, str]:
    return {state.id: name_of(*state.name) for state in states if state.id in wanted}


def _waited(context: Context) -> list[WaitedStreamView]:
    details = context.details.waiters()
    found = [
        WaitedStreamView(name_of(*hub.state.name), hub.readers - own, own, hub.readers)
        for hub in context.live.hubs()
        if hub.readers
        for own in (details.get(hub.state.id, 0),)
    ]
    return heapq.nlargest(_TOP, found, key=attrgetter("total_waiters"))
