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
    gauge("streams_cache_bytes", lambda: 0 if tiers.cache is None else tiers.cache.bytes, "disk taken by copies")


def _fenced(tiers: "Tiering") -> bool:
    return tiers.uploader is not None and tiers.uploader.fenced


def _failures(tiers: "Tiering") -> int:
    return 0 if tiers.uploader is None else tiers.uploader.failures


def _requests(tiers: "Tiering") -> int:
    return sum(tally.requests for tally in tiers.counts.totals().values())


def _cache(tiers: "Tiering", name: str) -> int:
    return 0 if tiers.cache is None else int(getattr(tiers.cache.counts, name))
