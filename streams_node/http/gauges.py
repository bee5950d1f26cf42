"""Registers the numbers that other parts own."""

from functools import partial

from streams_node.http.connections import Connections
from streams_node.http.context import Context
from streams_node.observe.metrics import Metrics
from streams_node.observe.vitals import STATES


def register(metrics: Metrics, context: Context, connections: Connections) -> None:
    """Every gauge of the node, read when a scrape asks."""
    ledger, live = context.ledger, context.live
    committer, states = ledger.committer, ledger.states
    gauge, counter = metrics.gauge, metrics.counter
    gauge("streams_queue_appends", lambda: committer.queued_appends, "appends decided and not stored yet")
    gauge("streams_queue_bytes", lambda: committer.queued_bytes, "bytes of appends decided and not stored yet")
    gauge("streams_heads_behind", lambda: committer.dirty_count, "heads that the next slices will write")
    gauge("streams_live_tail_bytes", lambda: live.bytes, "entries kept in memory for live readers")
    gauge("streams_bodies_in_flight_bytes", lambda: context.bodies.in_flight, "request bodies being received")
    gauge("streams_connections", lambda: len(connections.protocols), "open connections")
    gauge("streams_stalled_connections", lambda: len(connections.stalled), "connections whose client does not read")
    gauge("streams_reads_waiting", lambda: context.database.readers.waiting, "reads queued or running")
    gauge("streams_state_cache_entries", lambda: len(states), "stream states in memory")
    gauge("streams_state_cache_bytes", lambda: states.bytes, "bytes of stream states in memory")
    counter("streams_state_cache_hits", lambda: states.hits, "states found in memory")
    counter("streams_state_cache_misses", lambda: states.misses, "states loaded from the database")
    counter("streams_commit_failures", lambda: ledger.failures, "commits that failed, with outcomes unknown to clients")
    for mode in live.readers:
        gauge("streams_live_waiters", partial(live.readers.__getitem__, mode), "live readers", labels={"mode": mode})
    vitals = context.vitals
    gauge(
        "streams_memory_state", lambda: STATES.index(vitals.state), "how tight memory is: 0 calm, 1 tight, 2 critical"
    )
    gauge("streams_memory_limit_bytes", lambda: vitals.limit_bytes, "memory that the process may have; 0 for no limit")
    for state in STATES[1:]:
        counter(
            "streams_memory_pressed",
            partial(vitals.changes.__getitem__, state),
            "times that memory became tight or critical",
            labels={"state": state},
        )
    counter("streams_clock_jumps", lambda: vitals.jumps, "jumps of the machine's clock by a second or more")
    gauge("streams_details_waiters", lambda: context.details.waiting, "who awaits another state of a stream")
    gauge("streams_searches_running", lambda: context.searches.running, "searches and aggregations under way")
    gauge("streams_searches_waiting", lambda: context.searches.waiting, "those that wait for their turn")
