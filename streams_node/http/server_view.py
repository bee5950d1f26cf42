"""The views of `/v1/server/_details` and `/v1/server/_mem`.

Groups of numbers are objects by name: which there are depends on what the node is made of, and null is unknown.
"""

import msgspec

Numbers = dict[str, int | None]


class AutoTuneView(msgspec.Struct):
    enabled: bool
    requested_memory_mb: int | None
    preset_mb: int | None
    effective_memory_limit_mb: int | None


class LimitsView(msgspec.Struct):
    caches: Numbers
    concurrency: Numbers
    ingest: Numbers
    search: Numbers
    segmenting: Numbers
    timeouts: Numbers
    memory: Numbers


class BreakdownView(msgspec.Struct):
    source: str
    rss_anon_bytes: int | None
    rss_file_bytes: int | None
    rss_shmem_bytes: int | None
    js_managed_bytes: int | None
    js_external_non_array_buffers_bytes: int | None
    mapped_file_bytes: int | None
    sqlite_runtime_bytes: int | None
    unattributed_anon_bytes: int | None
    unattributed_rss_bytes: int | None


class SqliteMemoryView(msgspec.Struct):
    available: bool
    source: str
    memory_used_bytes: int | None = None
    memory_highwater_bytes: int | None = None
    pagecache_used_slots: int | None = None
    pagecache_used_slots_highwater: int | None = None
    pagecache_overflow_bytes: int | None = None
    pagecache_overflow_highwater_bytes: int | None = None
    malloc_count: int | None = None
    malloc_count_highwater: int | None = None
    open_connections: int | None = None
    prepared_statements: int | None = None


class CollectorView(msgspec.Struct):
    forced_gc_count: int | None
    forced_gc_reclaimed_bytes_total: int | None
    last_forced_gc_at_ms: int | None
    last_forced_gc_before_bytes: int | None
    last_forced_gc_after_bytes: int | None
    last_forced_gc_reclaimed_bytes: int | None
    heap_snapshots_written: int | None
    last_heap_snapshot_at_ms: int | None
    collections: int


class PeakView(msgspec.Struct):
    value: int
    at: str


Peaks = dict[str, PeakView]


class PeaksView(msgspec.Struct):
    process: Peaks
    process_breakdown: Peaks
    sqlite: Peaks
    runtime_totals: Peaks
    runtime_bytes: dict[str, Peaks]


class MemoryView(msgspec.Struct):
    state: str
    pressure_active: bool
    pressure_limit_bytes: int
    last_rss_bytes: int
    max_rss_bytes: int
    process: Numbers
    process_breakdown: BreakdownView
    sqlite: SqliteMemoryView
    gc: CollectorView
    subsystems: dict[str, Numbers]
    totals: Numbers
    high_water: PeaksView


class QueueView(msgspec.Struct):
    requests: int
    bytes: int
    full: bool


class BacklogView(msgspec.Struct):
    enabled: bool
    current_bytes: int
    max_bytes: int
    over_limit: bool
    oldest_ms: int
    max_ms: int


class UploadsView(msgspec.Struct):
    pending_segments: int


class GateView(msgspec.Struct):
    configured_limit: int | None
    current_limit: int | None
    active: int | None
    queued: int | None


class LocalStreamView(msgspec.Struct):
    stream: str
    bytes: int
    wal_retained_bytes: int
    segment_cache_bytes: int | None
    index_cache_bytes: int | None


class PendingStreamView(msgspec.Struct):
    stream: str
    pending_wal_bytes: int
    pending_rows: int


class TouchStreamView(msgspec.Struct):
    stream: str
    journal_filter_bytes: int
    dirty: bool
    touch_mode: str | None


class WaitedStreamView(msgspec.Struct):
    stream: str
    waiters: int
    details_waiters: int
    total_waiters: int


class BusyStreamView(msgspec.Struct):
    stream: str
    per_second: float


class TopStreamsView(msgspec.Struct):
    local_storage_bytes: list[LocalStreamView]
    pending_wal_bytes: list[PendingStreamView]
    touch_journal_filter_bytes: list[TouchStreamView]
    notifier_waiters: list[WaitedStreamView]
    appends: list[BusyStreamView]
    reads: list[BusyStreamView]


class TiersView(msgspec.Struct):
    store: str
    opened: bool
    fenced: bool
    generation: int
    published_through_row: int
    unsealed_bytes: int
    sealed_waiting: int
    sealed_waiting_bytes: int
    seals: int
    compactions: int
    collected_objects: int
    stuck_streams: int
    store_requests: int
    store_retries: int


class IndexesView(msgspec.Struct):
    driver: str
    driver_starts: int
    planned_streams: int
    due_streams: int
    due_entries: int
    due_bytes: int
    oldest_due_ms: int
    claims: int
    failed_objects: int


class SubscriptionsView(msgspec.Struct):
    count: int
    failing: int
    under_way: int


class LiveView(msgspec.Struct):
    connections: int
    long_poll: int
    sse: int
    details_waiters: int


class DiskView(msgspec.Struct):
    free_bytes: int | None
    total_bytes: int | None
    floor_bytes: int
    database_bytes: int


class ServerRuntimeView(msgspec.Struct):
    memory: MemoryView
    ingest_queue: QueueView
    local_backpressure: BacklogView
    uploads: UploadsView
    concurrency: dict[str, GateView]
    top_streams: TopStreamsView
    tiers: TiersView
    indexing: IndexesView
    subscriptions: SubscriptionsView
    live: LiveView
    disk: DiskView


class NodeView(msgspec.Struct):
    version: str
    now: str
    uptime_ms: int
    ready: bool


class ProblemView(msgspec.Struct):
    code: str
    severity: str
    message: str
    hint: str


class ServerDetailsView(msgspec.Struct):
    node: NodeView
    problems: list[ProblemView]
    auto_tune: AutoTuneView
    configured_limits: LimitsView
    runtime: ServerRuntimeView


class ServerMemoryView(msgspec.Struct):
    ts: str
    state: str
    process: Numbers
    process_breakdown: BreakdownView
    sqlite: SqliteMemoryView
    gc: CollectorView
    high_water: PeaksView
    counters: Numbers
    runtime_counts: Numbers
    runtime_bytes: dict[str, Numbers]
    runtime_totals: Numbers
    top_streams: TopStreamsView
