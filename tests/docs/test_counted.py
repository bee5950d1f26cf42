"""What the manual says is counted is counted: every counter moves when the thing happens."""

import asyncio
import re
import sqlite3
import time
from pathlib import Path

import pytest

from streams_node.http.gauges import register
from streams_node.ingest import batches
from streams_node.observe.metrics import READ_MODES
from streams_node.testing.inprocess import InProcess, in_process

JSON = {"content-type": "application/json"}
PATH = "/v1/stream/s"
# What only moves when a store or a copy of its objects is slow, damaged or many: tests/tiers makes them so.
OF_STORES = {
    "streams_cache_damaged_total", "streams_cache_evictions_total", "streams_cache_fills_total",
    "streams_cache_hits_total", "streams_cache_homeless_total", "streams_collected_objects_total",
    "streams_compaction_failures_total", "streams_compaction_jobs_total", "streams_groups_decoded_total",
    "streams_groups_hits_total", "streams_seal_failures_total", "streams_store_damaged_total",
    "streams_store_retries_total", "streams_store_settled_total", "streams_stuck_streams_total",
    "streams_upload_failures_total",
}  # fmt: skip

# And with indexes: tests/pruning has some, and damages them.
OF_INDEXES = {f"streams_index_{name}_total" for name in ("looks", "opened", "away", "doubted")}
# And with index drivers: tests/indexing is one.
OF_INDEXES |= {
    f"streams_index_{name}_total" for name in ("commits", "covers", "leases_ended", "failed", "given_up")
}  # fmt: skip

# What only moves with subscriptions: tests/subscriptions has some.
OF_SUBSCRIPTIONS = {
    f"streams_{name}_total"
    for name in (
        "subscription_wakes", "subscription_claims", "subscription_acks", "subscription_fenced",
        "subscription_leases_over", "webhook_calls",
    )
}  # fmt: skip

# And only with a machine in trouble: tests/server has some.
OF_MACHINES = {"streams_memory_pressed_total", "streams_clock_jumps_total"}


def test_every_counter_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    async def scenario() -> tuple[dict[str, float], dict[str, float]]:
        async with in_process(tmp_path, producers_per_stream_max=1, tiers=True) as node:
            register(node.context.metrics, node.context, node.context.connections)
            node.context.metrics.gauge("streams_broken", lambda: 1 / 0, "a reading that fails")
            before = await counters(node)
            await node.request("PUT", PATH, JSON)
            await node.request("POST", PATH, JSON, b"[1,2,3]")
            for producer in ("p", "q"):
                headers = {**JSON, "producer-id": producer, "producer-epoch": "0", "producer-seq": "0"}
                await node.request("POST", PATH, headers, b"4")
            for query in ("?offset=-1", "?offset=-1&live=long-poll"):
                await node.request("GET", PATH + query)
            await node.request("HEAD", PATH)
            await node.request("POST", PATH + "/_flush")
            with monkeypatch.context() as patched:
                patched.setattr(batches, "commit", broken)
                assert (await node.request("POST", PATH, JSON, b"5")).status == 503
            running = node.start("GET", PATH + "?offset=-1&live=sse")
            await running.until(b"upToDate")
            await running.hang_up()
            return before, await counters(node)

    before, after = asyncio.run(scenario())
    moved = {name.partition("{")[0] for name, number in after.items() if number > before.get(name, 0.0)}
    known = {name.partition("{")[0] for name in after}
    assert known - moved - OF_STORES - OF_INDEXES - OF_SUBSCRIPTIONS - OF_MACHINES == set()
    assert after["streams_appends_total"] == 2
    assert after["streams_appended_entries_total"] == 4
    assert all(after[f'streams_reads_total{{mode="{mode}"}}'] for mode in READ_MODES)


def test_a_commit_counts_log_rows_and_not_requests(tmp_path: Path) -> None:
    async def scenario() -> tuple[int, float]:
        async with in_process(tmp_path, log_row_bytes_max=4096) as node:
            rows = node.context.metrics.commit_rows
            await node.request("PUT", PATH, {"content-type": "text/plain"})
            created = rows.total
            await node.request("POST", PATH, {"content-type": "text/plain"}, b"x" * 3 * 4096)
            return rows.count, rows.total - created

    assert asyncio.run(scenario()) == (2, 3)


def test_the_lag_of_the_loop_is_seen_wherever_the_loop_was_held(tmp_path: Path) -> None:
    async def scenario() -> float:
        async with in_process(tmp_path, upkeep=True) as node:
            lag = node.context.metrics.loop_lag_seconds
            await asyncio.sleep(0.01)  # the watch is waiting for its timer
            time.sleep(0.25)  # noqa: ASYNC251 - this is what is to be seen
            for _pass in range(10):
                await asyncio.sleep(0)
            return lag.total

    assert asyncio.run(scenario()) > 0.1


async def counters(node: InProcess) -> dict[str, float]:
    text = (await node.request("GET", "/metrics")).body.decode()
    found = re.findall(r"^(streams_\w+_total(?:{[^}]*})?) (\S+)$", text, re.MULTILINE)
    return {name: float(number) for name, number in found}
