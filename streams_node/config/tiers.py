"""Settings of the tiers below the log: sealing, publishing, compaction, collection, caching and back-pressure."""

from typing import Annotated

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from streams_node.config.quantity import HOUR_MS, MINUTE_MS, SECOND_MS, Bytes, Count, GiB, MiB, Milliseconds, Unit
from streams_node.config.subscriptions import SubscriptionSettings


class TierSettings(SubscriptionSettings):
    """Part of `Settings`."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    # --- start ---

    bootstrap_from_store: bool = Field(
        default=False,
        description="Begin an empty data folder with what the catalogue in the store holds, and take the bucket over.",
    )

    bootstrap_accept_loss: bool = Field(
        default=False,
        description="With `bootstrap_from_store`: leave out what the catalogue cannot say any more, as it is damaged. "
        "Without it, a damaged catalogue is a reason not to start.",
    )

    # --- sealing ---

    flush_bytes: Bytes = Field(
        default=32 * MiB, ge=64 * 1024, description="A flush begins when this much of the log is not sealed."
    )
    flush_bytes_max: Bytes = Field(
        default=64 * MiB,
        ge=64 * 1024,
        description="One flush takes at most this much of the log, so that a start has at most this much to do again.",
    )
    flush_ms_max: Milliseconds = Field(
        default=MINUTE_MS,
        ge=10,
        description="And when the oldest unsealed entry is this old: what a lost disk may cost, and two requests.",
    )
    own_segment_bytes: Bytes = Field(
        default=1 * MiB,
        ge=1,
        description="A stream with this much in a flush, or in packs, gets its own segments.",
    )
    segment_bytes: Bytes = Field(default=16 * MiB, ge=1 * MiB, description="Payload at which a segment is full.")
    segment_entries: Annotated[Count, Unit("entries")] = Field(
        default=100_000, ge=1, description="Entries at which a segment is full."
    )
    pack_bytes: Bytes = Field(
        default=64 * MiB, ge=1 * MiB, description="Payload at which a merged pack is full; a read of it is one request."
    )
    seals_waiting_max: Annotated[Count, Unit("seals")] = Field(
        default=2, ge=1, description="Sealed flushes that may wait for the object store; their files take disk space."
    )
    worker_command_ms_max: Milliseconds = Field(
        default=5 * MINUTE_MS, ge=1000, description="A worker process that takes longer for one command is killed."
    )

    # --- publishing ---

    upload_threads: Annotated[Count, Unit("threads")] = Field(
        default=4, ge=1, le=64, description="Uploads at the same time; one connection rarely fills a line."
    )
    publish_ms_min: Milliseconds = Field(
        default=1000, ge=0, description="At most one catalogue generation in this time: several flushes share one."
    )
    publish_metadata_ms: Milliseconds = Field(
        default=75 * SECOND_MS,
        ge=10,
        description="Streams that were only created, changed or deleted are published after this time at the latest; "
        "a little more than `flush_ms_max`, so that a flush mostly takes them along.",
    )
    snapshot_generations: Annotated[Count, Unit("generations")] = Field(
        default=64,
        ge=2,
        description="A snapshot of the catalogue after so many generations: a start reads fewer.",
    )
    release_rows: Annotated[Count, Unit("rows")] = Field(
        default=2000, ge=1, description="Log rows freed in one transaction; appends wait for it a few milliseconds."
    )

    # --- compaction and collection ---

    compaction_packs: Annotated[Count, Unit("packs")] = Field(
        default=8, ge=2, description="So many packs of one level are merged into the next one."
    )
    compaction_pause_ms: Milliseconds = Field(
        default=2000, ge=0, description="Rest between two merges, so that compaction never takes a core for long."
    )
    dead_data_ms_max: Milliseconds = Field(
        default=24 * HOUR_MS,
        ge=1000,
        description="Deleted entries leave the objects after this time, or when half of an object is dead.",
    )
    object_grace_ms: Milliseconds = Field(
        default=10 * MINUTE_MS,
        ge=0,
        description="Objects are deleted this long after they left the catalogue: readers may be in the middle.",
    )
    orphan_grace_ms: Milliseconds = Field(
        default=24 * HOUR_MS,
        ge=0,
        description="Objects that no generation names are deleted at this age, by the store's clock.",
    )
    orphan_scan_ms: Milliseconds = Field(
        default=6 * HOUR_MS, ge=1000, description="How often the bucket is listed for such objects."
    )
    collect_deletes_per_s: Annotated[Count, Unit("deletes")] = Field(
        default=20, ge=1, description="Deletes a second at most, so that they never crowd out uploads."
    )

    # --- reading sealed entries ---

    cache_bytes_max: Bytes = Field(
        default=2 * GiB,
        ge=64 * MiB,
        description="Disk for copies of objects in `cache/`; the longest unused leave first.",
    )
    index_cache_bytes_max: Bytes = Field(
        default=1 * GiB,
        ge=16 * MiB,
        description="Disk for copies of index objects in `cache/index/`, apart: reading history drives out none.",
    )
    decoded_bytes_max: Bytes = Field(
        default=32 * MiB, ge=1 * MiB, description="Memory for decoded parts of objects that were just read."
    )
    directory_bytes_max: Bytes = Field(default=32 * MiB, ge=1 * MiB, description="Memory for directories of packs.")
    cold_reader_threads: Annotated[Count, Unit("threads")] = Field(
        default=2, ge=1, le=64, description="Threads that fetch and decode objects for readers."
    )
    read_ahead_objects: Annotated[Count, Unit("objects")] = Field(
        default=2, ge=0, le=16, description="Objects fetched ahead of a reader that goes through a stream in order."
    )

    # --- back-pressure ---

    backlog_bytes_max: Bytes = Field(
        default=4 * GiB,
        ge=1 * MiB,
        description="Log that is not in the object store yet; above it appends get 429 until it has shrunk.",
    )
    upload_lag_ms_max: Milliseconds = Field(
        default=24 * HOUR_MS,
        ge=1000,
        description="Age of the oldest unpublished entry; above it appends get 503: the bucket is too far behind.",
    )
