"""`/v1/server/_details` and `/v1/server/_mem`: the node's limits, how it is, and what is wrong with it in words."""

import os
import sqlite3
import time
from typing import Any, NamedTuple

from litestar import Request, get
from litestar.datastructures import State

import sql
from streams_node import __version__
from streams_node.details.problems import Facts, Problem, problems
from streams_node.http.context import Context
from streams_node.http.details import database_bytes
from streams_node.http.server_limits import auto_tune, limits
from streams_node.http.server_memory import counters, memory_view
from streams_node.http.server_top import Largest, top_streams
from streams_node.http.server_view import (
    BacklogView,
    DiskView,
    GateView,
    IndexesView,
    LiveView,
    NodeView,
    ProblemView,
    QueueView,
    ServerDetailsView,
    ServerMemoryView,
    ServerRuntimeView,
    SubscriptionsView,
    TiersView,
    UploadsView,
)
from streams_node.http.tiers import TierFacts
from streams_node.indexing.desk import Outlook
from streams_node.protocol.times import rfc3339
from streams_node.searching.turns import Turns
from streams_node.subscriptions.wakes import Phase

Req = Request[Any, Any, State]
_SERVER = sql.queries("server")
_ROWS = 20_000  # of the log that are looked through for its largest streams: some 10 ms of a reader's thread
_TOP = 5
_LOOK_S = 2.0  # what takes a look into the database is at most as old
_STARTED_S = time.monotonic()


class Disk(NamedTuple):
    """Of the file system that `data` is on."""

    free: int | None
    total: int | None


class Stored(NamedTuple):
    """What only the database knows."""

    stuck: int
    largest: list[Largest]


@get("/v1/server/_details")
async def server_details(request: Req) -> ServerDetailsView:
    """The node's limits, how it is, and what is wrong with it."""
    context: Context = request.app.state.context
    facts = context.tiers.facts()
    stored = await _stored(context)
    disk = _disk(context)
    found = problems(_facts(context, facts, stored, disk), context.settings)
    runtime = await _runtime(context, facts, stored, disk)
    return ServerDetailsView(
        node=NodeView(
            version=__version__,
            now=rfc3339(context.ledger.now_us()),
            uptime_ms=int((time.monotonic() - _STARTED_S) * 1000),
            ready=not context.ledger.refusals,
        ),
        problems=[_problem(each) for each in found],
        auto_tune=auto_tune(context.settings),
        configured_limits=limits(context.settings),
        runtime=runtime,
    )


@get("/v1/server/_mem")
async def server_memory(request: Req) -> ServerMemoryView:
    """What the memory of the node is used for."""
    context: Context = request.app.state.context
    memory = memory_view(context, context.tiers.facts())
    stored = await _stored(context)
    return ServerMemoryView(
        ts=rfc3339(context.ledger.now_us()),
        state=memory.state,
        process=memory.process,
        process_breakdown=memory.process_breakdown,
        sqlite=memory.sqlite,
        gc=memory.gc,
        high_water=memory.high_water,
        counters=counters(context),
        runtime_counts=memory.subsystems["counts"],
        runtime_bytes={name: group for name, group in memory.subsystems.items() if name != "counts"},
        runtime_totals=memory.totals,
        top_streams=await top_streams(context, stored.largest),
    )


HANDLERS = (server_details, server_memory)


async def _runtime(context: Context, facts: TierFacts, stored: Stored, disk: Disk) -> ServerRuntimeView:
    ledger, settings, tiers = context.ledger, context.settings, context.tiers
    committer, live = ledger.committer, context.live
    refusals = ledger.refusals
    return ServerRuntimeView(
        memory=memory_view(context, facts),
        ingest_queue=QueueView(
            requests=committer.queued_appends,
            bytes=committer.queued_bytes,
            full=committer.queued_appends >= settings.queue_appends_max
            or committer.queued_bytes >= settings.queue_bytes_max,
        ),
        local_backpressure=BacklogView(
            enabled=True,
            current_bytes=facts.backlog_bytes,
            max_bytes=settings.backlog_bytes_max,
            over_limit="backlog" in refusals or "upload_lag" in refusals,
            oldest_ms=int(facts.lag_s * 1000),
            max_ms=settings.upload_lag_ms_max,
        ),
        uploads=UploadsView(facts.seals_waiting),
        concurrency=_gates(context),
        top_streams=await top_streams(context, stored.largest),
        tiers=TiersView(
            store=settings.object_store,
            opened=facts.opened,
            fenced="fenced" in refusals,
            generation=tiers.generation,
            published_through_row=tiers.published_through,
            unsealed_bytes=max(0, facts.backlog_bytes - facts.sealed_bytes),
            sealed_waiting=facts.seals_waiting,
            sealed_waiting_bytes=facts.waiting_bytes,
            seals=facts.seals,
            compactions=facts.compactions,
            collected_objects=facts.collected,
            stuck_streams=stored.stuck,
            store_requests=sum(each.requests for each in tiers.counts.totals().values()),
            store_retries=tiers.counts.retries,
        ),
        indexing=_indexes(context, facts),
        subscriptions=_subscriptions(context),
        live=LiveView(
            connections=len(context.connections.protocols),
            long_poll=live.readers["long_poll"],
            sse=live.readers["sse"],
            details_waiters=context.details.waiting,
        ),
        disk=DiskView(
            free_bytes=disk.free,
            total_bytes=disk.total,
            floor_bytes=settings.disk_floor_bytes,
            database_bytes=database_bytes(context),
        ),
    )


def _gates(context: Context) -> dict[str, GateView]:
    settings, searches, desk = context.settings, context.searches, context.tiers.desk
    waiting = context.database.readers.waiting
    read = settings.reader_threads
    return {
        "ingest": GateView(None, None, context.ledger.committer.queued_appends, 0),  # the queue bounds it, no gate
        "read": GateView(read, read, min(waiting, read), max(0, waiting - read)),
        "search": _of_turns(settings.search_concurrency, searches.turns),
        "search_long": _of_turns(settings.search_concurrency, searches.long_turns),
        "async_index": GateView(None, None, 0 if desk is None else len(desk.leases), None),
    }


def _of_turns(configured: int, turns: Turns) -> GateView:
    return GateView(configured, turns.limit, turns.active, turns.waiting)


def _indexes(context: Context, facts: TierFacts) -> IndexesView:
    desk = context.tiers.desk
    outlook = Outlook(0, 0, 0, 0.0, asked=False) if desk is None else desk.outlook()
    return IndexesView(
        driver=facts.driver,
        driver_starts=facts.driver_starts,
        planned_streams=0 if desk is None else desk.planned,
        due_streams=outlook.streams,
        due_entries=outlook.entries,
        due_bytes=outlook.bytes,
        oldest_due_ms=int(outlook.oldest_s * 1000),
        claims=0 if desk is None else len(desk.leases),
        failed_objects=0 if desk is None else len(desk.failed()),
    )


def _subscriptions(context: Context) -> SubscriptionsView:
    every = list(context.subscriptions.registry)
    return SubscriptionsView(
        count=len(every),
        failing=sum(each.wake.failing for each in every),
        under_way=sum(each.wake.phase is not Phase.IDLE for each in every),
    )


# --- what is wrong ----------------------------------------------------------------------------------------------------


def _facts(context: Context, facts: TierFacts, stored: Stored, disk: Disk) -> Facts:
    vitals, indexes = context.vitals, _indexes(context, facts)
    vitals.look_if_late()
    jump = vitals.jump
    return Facts(
        refusals={code: failure.message for code, failure in context.ledger.refusals.items()},
        writer_waits_s=context.ledger.committer.oldest_s,
        disk_free_bytes=disk.free,
        backlog_bytes=facts.backlog_bytes,
        lag_s=facts.lag_s,
        store_opened=facts.opened,
        store_away=facts.away,
        store_problem=facts.store_problem,
        sealing_problem=facts.sealing_problem,
        compaction_problem=facts.compaction_problem,
        collection_problem=facts.collection_problem,
        stuck_streams=stored.stuck,
        damaged=facts.damaged,
        index_driver=facts.driver,
        index_problem=facts.driver_problem,
        index_due_s=indexes.oldest_due_ms / 1000,
        index_streams=indexes.due_streams,
        index_claims=indexes.claims,
        index_failed=indexes.failed_objects,
        clock_jump_us=None if jump is None else jump.by_us,
        memory_state=vitals.state,
        rss_bytes=vitals.memory.rss,
        memory_limit_bytes=vitals.limit_bytes,
    )


def _problem(problem: Problem) -> ProblemView:
    return ProblemView(problem.code, problem.severity, problem.message, problem.hint)


def _disk(context: Context) -> Disk:
    try:
        stat = os.statvfs(context.settings.data)
    except OSError:
        return Disk(None, None)
    return Disk(stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize)


async def _stored(context: Context) -> Stored:
    """However many pages show the node: a look in two seconds."""

    async def look() -> Stored:
        return await context.database.looks.run(_look)

    return await context.details.kept.of(0, "server", int(time.monotonic() / _LOOK_S), look)


def _look(db: sqlite3.Connection) -> Stored:
    stuck = db.execute(_SERVER.stuck).fetchone()[0]
    largest = [Largest(*row) for row in db.execute(_SERVER.largest_in_log, {"rows": _ROWS, "limit": _TOP})]
    return Stored(stuck, largest)
