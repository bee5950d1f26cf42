"""What the memory of the node is used for, as far as its parts know."""

from collections.abc import Mapping

from streams_node.http.context import Context
from streams_node.http.server_view import (
    BreakdownView,
    CollectorView,
    MemoryView,
    Numbers,
    Peaks,
    PeaksView,
    PeakView,
    SqliteMemoryView,
)
from streams_node.http.tiers import TierFacts
from streams_node.observe.process import Memory, collections
from streams_node.observe.vitals import Peak, Vitals
from streams_node.protocol.times import rfc3339

_TOTALS: Mapping[str, str] = {
    "heap_estimates": "heap_estimate_bytes",
    "mapped_files": "mapped_file_bytes",
    "disk_caches": "disk_cache_bytes",
    "configured_budgets": "configured_budget_bytes",
    "pipeline_buffers": "pipeline_buffer_bytes",
    "sqlite_runtime": "sqlite_runtime_bytes",
}
_PROCESS = ("rss_bytes",)


def memory_view(context: Context, facts: TierFacts) -> MemoryView:
    """Of this moment; the highest numbers are those of all moments at which somebody looked."""
    vitals = context.vitals
    vitals.look_if_late()
    memory = vitals.memory
    subsystems = _subsystems(context, facts)
    totals = {total: _sum(subsystems[group]) for group, total in _TOTALS.items()}
    _note(vitals, memory, subsystems, totals)
    return MemoryView(
        state=vitals.state,
        pressure_active=vitals.state != "calm",
        pressure_limit_bytes=vitals.limit_bytes,
        last_rss_bytes=memory.rss,
        max_rss_bytes=memory.rss_max,
        process={
            "rss_bytes": memory.rss,
            "heap_total_bytes": None,
            "heap_used_bytes": None,
            "external_bytes": None,
            "array_buffers_bytes": None,
        },
        process_breakdown=_breakdown(memory, totals),
        sqlite=SqliteMemoryView(available=False, source="unavailable"),
        gc=CollectorView(0, 0, None, None, None, None, 0, None, collections()),
        subsystems=subsystems,
        totals=totals,
        high_water=_high_water(vitals, subsystems),
    )


def counters(context: Context) -> Numbers:
    """What only grows, of memory."""
    states, vitals = context.ledger.states, context.vitals
    cache, reader = context.tiers.cache, context.tiers.reader
    return {
        "node.mem.tight": vitals.changes["tight"],
        "node.mem.critical": vitals.changes["critical"],
        "node.state_cache.hits": states.hits,
        "node.state_cache.misses": states.misses,
        "node.object_cache.hits": 0 if cache is None else cache.counts.hits,
        "node.object_cache.fills": 0 if cache is None else cache.counts.fills,
        "node.object_cache.evictions": 0 if cache is None else cache.counts.evictions,
        "node.decoded_groups.decoded": 0 if reader is None else reader.groups.decoded,
        "node.decoded_groups.hits": 0 if reader is None else reader.groups.hits,
    }


def _subsystems(context: Context, facts: TierFacts) -> dict[str, Numbers]:
    ledger, live, settings, tiers = context.ledger, context.live, context.settings, context.tiers
    cache, reader = tiers.cache, tiers.reader
    return {
        "heap_estimates": {
            "ingest_queue_payload_bytes": ledger.committer.queued_bytes,
            "routing_run_cache_bytes": None,
            "exact_run_cache_bytes": None,
            "bodies_in_flight_bytes": context.bodies.in_flight,
            "answers_waiting_bytes": context.connections.waiting_bytes(),
            "state_cache_bytes": ledger.states.bytes,
            "hot_tail_bytes": live.bytes,
            "decoded_group_bytes": 0 if reader is None else reader.groups.bytes,
            "pack_directory_bytes": 0 if reader is None else reader.directories.bytes,
            "index_filter_bytes": 0 if tiers.indexes is None else tiers.indexes.runs.filter_bytes,
        },
        "mapped_files": {
            "segment_cache_mapped_bytes": None,
            "routing_run_disk_cache_mapped_bytes": None,
            "exact_run_disk_cache_mapped_bytes": None,
            "lexicon_index_mapped_bytes": None,
            "companion_bundle_mapped_bytes": None,
        },
        "disk_caches": {
            "segment_disk_cache_bytes": 0 if cache is None else cache.bytes,
            "routing_run_disk_cache_bytes": 0,  # the lexicon serves for it
            "exact_run_disk_cache_bytes": None,
            "lexicon_disk_cache_bytes": None,
            "companion_disk_cache_bytes": facts.view_bytes,
            "index_disk_cache_bytes": facts.index_cache_bytes,  # of all families together
        },
        "configured_budgets": {
            "sqlite_cache_budget_bytes": settings.sqlite_cache_bytes,
            "worker_sqlite_cache_budget_bytes": None,
            "segment_cache_budget_bytes": settings.cache_bytes_max,
            "routing_run_cache_budget_bytes": None,
            "routing_run_disk_cache_budget_bytes": None,
            "exact_run_cache_budget_bytes": None,
            "exact_run_disk_cache_budget_bytes": None,
            "lexicon_disk_cache_budget_bytes": None,
            "companion_disk_cache_budget_bytes": settings.search_views_bytes_max,
            "index_disk_cache_budget_bytes": settings.index_cache_bytes_max,
            "state_cache_budget_bytes": settings.state_cache_bytes_max,
            "hot_tail_budget_bytes": settings.hot_tail_bytes_max,
            "decoded_budget_bytes": settings.decoded_bytes_max,
            "directory_budget_bytes": settings.directory_bytes_max,
        },
        "pipeline_buffers": {
            "segmenter_active_payload_bytes": None,
            "segmenter_active_segment_bytes_estimate": None,
            "uploader_inflight_segment_bytes": facts.waiting_bytes,
        },
        "sqlite_runtime": {
            "sqlite_memory_used_bytes": None,
            "sqlite_memory_highwater_bytes": None,
            "sqlite_pagecache_overflow_bytes": None,
            "sqlite_pagecache_overflow_highwater_bytes": None,
        },
        "counts": {
            "ingest_queue_requests": ledger.committer.queued_appends,
            "state_cache_entries": len(ledger.states),
            "segment_cache_entries": 0 if cache is None else cache.objects,
            "segment_cache_fetching": 0 if cache is None else cache.fetching,
            "reads_waiting": context.database.readers.waiting,
            "cold_reads_waiting": 0 if reader is None else reader.waiting,
            "searches_waiting": context.searches.waiting,
            "connections": len(context.connections.protocols),
            "pending_upload_segments": facts.seals_waiting,
        },
    }


def _breakdown(memory: Memory, totals: Numbers) -> BreakdownView:
    heap = totals["heap_estimate_bytes"] or 0
    return BreakdownView(
        source=memory.source,
        rss_anon_bytes=memory.anon,
        rss_file_bytes=memory.file,
        rss_shmem_bytes=memory.shmem,
        js_managed_bytes=None,
        js_external_non_array_buffers_bytes=None,
        mapped_file_bytes=totals["mapped_file_bytes"],
        sqlite_runtime_bytes=totals["sqlite_runtime_bytes"],
        unattributed_anon_bytes=None if memory.anon is None else max(0, memory.anon - heap),
        unattributed_rss_bytes=max(0, memory.rss - heap),
    )


def _sum(group: Numbers) -> int | None:
    """Of what is known; None when nothing is."""
    known = [value for value in group.values() if value is not None]
    return sum(known) if known else None


def _note(vitals: Vitals, memory: Memory, subsystems: Mapping[str, Numbers], totals: Numbers) -> None:
    numbers: Numbers = {
        "process_breakdown/rss_anon_bytes": memory.anon,
        "process_breakdown/rss_file_bytes": memory.file,
        **{f"runtime_totals/{name}": value for name, value in totals.items()},
    }
    for group, members in subsystems.items():
        if group != "configured_budgets":
            numbers |= {f"{group}/{name}": value for name, value in members.items()}
    vitals.note({name: value for name, value in numbers.items() if value is not None})


def _high_water(vitals: Vitals, subsystems: Mapping[str, Numbers]) -> PeaksView:
    def of(group: str) -> Peaks:
        prefix = f"{group}/"
        return {
            name.removeprefix(prefix): _peak(peak) for name, peak in vitals.peaks.items() if name.startswith(prefix)
        }

    return PeaksView(
        process={name: _peak(vitals.peaks[name]) for name in _PROCESS if name in vitals.peaks},
        process_breakdown=of("process_breakdown"),
        sqlite={},
        runtime_totals=of("runtime_totals"),
        runtime_bytes={group: of(group) for group in subsystems if group not in {"counts", "configured_budgets"}},
    )


def _peak(peak: Peak) -> PeakView:
    return PeakView(peak.value, rfc3339(peak.at_us))
