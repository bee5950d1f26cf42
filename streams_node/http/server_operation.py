"""What `/v1/server/_details` and `/v1/server/_mem` take and give, in words: a part of operations.py."""

from collections.abc import Mapping

from streams_node.details.problems import CODES
from streams_node.http.operation import Answer, Operation
from streams_node.http.server_view import SqliteMemoryView

SERVER_OPERATIONS: Mapping[str, Operation] = {
    "server.details": Operation(
        "The node as a whole: what is wrong with it in sentences, its limits, and how it is at this moment. A number "
        "that the node does not know is null. What takes a look into the database is at most two seconds old. It costs "
        "little: a page may ask every second.",
        "",
        (Answer(200, "The node.", "Cache-Control", "view"),),
        "overloaded",
    ),
    "server.memory": Operation(
        "What the memory of the node is used for: a part of `/v1/server/_details`, and what only grows.",
        "",
        (Answer(200, "The memory.", "Cache-Control", "view"),),
        "overloaded",
    ),
}

_MEMORY: Mapping[str, str] = {
    "process": "Of this process. Null is what only other runtimes have.",
    "process_breakdown": "What the system says it is made of.",
    "sqlite": "Of SQLite's allocator: not available in this runtime.",
    "gc": "Of the garbage collector.",
    "high_water": "The highest value of each number so far, and when it was seen: somebody has to look.",
}
_ROWS = "Waits in the log, of its newest rows: streams that are not written to any more are not found."
SERVER_FIELDS: Mapping[str, Mapping[str, str]] = {
    "ServerDetailsView": {
        "node": "The process.",
        "problems": "What is wrong, the worst first; empty when all is well.",
        "auto_tune": "What `--auto-tune` has made of the memory there is.",
        "configured_limits": "Bounds, as they are set; null where the node has none or has it otherwise.",
        "runtime": "How it is at this moment.",
    },
    "NodeView": {
        "version": "Of the program.",
        "now": "The node's clock.",
        "uptime_ms": "Since the process began, in milliseconds.",
        "ready": "Whether writes are taken.",
    },
    "ProblemView": {
        "code": f"For programs: {', '.join(f'`{code}`' for code in CODES)}.",
        "severity": "`error` or `warning`.",
        "message": "What is wrong, for people.",
        "hint": "What to do.",
    },
    "AutoTuneView": {
        "enabled": "Whether the node was started with `auto_tune`.",
        "requested_memory_mb": "What it named, in MiB; null when the node looked itself.",
        "preset_mb": "The preset that was taken.",
        "effective_memory_limit_mb": "The limit of memory; null when there is none.",
    },
    "LimitsView": {
        "caches": "Sizes of caches, in memory and on disk.",
        "concurrency": "How much is done at once.",
        "ingest": "Queue and batches of appends.",
        "search": "What a search may take.",
        "segmenting": "When the log is sealed, and how large objects get.",
        "timeouts": "In milliseconds.",
        "memory": "The limit of memory; 0 for none.",
    },
    "BreakdownView": {
        "source": "Who says so.",
        "rss_anon_bytes": "Of the process alone.",
        "rss_file_bytes": "Of files that are mapped.",
        "rss_shmem_bytes": "Shared.",
        "js_managed_bytes": "Null: another runtime's.",
        "js_external_non_array_buffers_bytes": "Null: another runtime's.",
        "mapped_file_bytes": "Of the subsystems; null when none of them knows.",
        "sqlite_runtime_bytes": "The same of SQLite.",
        "unattributed_anon_bytes": "What no subsystem accounts for: code, the interpreter, and what it has kept.",
        "unattributed_rss_bytes": "The same of all memory.",
    },
    "SqliteMemoryView": {
        "available": "False: this runtime does not tell.",
        "source": "`unavailable`.",
        **dict.fromkeys(SqliteMemoryView.__struct_fields__[2:], "Null."),
    },
    "CollectorView": {
        "forced_gc_count": "0: the node forces none.",
        "forced_gc_reclaimed_bytes_total": "0.",
        "last_forced_gc_at_ms": "Null.",
        "last_forced_gc_before_bytes": "Null.",
        "last_forced_gc_after_bytes": "Null.",
        "last_forced_gc_reclaimed_bytes": "Null.",
        "heap_snapshots_written": "0: the node writes none.",
        "last_heap_snapshot_at_ms": "Null.",
        "collections": "Runs since the start.",
    },
    "PeakView": {"value": "The highest so far.", "at": "When it was seen first."},
    "PeaksView": {
        "process": "Of the process.",
        "process_breakdown": "Of what it is made of.",
        "sqlite": "Empty.",
        "runtime_totals": "Of the sums.",
        "runtime_bytes": "Of the subsystems, by group.",
    },
    "MemoryView": {
        "state": "`calm`, `tight` or `critical`: how near it is to the limit.",
        "pressure_active": "Whether it is not calm, and searches get less.",
        "pressure_limit_bytes": "`memory_limit_bytes`; 0 for none.",
        "last_rss_bytes": "Memory of the process, at most a second ago.",
        "max_rss_bytes": "The most it ever had.",
        **_MEMORY,
        "subsystems": "By group and name: what the parts of the node hold.",
        "totals": "The sums of the groups.",
    },
    "QueueView": {
        "requests": "Appends that are decided and not stored.",
        "bytes": "Their size.",
        "full": "Whether others are refused.",
    },
    "BacklogView": {
        "enabled": "True.",
        "current_bytes": "Of log that is not in the object store yet.",
        "max_bytes": "`backlog_bytes_max`.",
        "over_limit": "Whether appends are refused for it.",
        "oldest_ms": "Age of the oldest entry of it, in milliseconds: what the loss of the disk would cost.",
        "max_ms": "`upload_lag_ms_max`.",
    },
    "UploadsView": {"pending_segments": "Sealed flushes and merges that wait for the object store."},
    "GateView": {
        "configured_limit": "As set; null where there is no gate.",
        "current_limit": "As it is now: less while memory is tight.",
        "active": "Under way.",
        "queued": "Waiting; null when it is not known.",
    },
    "LocalStreamView": {
        "stream": "Its name.",
        "bytes": "Together, as far as known.",
        "wal_retained_bytes": _ROWS,
        "segment_cache_bytes": "Null: see `_details` of the stream.",
        "index_cache_bytes": "Null: see `_details` of the stream.",
    },
    "PendingStreamView": {"stream": "Its name.", "pending_wal_bytes": _ROWS, "pending_rows": "Entries of it."},
    "TouchStreamView": {
        "stream": "Its name.",
        "journal_filter_bytes": "Size of its journal.",
        "dirty": "Whether it has changed.",
        "touch_mode": "How it is touched.",
    },
    "WaitedStreamView": {
        "stream": "Its name.",
        "waiters": "Who reads it live.",
        "details_waiters": "Who awaits another state of it.",
        "total_waiters": "Both.",
    },
    "TopStreamsView": {
        "local_storage_bytes": "Of those in the log: the largest on this disk.",
        "pending_wal_bytes": "Of those in the log: the largest that wait for the object store.",
        "touch_journal_filter_bytes": "Empty: no stream has a journal.",
        "notifier_waiters": "Those that most wait for.",
        "appends": "Those with the most appends over the last minute. None is counted twice; those of a stream with "
        "less than 1/257 of the appends of ten seconds may be left out.",
        "reads": "Those with the most reads, counted alike. An event stream is one read.",
    },
    "BusyStreamView": {"stream": "Its name.", "per_second": "How many there were, a second."},
    "TiersView": {
        "store": "`folder`, `s3` or `memory`.",
        "opened": "Whether the bucket is known to be this node's.",
        "fenced": "Whether another node has taken it over.",
        "generation": "The newest generation of the catalogue.",
        "published_through_row": "The newest row of the log that is in the object store.",
        "unsealed_bytes": "Of log that is in no file yet.",
        "sealed_waiting": "Files that wait for the object store, by flush or merge.",
        "sealed_waiting_bytes": "Log in them.",
        "seals": "Flushes since the start.",
        "compactions": "Merges since the start.",
        "collected_objects": "Objects deleted since the start.",
        "stuck_streams": "Streams that cannot be sealed.",
        "store_requests": "To the object store, since the start.",
        "store_retries": "Of these: sent again.",
    },
    "IndexesView": {
        "driver": "Beside the node: `off` (there is to be none, or none can be started yet), `idle` or `running`.",
        "driver_starts": "Since the start.",
        "planned_streams": "Streams with something to index.",
        "due_streams": "Streams that wait.",
        "due_entries": "Entries that wait, about.",
        "due_bytes": "Their size, about.",
        "oldest_due_ms": "For how long the oldest of it has waited, in milliseconds.",
        "claims": "Drivers at work, here and elsewhere.",
        "failed_objects": "Objects that no driver could use.",
    },
    "SubscriptionsView": {
        "count": "How many there are.",
        "failing": "Those whose wake does not get through.",
        "under_way": "Those with a wake under way.",
    },
    "LiveView": {
        "connections": "Open connections.",
        "long_poll": "Who waits by long-poll.",
        "sse": "Who reads events.",
        "details_waiters": "Who awaits another state of a stream.",
    },
    "DiskView": {
        "free_bytes": "Room left where `data` is; null when the disk does not say.",
        "total_bytes": "Its size.",
        "floor_bytes": "Below this, writes are refused.",
        "database_bytes": "Of the database and its WAL.",
    },
    "ServerRuntimeView": {
        "memory": "Memory.",
        "ingest_queue": "Appends that wait for the disk.",
        "local_backpressure": "Log that waits for the object store.",
        "uploads": "Files that wait for it.",
        "concurrency": "What is under way, by kind: `ingest`, `read`, `search`, `search_long` (what looks at "
        "very many entries), `async_index`.",
        "top_streams": "A few streams that take most.",
        "tiers": "From the log to the object store.",
        "indexing": "Indexes, and who builds them.",
        "subscriptions": "Subscriptions.",
        "live": "Who is connected.",
        "disk": "The disk.",
    },
    "ServerMemoryView": {
        "ts": "The node's clock.",
        "state": "`calm`, `tight` or `critical`: how near it is to the limit.",
        **_MEMORY,
        "counters": "What only grows, since the start.",
        "runtime_counts": "How many of what the parts of the node hold.",
        "runtime_bytes": "How large it is, by group.",
        "runtime_totals": "The sums of the groups.",
        "top_streams": "A few streams that take most.",
    },
}  # fmt: skip
