"""The limits of a node, under the names that clients of the protocol know, and ours beside them."""

from streams_node.config import MiB, Settings
from streams_node.config.tuning import available_bytes, tuned
from streams_node.http.search_request import TIMEOUT_MS_MAX
from streams_node.http.server_view import AutoTuneView, LimitsView

_BUSY_MS = 5000  # see wal/connection.py


def auto_tune(settings: Settings) -> AutoTuneView:
    """What `--auto-tune` has made of the memory there is."""
    limit, asked = settings.memory_limit_bytes, settings.auto_tune
    found = None if asked is None else tuned(asked, available_bytes())
    return AutoTuneView(
        enabled=found is not None,
        requested_memory_mb=None if found is None else found.requested_mb,
        preset_mb=None if found is None else found.preset_mb,
        effective_memory_limit_mb=_mb(limit),
    )


def limits(settings: Settings) -> LimitsView:
    return LimitsView(
        caches={
            "sqlite_cache_bytes": settings.sqlite_cache_bytes,
            "worker_sqlite_cache_bytes": None,
            "index_run_memory_cache_bytes": None,
            "index_run_disk_cache_bytes": settings.index_cache_bytes_max,
            "lexicon_index_cache_bytes": None,
            "segment_cache_bytes": settings.cache_bytes_max,
            "companion_toc_cache_bytes": None,
            "companion_section_cache_bytes": None,
            "companion_file_cache_bytes": settings.search_views_bytes_max,
            "state_cache_bytes": settings.state_cache_bytes_max,
            "hot_tail_bytes": settings.hot_tail_bytes_max,
            "decoded_bytes": settings.decoded_bytes_max,
            "directory_bytes": settings.directory_bytes_max,
        },
        concurrency={
            "ingest": None,
            "read": settings.reader_threads,
            "cold_read": settings.cold_reader_threads,
            "search": settings.search_concurrency,
            "async_index": None,
            "upload": settings.upload_threads,
            "index_build": None,
            "index_compact": None,
            "connections": settings.connections_max,
            "live_waiters": settings.live_waiters_max,
        },
        ingest={
            "max_batch_requests": settings.commit_rows_max,
            "max_batch_bytes": settings.commit_bytes_max,
            "max_queue_requests": settings.queue_appends_max,
            "max_queue_bytes": settings.queue_bytes_max,
            "busy_timeout_ms": _BUSY_MS,
            "local_backlog_max_bytes": settings.backlog_bytes_max,
            "max_body_bytes": settings.append_body_bytes_max,
            "bodies_in_flight_bytes": settings.bodies_in_flight_bytes_max,
        },
        search={
            "companion_batch_segments": None,
            "companion_yield_blocks": None,
            "wal_overlay_quiet_period_ms": None,
            "wal_overlay_max_bytes": settings.search_scan_bytes_max,
            "queue": settings.search_queue_max,
            "filter_scan_bytes": settings.filter_scan_bytes_max,
        },
        segmenting={
            "segment_max_bytes": settings.segment_bytes,
            "segment_target_rows": settings.segment_entries,
            "segmenter_workers": 1,
            "flush_bytes": settings.flush_bytes,
            "flush_ms": settings.flush_ms_max,
            "pack_bytes": settings.pack_bytes,
            "uploads_waiting": settings.seals_waiting_max,
        },
        timeouts={
            "append_request_timeout_ms": settings.append_wait_ms_max,
            "search_request_timeout_ms": TIMEOUT_MS_MAX,
            "resolver_timeout_ms": settings.request_ms_max,
            "object_store_timeout_ms": settings.object_store_attempt_ms_max,
            "long_poll_ms": settings.long_poll_ms_max,
        },
        memory={"pressure_limit_bytes": settings.memory_limit_bytes},
    )


def _mb(size: int) -> int | None:
    return size // MiB if size else None
