"""The numbers of the stages, for `/metrics`; read when a scrape asks."""

from typing import TYPE_CHECKING

from streams_node.observe.metrics import Metrics

if TYPE_CHECKING:
    from streams_node.tiering.node import Tiering


def register(metrics: Metrics, tiers: "Tiering") -> None:
    gauge, counter = metrics.gauge, metrics.counter
    pressure, counts = tiers.pressure, tiers.counts
    gauge("streams_backlog_bytes", lambda: pressure.bytes, "bytes of entries that are not in the object store yet")
    gauge("streams_upload_lag_seconds", pressure.lag_s, "age of the oldest entry that is not in the object store yet")
    gauge("streams_seals_waiting", lambda: tiers.outbox.waiting, "sealed flushes and merges that wait for the store")
    gauge("streams_catalogue_generation", lambda: tiers.generation, "the newest generation of the catalogue")
    gauge("streams_fenced", lambda: float(_fenced(tiers)), "1 once another node has taken the bucket over")
    counter("streams_upload_failures", lambda: _failures(tiers), "rounds of uploading and publishing that failed")
    counter("streams_store_retries", lambda: counts.retries, "requests that were sent to the object store again")
    counter("streams_store_settled", lambda: counts.settled, "puts whose lost answer a read made good")
    counter("streams_store_damaged", lambda: counts.damaged, "answers of the object store with the wrong bytes")
    counter("streams_store_requests", lambda: _requests(tiers), "requests to the object store")
    counter("streams_cache_hits", lambda: _cache(tiers, "hits"), "sealed objects found on disk by readers")
    counter("streams_cache_fills", lambda: _cache(tiers, "fills"), "sealed objects fetched for readers")
    counter("streams_cache_evictions", lambda: _cache(tiers, "evictions"), "copies of objects that made room")
    counter("streams_cache_damaged", lambda: _cache(tiers, "damaged"), "copies of objects found damaged on disk")
    counter("streams_cache_homeless", lambda: _cache(tiers, "homeless"), "objects read without a place for their copy")
    counter("streams_groups_decoded", lambda: _groups(tiers, "decoded"), "row groups of sealed objects decoded")
    counter("streams_groups_hits", lambda: _groups(tiers, "hits"), "row groups found decoded in memory")
    gauge("streams_groups_bytes", lambda: _groups(tiers, "bytes"), "memory of decoded row groups")
    gauge("streams_cold_reads_waiting", lambda: 0 if tiers.reader is None else tiers.reader.waiting, "reads in threads")
    counter("streams_compaction_jobs", lambda: _jobs(tiers), "merges and other rewrites of sealed objects")
    counter("streams_compaction_failures", lambda: _compaction(tiers), "rewrites of sealed objects that failed")
    counter("streams_collected_objects", lambda: _collected(tiers), "objects deleted from the object store")
    counter("streams_seals", lambda: _sealed(tiers, "seals"), "flushes of the log")
    counter("streams_sealed_bytes", lambda: _sealed(tiers, "bytes"), "bytes of log that were sealed")
    counter("streams_seal_failures", lambda: _sealed(tiers, "failures"), "flushes that failed and were tried again")
    counter("streams_stuck_streams", lambda: _sealed(tiers, "stuck"), "streams found that cannot be sealed")
    gauge("streams_cache_bytes", lambda: 0 if tiers.cache is None else tiers.cache.bytes, "disk taken by copies")
    counter("streams_index_looks", lambda: _index(tiers, "looks"), "looks into index objects")
    counter("streams_index_opened", lambda: _index(tiers, "opened"), "index objects opened for them")
    counter("streams_index_away", lambda: _index(tiers, "away"), "index objects that the store did not give")
    counter("streams_index_doubted", lambda: _index(tiers, "doubted"), "index objects found damaged or gone")
    gauge("streams_index_due_bytes", lambda: _due(tiers, "bytes"), "bytes about, of what waits to be indexed")
    gauge("streams_index_due_streams", lambda: _due(tiers, "streams"), "streams with something to index")
    gauge("streams_index_due_seconds", lambda: _due(tiers, "oldest_s"), "for how long the oldest of that has waited")
    gauge("streams_index_claims_held", lambda: _claims(tiers), "claims that index drivers are at")
    counter("streams_index_commits", lambda: _desk(tiers, "commits"), "claims that ended with a commit")
    counter("streams_index_covers", lambda: _desk(tiers, "covers"), "stretches of streams that were indexed")
    counter("streams_index_leases_ended", lambda: _desk(tiers, "leases_ended"), "claims whose driver was not heard of")
    counter("streams_index_failed", lambda: _desk(tiers, "failed"), "objects that a driver could not use")
    counter("streams_index_given_up", lambda: _desk(tiers, "given_up"), "index objects that had to be made again")
    gauge("streams_index_cache_bytes", lambda: _index_bytes(tiers), "disk taken by copies of index objects")


def _fenced(tiers: "Tiering") -> bool:
    return tiers.uploader is not None and tiers.uploader.fenced is not None


def _failures(tiers: "Tiering") -> int:
    return 0 if tiers.uploader is None else tiers.uploader.failures


def _requests(tiers: "Tiering") -> int:
    return sum(tally.requests for tally in tiers.counts.totals().values())


def _cache(tiers: "Tiering", name: str) -> int:
    return 0 if tiers.cache is None else int(getattr(tiers.cache.counts, name))


def _index(tiers: "Tiering", name: str) -> int:
    return 0 if tiers.indexes is None else int(getattr(tiers.indexes.runs.counts, name))


def _desk(tiers: "Tiering", name: str) -> int:
    return 0 if tiers.desk is None else tiers.desk.counts[name]


def _due(tiers: "Tiering", name: str) -> float:
    return 0.0 if tiers.desk is None else float(getattr(tiers.desk.outlook(), name))


def _claims(tiers: "Tiering") -> int:
    return 0 if tiers.desk is None else len(tiers.desk.leases)


def _index_bytes(tiers: "Tiering") -> int:
    return 0 if tiers.indexes is None else tiers.indexes.cache.bytes


def _groups(tiers: "Tiering", name: str) -> int:
    return 0 if tiers.reader is None else int(getattr(tiers.reader.groups, name))


def _jobs(tiers: "Tiering") -> int:
    return 0 if tiers.compactor is None else sum(tiers.compactor.counts.jobs.values())


def _compaction(tiers: "Tiering") -> int:
    return 0 if tiers.compactor is None else tiers.compactor.counts.failures


def _collected(tiers: "Tiering") -> int:
    if tiers.collector is None:
        return 0
    counts = tiers.collector.counts
    return counts.dead + counts.orphans + counts.indexes + counts.catalogue


def _sealed(tiers: "Tiering", name: str) -> int:
    return 0 if tiers.segmenter is None else int(getattr(tiers.segmenter.counts, name))
