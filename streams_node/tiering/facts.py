"""How the tiers stand, put together for whoever shows it."""

from typing import TYPE_CHECKING, Literal

from streams_node.http.tiers import TierFacts

if TYPE_CHECKING:
    from streams_node.collector.stage import Counts
    from streams_node.tiering.node import Tiering


def facts(tiers: "Tiering") -> TierFacts:
    uploader, segmenter, compactor, collector = tiers.uploader, tiers.segmenter, tiers.compactor, tiers.collector
    indexes = tiers.indexes
    driver = None if tiers.indexing is None else tiers.indexing.driver
    state: Literal["off", "idle", "running"] = "off"
    if driver is not None:
        state = "idle" if driver.pid is None else "running"
    return TierFacts(
        opened=uploader is not None and uploader.opened.is_set(),
        away=uploader is not None and uploader.away,
        store_problem=None if uploader is None else uploader.problem,
        sealing_problem=None if segmenter is None else segmenter.counts.problem,
        compaction_problem=None if compactor is None else compactor.counts.problem,
        collection_problem=None if collector is None else collector.counts.problem,
        backlog_bytes=tiers.pressure.bytes,
        sealed_bytes=tiers.pressure.sealed_bytes,
        lag_s=tiers.pressure.lag_s(),
        seals_waiting=tiers.outbox.waiting,
        waiting_bytes=tiers.outbox.waiting_bytes,
        seals=0 if segmenter is None else segmenter.counts.seals,
        compactions=0 if compactor is None else sum(compactor.counts.jobs.values()),
        collected=0 if collector is None else _collected(collector.counts),
        damaged={
            "in the object store": tiers.counts.damaged,
            "among copies on disk": 0 if tiers.cache is None else tiers.cache.counts.damaged,
            "in compaction": 0 if compactor is None else compactor.counts.damaged,
            "among indexes": 0 if indexes is None else indexes.runs.counts.doubted,
        },
        driver=state,
        driver_problem=None if driver is None else driver.problem,
        driver_starts=0 if driver is None else driver.starts,
        index_cache_bytes=0 if indexes is None else indexes.cache.bytes,
        view_bytes=0 if indexes is None or indexes.views is None else indexes.views.bytes,
    )


def _collected(counts: "Counts") -> int:
    return counts.dead + counts.orphans + counts.indexes + counts.catalogue
