"""`/v1/server/_details` and `_mem`: whole bodies, and what is wrong with a node in words."""

import json
from pathlib import Path
from typing import Any

import pytest

from streams_node import __version__
from streams_node.errors import Unavailable
from streams_node.testing.inprocess import InProcess, in_process
from tests.http.wire import ask
from tests.indexing.world import append, create, indexed, on_loop

ROOMY: dict[str, Any] = {"disk_floor_bytes": 0}
GROUPS = {
    "heap_estimates": {"ingest_queue_payload_bytes", "routing_run_cache_bytes", "exact_run_cache_bytes"},
    "mapped_files": {
        "segment_cache_mapped_bytes", "routing_run_disk_cache_mapped_bytes", "exact_run_disk_cache_mapped_bytes",
        "lexicon_index_mapped_bytes", "companion_bundle_mapped_bytes",
    },
    "disk_caches": {
        "segment_disk_cache_bytes", "routing_run_disk_cache_bytes", "exact_run_disk_cache_bytes",
        "lexicon_disk_cache_bytes", "companion_disk_cache_bytes",
    },
    "configured_budgets": {
        "sqlite_cache_budget_bytes", "worker_sqlite_cache_budget_bytes", "segment_cache_budget_bytes",
        "routing_run_cache_budget_bytes", "routing_run_disk_cache_budget_bytes", "exact_run_cache_budget_bytes",
        "exact_run_disk_cache_budget_bytes", "lexicon_disk_cache_budget_bytes", "companion_disk_cache_budget_bytes",
    },
    "pipeline_buffers": {
        "segmenter_active_payload_bytes", "segmenter_active_segment_bytes_estimate", "uploader_inflight_segment_bytes",
    },
    "sqlite_runtime": {
        "sqlite_memory_used_bytes", "sqlite_memory_highwater_bytes", "sqlite_pagecache_overflow_bytes",
        "sqlite_pagecache_overflow_highwater_bytes",
    },
}  # fmt: skip
SQLITE = {
    "available": False, "source": "unavailable", "memory_used_bytes": None, "memory_highwater_bytes": None,
    "pagecache_used_slots": None, "pagecache_used_slots_highwater": None, "pagecache_overflow_bytes": None,
    "pagecache_overflow_highwater_bytes": None, "malloc_count": None, "malloc_count_highwater": None,
    "open_connections": None, "prepared_statements": None,
}  # fmt: skip
TOP: dict[str, list[Any]] = {
    "local_storage_bytes": [],
    "pending_wal_bytes": [],
    "touch_journal_filter_bytes": [],
    "notifier_waiters": [],
    "appends": [],
    "reads": [],
}


async def told(node: InProcess, path: str = "_details") -> Any:
    reply = await ask(node, "GET", f"/v1/server/{path}")
    assert reply.status == 200, reply
    assert reply.headers["cache-control"] == "no-store"
    return json.loads(reply.body)


def codes(body: Any) -> list[str]:
    return [each["code"] for each in body["problems"]]


@on_loop
async def test_the_whole_body_of_a_quiet_node(tmp_path: Path) -> None:
    async with in_process(tmp_path, **ROOMY) as node:
        body = await told(node)
        runtime = body["runtime"]
        memory, disk, own = runtime.pop("memory"), runtime.pop("disk"), body.pop("node")
        assert (own["version"], own["ready"]) == (__version__, True)
        assert own["now"].endswith("Z")
        assert own["uptime_ms"] >= 0
        assert disk["free_bytes"] > 0
        assert disk["total_bytes"] > disk["free_bytes"]
        assert disk["database_bytes"] > 0
        check_memory(memory)
        limits = body.pop("configured_limits")
        check_limits(limits)
        assert body == {
            "problems": [],
            "auto_tune": {
                "enabled": False, "requested_memory_mb": None, "preset_mb": None, "effective_memory_limit_mb": None,
            },
            "runtime": {
                "ingest_queue": {"requests": 0, "bytes": 0, "full": False},
                "local_backpressure": {
                    "enabled": True, "current_bytes": 0, "max_bytes": 4 << 30, "over_limit": False, "oldest_ms": 0,
                    "max_ms": 86_400_000,
                },
                "uploads": {"pending_segments": 0},
                "concurrency": {
                    "ingest": {"configured_limit": None, "current_limit": None, "active": 0, "queued": 0},
                    "read": {"configured_limit": 2, "current_limit": 2, "active": 0, "queued": 0},
                    "search": {"configured_limit": 4, "current_limit": 4, "active": 0, "queued": 0},
                    "search_long": {"configured_limit": 4, "current_limit": 4, "active": 0, "queued": 0},
                    "async_index": {"configured_limit": None, "current_limit": None, "active": 0, "queued": None},
                },
                "top_streams": TOP,
                "tiers": {
                    "store": "folder", "opened": False, "fenced": False, "generation": 0, "published_through_row": 0,
                    "unsealed_bytes": 0, "sealed_waiting": 0, "sealed_waiting_bytes": 0, "seals": 0, "compactions": 0,
                    "collected_objects": 0, "stuck_streams": 0, "store_requests": 0, "store_retries": 0,
                },
                "indexing": {
                    "driver": "off", "driver_starts": 0, "planned_streams": 0, "due_streams": 0, "due_entries": 0,
                    "due_bytes": 0, "oldest_due_ms": 0, "claims": 0, "failed_objects": 0,
                },
                "subscriptions": {"count": 0, "failing": 0, "under_way": 0},
                "live": {"connections": 0, "long_poll": 0, "sse": 0, "details_waiters": 0},
            },
        }  # fmt: skip


def check_memory(memory: Any) -> None:
    assert (memory["state"], memory["pressure_active"], memory["pressure_limit_bytes"]) == ("calm", False, 0)
    assert 0 < memory["last_rss_bytes"] <= memory["max_rss_bytes"]
    assert memory["sqlite"] == SQLITE
    assert memory["process"] == {
        "rss_bytes": memory["last_rss_bytes"], "heap_total_bytes": None, "heap_used_bytes": None,
        "external_bytes": None, "array_buffers_bytes": None,
    }  # fmt: skip
    check_groups(memory["subsystems"], memory["totals"])
    assert set(memory["subsystems"]) == {*GROUPS, "counts"}
    peaks = memory["high_water"]
    assert set(peaks) == {"process", "process_breakdown", "sqlite", "runtime_totals", "runtime_bytes"}
    assert peaks["process"]["rss_bytes"]["value"] >= memory["last_rss_bytes"]
    assert set(peaks["process"]["rss_bytes"]) == {"value", "at"}
    parts = memory["process_breakdown"]
    assert set(parts) == {
        "source", "rss_anon_bytes", "rss_file_bytes", "rss_shmem_bytes", "js_managed_bytes",
        "js_external_non_array_buffers_bytes", "mapped_file_bytes", "sqlite_runtime_bytes", "unattributed_anon_bytes",
        "unattributed_rss_bytes",
    }  # fmt: skip
    if parts["source"] == "linux_proc_status":
        three = parts["rss_anon_bytes"] + parts["rss_file_bytes"] + parts["rss_shmem_bytes"]
        assert three == memory["last_rss_bytes"]
    assert memory["gc"].pop("collections") >= 0
    assert memory["gc"] == {
        "forced_gc_count": 0, "forced_gc_reclaimed_bytes_total": 0, "last_forced_gc_at_ms": None,
        "last_forced_gc_before_bytes": None, "last_forced_gc_after_bytes": None,
        "last_forced_gc_reclaimed_bytes": None, "heap_snapshots_written": 0, "last_heap_snapshot_at_ms": None,
    }  # fmt: skip


def check_groups(groups: Any, totals: Any) -> None:
    for group, names in GROUPS.items():
        assert names <= groups[group].keys()
        known = [value for value in groups[group].values() if value is not None]
        name = {"disk_caches": "disk_cache_bytes"}.get(group, f"{group.removesuffix('s')}_bytes")
        assert totals[name] == (sum(known) if known else None)
    assert len(totals) == len(GROUPS)


def check_limits(limits: Any) -> None:
    assert {group: set(members) for group, members in limits.items()}.items() >= {
        "memory": {"pressure_limit_bytes"}
    }.items()
    wanted = {
        "caches": "sqlite_cache_bytes worker_sqlite_cache_bytes index_run_memory_cache_bytes "
        "index_run_disk_cache_bytes lexicon_index_cache_bytes segment_cache_bytes companion_toc_cache_bytes "
        "companion_section_cache_bytes companion_file_cache_bytes",
        "concurrency": "ingest read search async_index upload index_build index_compact",
        "ingest": "max_batch_requests max_batch_bytes max_queue_requests max_queue_bytes busy_timeout_ms "
        "local_backlog_max_bytes",
        "search": "companion_batch_segments companion_yield_blocks wal_overlay_quiet_period_ms wal_overlay_max_bytes",
        "segmenting": "segment_max_bytes segment_target_rows segmenter_workers",
        "timeouts": "append_request_timeout_ms search_request_timeout_ms resolver_timeout_ms object_store_timeout_ms",
        "memory": "pressure_limit_bytes",
    }
    assert limits.keys() == wanted.keys()
    for group, names in wanted.items():
        assert set(names.split()) <= limits[group].keys(), group
    times = limits["timeouts"]
    assert (times["append_request_timeout_ms"], times["search_request_timeout_ms"]) == (3000, 3000)
    assert (times["resolver_timeout_ms"], limits["memory"]["pressure_limit_bytes"]) == (5000, 0)


@on_loop
async def test_the_memory_alone_is_a_part_of_it(tmp_path: Path) -> None:
    async with in_process(tmp_path, **ROOMY) as node:
        whole, body = (await told(node))["runtime"]["memory"], await told(node, "_mem")
        assert set(body) == {
            "ts", "state", "process", "process_breakdown", "sqlite", "gc", "high_water", "counters", "runtime_counts",
            "runtime_bytes", "runtime_totals", "top_streams",
        }  # fmt: skip
        assert body["sqlite"] == SQLITE
        assert body["top_streams"] == TOP
        assert body["runtime_bytes"].keys() == GROUPS.keys()
        assert body["runtime_counts"].keys() == whole["subsystems"]["counts"].keys()
        check_groups(body["runtime_bytes"], body["runtime_totals"])
        assert all(isinstance(each, int) for each in body["counters"].values())


@on_loop
async def test_what_waits_is_told_with_the_streams_that_it_is_of(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node", flush_bytes=1 << 20, flush_bytes_max=1 << 20) as node:
        await create(node, "/v1/stream/small", declared=None)
        await create(node, "/v1/stream/shop/large", declared=None)
        await append(node, "/v1/stream/small", [1])
        await append(node, "/v1/stream/shop/large", ["x" * 1000] * 10)
        await node.context.ledger.committer.settled()
        body = await told(node)
        waiting = body["runtime"]["top_streams"]["pending_wal_bytes"]
        assert [(each["stream"], each["pending_rows"]) for each in waiting] == [("shop/large", 10), ("small", 1)]
        assert body["runtime"]["local_backpressure"]["current_bytes"] >= sum(
            each["pending_wal_bytes"] for each in waiting
        )
        assert body["runtime"]["tiers"]["opened"]


@on_loop
async def test_who_waits_is_counted_by_stream(tmp_path: Path) -> None:
    async with in_process(tmp_path, long_poll_ms_max=30_000, **ROOMY) as node:
        await create(node, "/v1/stream/a", declared=None)
        running = node.start("GET", "/v1/stream/a?offset=now&live=sse")
        await running.until(b"control")
        body = await told(node)
        assert body["runtime"]["live"]["sse"] == 1
        assert body["runtime"]["top_streams"]["notifier_waiters"] == [
            {"stream": "a", "waiters": 1, "details_waiters": 0, "total_waiters": 1}
        ]
        await running.hang_up()


@on_loop
async def test_the_busiest_streams_are_told_of(tmp_path: Path) -> None:
    async with in_process(tmp_path, **ROOMY) as node:
        for name, appends, reads in (("shop/quiet", 1, 3), ("busy", 4, 1)):
            await create(node, f"/v1/stream/{name}", declared=None)
            for _ in range(appends):
                await append(node, f"/v1/stream/{name}", [1, 2])
            for _ in range(reads):
                assert (await ask(node, "GET", f"/v1/stream/{name}?offset=-1")).status == 200
        await node.context.ledger.committer.settled()
        top = (await told(node))["runtime"]["top_streams"]
        for what, first, second, share in (("appends", "busy", "shop/quiet", 4), ("reads", "shop/quiet", "busy", 3)):
            assert [each["stream"] for each in top[what]] == [first, second]
            most, least = (each["per_second"] for each in top[what])
            assert most == pytest.approx(share * least, abs=0.05 * share)
            assert 0 < least <= 1


@on_loop
async def test_refusals_are_problems_and_the_node_is_not_ready(tmp_path: Path) -> None:
    async with in_process(tmp_path, **ROOMY) as node:
        node.context.ledger.refusals["disk_low"] = Unavailable("the disk has 5 bytes left")
        body = await told(node)
        assert codes(body) == ["disk_floor"]
        assert body["problems"][0]["message"] == "Writes are refused: the disk has 5 bytes left."
        assert body["problems"][0]["severity"] == "error"
        assert not body["node"]["ready"]


@on_loop
async def test_only_operators_with_a_key_are_told(tmp_path: Path) -> None:
    key = "an-invented-key-0123456789"
    async with in_process(tmp_path, no_auth=False, api_key=key, **ROOMY) as node:
        for path in ("_details", "_mem", "_subscriptions"):
            assert (await ask(node, "GET", f"/v1/server/{path}")).status == 401
            bearer = {"authorization": f"Bearer {key}"}
            assert (await ask(node, "GET", f"/v1/server/{path}", bearer)).status == 200
            assert (await ask(node, "HEAD", f"/v1/server/{path}", bearer)).body == b""
            assert (await ask(node, "POST", f"/v1/server/{path}", bearer)).status == 405
