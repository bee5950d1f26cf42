"""The settings themselves: name, type, default, bounds and reason of each."""

import re
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from typing_extensions import override

from streams_node.config.clashes import clashes_of
from streams_node.config.memory import MemorySettings
from streams_node.config.quantity import HOUR_MS, Bytes, Count, GiB, KiB, MiB, Milliseconds, Port, Unit

CLASH_ERROR = "settings_clash"

_API_KEY = re.compile(r"[\x21-\x7e]{16,}")


def _sendable_key(value: SecretStr) -> SecretStr:
    # The key travels in a header; the message must never quote it.
    if _API_KEY.fullmatch(value.get_secret_value()) is None:
        raise PydanticCustomError("api_key", "needs 16 or more characters, visible ASCII without spaces")
    return value


def _base_url(value: str) -> str:
    parts = urlsplit(value)
    # Credentials in an address end up in every `Location`; the message does not repeat them either.
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise PydanticCustomError("base_url", "not a plain base address like https://streams.example.com")
    return value.rstrip("/")


class Settings(MemorySettings):
    """One node's settings; flat, so that a flag, a variable and a TOML key are the same word."""

    # Inputs stay out of error texts: one of them could be the key.
    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    # --- where it lives and who may call ---

    data: Path = Field(
        default=Path("streams-data"),
        description="Folder with the log and all metadata; the one thing to keep on a durable disk.",
    )
    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address the node listens on. Loopback, because a first try must not be reachable by strangers.",
    )
    port: Port = Field(
        default=4437, description="Port of the public listener, the protocol's usual one; 0 takes a free port."
    )
    operator_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address of the operator listener, used with `operator_port`; operators come through a tunnel.",
    )
    operator_port: Port | None = Field(
        default=None,
        description="Moves metrics, admin page, flush and indexer routes to a port of their own; absent: one listener.",
    )
    no_auth: bool = Field(
        default=False,
        description="Serve without any key, even when one is set. Loopback only; explicit, so nobody gets it unasked.",
    )
    api_key: Annotated[SecretStr, AfterValidator(_sendable_key)] | None = Field(
        default=None,
        description="The key callers send as `Authorization: Bearer`. Better in the environment or the TOML file than "
        "in a flag, which every process of the machine can read.",
    )
    tls_certfile: Path | None = Field(
        default=None, description="Certificate chain (PEM) with which the node itself does TLS."
    )
    tls_keyfile: Path | None = Field(default=None, description="Private key (PEM) that belongs to `tls_certfile`.")
    tls_by_proxy: bool = Field(
        default=False,
        description="States that a proxy in front does TLS, so that a plain listener beyond loopback is meant.",
    )
    public_url: Annotated[str, AfterValidator(_base_url)] | None = Field(
        default=None,
        description="Base address as clients see it, for `Location` and callback URLs behind a proxy; absent: `Host`.",
    )

    # --- the object store ---

    object_store: Literal["folder", "s3", "memory"] = Field(
        default="folder",
        description="Where sealed data goes: a folder needs nothing else, `s3` is for keeps, `memory` is for tests.",
    )
    object_store_folder: Path | None = Field(
        default=None, description="Folder of the object store `folder`; absent: `objects` inside `data`."
    )

    s3_bucket: str | None = Field(default=None, min_length=1, description="Bucket of the object store `s3`.")
    s3_prefix: str = Field(
        default="",
        max_length=256,
        description="Names before every key, like `team/streams`, so that a bucket can be shared; each node its own.",
    )
    s3_endpoint: Annotated[str, AfterValidator(_base_url)] | None = Field(
        default=None, description="Address of a store other than AWS; absent: what the AWS SDK finds, or AWS itself."
    )
    s3_region: str | None = Field(
        default=None,
        min_length=1,
        description="Region of the bucket; absent: what the AWS SDK finds, or `us-east-1`, which others than AWS take.",
    )
    s3_path_style: bool = Field(
        default=False,
        description="Bucket in the path and not in the host name; stores without a DNS entry a bucket need it.",
    )
    s3_access_key_id: SecretStr | None = Field(
        default=None,
        description="Credentials for the bucket. Absent: what the AWS SDK finds, such as the role of the machine, "
        "which is better, as nothing has to be kept.",
    )
    s3_secret_access_key: SecretStr | None = Field(
        default=None, description="Belongs to `s3_access_key_id`; better in the environment than in a flag."
    )
    s3_session_token: SecretStr | None = Field(
        default=None, description="Third part of temporary credentials; they end, and the node does not renew these."
    )
    s3_encryption: Literal["none", "AES256", "aws:kms"] = Field(
        default="none",
        description="Encryption that is asked for with each object; `none` leaves it to the bucket's own default.",
    )
    s3_kms_key: str | None = Field(
        default=None, min_length=1, description="Key for `aws:kms`; absent: the account's default one."
    )
    object_store_attempts_max: Annotated[Count, Unit("attempts")] = Field(
        default=4,
        ge=1,
        le=20,
        description="How often a request to the object store is sent before it has failed; waits between them grow.",
    )
    object_store_attempt_ms_max: Milliseconds = Field(
        default=10_000,
        ge=100,
        description="Longest an attempt may take, beside a second for each MiB; then it is cancelled, not left behind.",
    )
    object_store_retry_ms_max: Milliseconds = Field(
        default=30_000,
        ge=100,
        description="No further attempt begins after this time; a store that is away fails soon.",
    )

    # --- what it says ---

    log_format: Literal["console", "json"] = Field(
        default="console", description="Log lines for a person or for a collector."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="The least severe log line written; libraries never go below `info`, as theirs can quote requests.",
    )
    slow_request_ms: Milliseconds = Field(
        default=1000,
        ge=1,
        description="A request that takes longer to its first byte is logged, for what users feel should be findable.",
    )

    otel_traces: bool = Field(
        default=False,
        description="Hand spans of requests to OpenTelemetry. Needs its packages in this environment, which the node "
        "does not bring; the SDK's own variables, as `OTEL_EXPORTER_OTLP_ENDPOINT`, say where they go.",
    )
    stream_metrics_ms: Milliseconds = Field(
        default=10_000,
        ge=0,
        description="How often the node appends its own numbers to `__stream_metrics__`; 0 for never, and no stream. "
        "Clients of the protocol expect intervals of ten seconds.",
    )
    stream_metrics_kept_ms: Milliseconds = Field(
        default=7 * 24 * HOUR_MS,
        ge=0,
        description="How long they can be read there; 0 for ever. A week shows what is usual on each of its days.",
    )

    # --- appends ---

    append_body_bytes_max: Bytes = Field(
        default=32 * MiB,
        ge=1 * KiB,
        le=1 * GiB,
        description="Largest body of an append or create; a body is held in memory until it is committed.",
    )
    append_entries_max: Annotated[Count, Unit("entries")] = Field(
        default=100_000,
        ge=1,
        description="Most entries in one append: a large array of tiny elements costs time that its bytes do not show.",
    )
    append_wait_ms_max: Milliseconds = Field(
        default=3000,
        ge=10,
        description="Longest an append waits for its commit before it is answered 408; the outcome is then unknown.",
    )
    append_body_idle_ms_max: Milliseconds = Field(
        default=10_000,
        ge=100,
        description="Longest pause within an uploaded body; a client that stalls must not hold its memory forever.",
    )
    bodies_in_flight_bytes_max: Bytes = Field(
        default=256 * MiB,
        ge=1 * MiB,
        description="All bodies being received together; beyond it 429, so that many large uploads cannot use up RAM.",
    )
    request_ms_max: Milliseconds = Field(
        default=5000,
        ge=100,
        description="Longest time to the first byte of an answer; uploads, downloads and live reads do not count.",
    )

    # --- names and headers ---

    stream_path_bytes_max: Bytes = Field(
        default=512,
        ge=16,
        le=4 * KiB,
        description="Longest stream path below /v1/stream, after decoding; it is a key in every table and object.",
    )
    content_type_bytes_max: Bytes = Field(
        default=256,
        ge=32,
        le=4 * KiB,
        description="Longest Content-Type kept for a stream; real ones stay below 100 bytes.",
    )
    stream_seq_bytes_max: Bytes = Field(
        default=256, ge=8, le=4 * KiB, description="Longest `Stream-Seq`, kept per stream and compared at each append."
    )
    producer_id_bytes_max: Bytes = Field(
        default=256, ge=8, le=4 * KiB, description="Longest `Producer-Id`, kept for every producer of every stream."
    )
    producers_per_stream_max: Annotated[Count, Unit("producers")] = Field(
        default=1024,
        ge=1,
        description="Producers remembered per stream; they live as long as its data, so their number needs an end.",
    )
    routing_key_bytes_max: Bytes = Field(
        default=1024,
        ge=8,
        le=64 * KiB,
        description="Longest routing key of an entry; keys are sorted and kept in indexes.",
    )
    timestamp_ahead_ms_max: Milliseconds = Field(
        default=300_000,
        ge=0,
        description="How far a `Stream-Timestamp` may lie ahead of the clock before it is moved back; time never runs "
        "backwards in a stream, so one far-future hint would freeze it there.",
    )

    # --- the group commit ---

    queue_appends_max: Annotated[Count, Unit("appends")] = Field(
        default=20_000,
        ge=1,
        description="Appends waiting for the writer; beyond it 429, as a longer queue only makes everyone time out.",
    )
    queue_bytes_max: Bytes = Field(
        default=64 * MiB, ge=1 * MiB, description="Bytes waiting for the writer; the same promise for memory."
    )
    commit_rows_max: Annotated[Count, Unit("rows")] = Field(
        default=512,
        ge=1,
        description="Most log rows in one transaction: enough to share an fsync, few enough to keep commits short.",
    )
    commit_bytes_max: Bytes = Field(
        default=8 * MiB,
        ge=64 * KiB,
        description="Most bytes in one transaction; a single larger append is committed alone.",
    )
    log_row_bytes_max: Bytes = Field(
        default=256 * KiB,
        ge=4 * KiB,
        le=16 * MiB,
        description="An append is split into rows of this size, so that a page can be read without its neighbours.",
    )
    heads_flush_rows: Annotated[Count, Unit("rows")] = Field(
        default=50_000,
        ge=1,
        description="Log rows after which changed heads are written; fewer means more writing, more a longer start.",
    )
    heads_flush_ms: Milliseconds = Field(
        default=30_000,
        ge=10,
        description="Longest a changed stream head waits to be written; it bounds what a start has to replay.",
    )
    state_cache_bytes_max: Bytes = Field(
        default=48 * MiB,
        ge=1 * MiB,
        description="Stream states kept in memory, so that a million quiet streams cost disk and not RAM.",
    )

    # --- reads ---

    read_page_bytes: Bytes = Field(
        default=1 * MiB, ge=1 * KiB, description="Size of a page when the client does not ask for one."
    )
    read_page_bytes_max: Bytes = Field(
        default=8 * MiB,
        ge=1 * KiB,
        le=256 * MiB,
        description="Largest page a client may ask for with `max_bytes`; larger wishes are cut to it.",
    )
    filter_scan_bytes_max: Bytes = Field(
        default=100 * MiB,
        ge=1 * KiB,
        description="Bytes of entries that one answer to a read by key or filter examines; the next one goes on there.",
    )
    reader_threads: Annotated[Count, Unit("threads")] = Field(
        default=2,
        ge=1,
        le=64,
        description="Threads that read the log; more than the cores gains little, as the pages are mostly in memory.",
    )
    read_queue_max: Annotated[Count, Unit("reads")] = Field(
        default=1024, ge=1, description="Reads waiting for a reader thread; beyond it 429."
    )
    hot_tail_bytes_max: Bytes = Field(
        default=32 * MiB,
        ge=0,
        description="Newest entries of all streams kept in memory, from which live readers are served without SQLite.",
    )
    hot_tail_stream_bytes_max: Bytes = Field(
        default=1 * MiB,
        ge=0,
        description="One stream's share of the hot tail, so that one busy stream does not push out all others.",
    )

    # --- live reads and connections ---

    live_waiters_max: Annotated[Count, Unit("waiters")] = Field(
        default=20_000,
        ge=1,
        description="Long-poll and SSE readers waiting at once; beyond it 503, as each holds a connection and memory.",
    )
    long_poll_ms_max: Milliseconds = Field(
        default=3000,
        ge=100,
        description="Longest long-poll, whatever the client asks for; below the 5 s patience of many callers.",
    )
    sse_recycle_ms: Milliseconds = Field(
        default=60_000,
        ge=1000,
        description="An SSE answer ends after this time and the client resumes; caches and deployments can move on.",
    )
    sse_heartbeat_ms: Milliseconds = Field(
        default=15_000,
        ge=100,
        description="A comment line after this much silence, so that proxies do not take a quiet stream for dead.",
    )
    send_stall_ms_max: Milliseconds = Field(
        default=30_000,
        ge=100,
        description="A client that takes no byte for this long is cut off; its buffers are ours.",
    )
    answers_waiting_bytes_max: Bytes = Field(
        default=256 * MiB,
        ge=MiB,
        description="Answers that wait for slow clients, together; above it pages are refused and event streams end.",
    )
    connections_max: Annotated[Count, Unit("connections")] = Field(
        default=24_000,
        ge=1,
        description="Open connections; leaves room for writers beside the waiters, below common file limits.",
    )
    header_bytes_max: Bytes = Field(
        default=32 * KiB, ge=4 * KiB, le=1 * MiB, description="All headers of a request together; beyond it 431."
    )
    header_wait_ms_max: Milliseconds = Field(
        default=10_000,
        ge=100,
        description="Longest a connection may take to send its headers, against clients that send them byte by byte.",
    )
    keep_alive_ms: Milliseconds = Field(
        default=75_000,
        ge=0,
        description="An idle connection is kept this long, above the usual 60 s of proxies, so that they close first.",
    )

    # --- the disk and the end ---

    expiry_sweep_ms: Milliseconds = Field(
        default=1000,
        ge=10,
        description="How often expired streams are collected; an expired stream is never served, swept or not.",
    )
    disk_floor_bytes: Bytes = Field(
        default=256 * MiB,
        ge=0,
        description="Appends stop with 503 when the disk has less than this free, so that SQLite can still clean up.",
    )
    sqlite_cache_bytes: Bytes = Field(
        default=16 * MiB, ge=1 * MiB, description="Page cache of the writer's connection."
    )
    sqlite_wal_grown_bytes: Bytes = Field(
        default=32 * MiB,
        ge=0,
        description="An unused WAL file is grown to this at start, 0 for not: an fsync of a growing file costs more.",
    )
    sqlite_checkpoint_bytes: Bytes = Field(
        default=16 * MiB,
        ge=64 * KiB,
        description="WAL size at which a checkpoint runs beside the commits; half of the grown file leaves it room.",
    )
    shutdown_grace_ms: Milliseconds = Field(
        default=10_000,
        ge=0,
        description="Time for open requests to end after SIGTERM; what is committed by then is answered.",
    )

    @property
    def objects_folder(self) -> Path:
        return self.object_store_folder or self.data / "objects"

    @override
    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Values only: `load_settings` layers the sources, as it must know which one a bad value came from."""
        return (init_settings,)

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        clashes = list(clashes_of(self))
        if clashes:
            text = "; ".join(f"{clash.names[0]}: {clash.problem}" for clash in clashes)
            raise PydanticCustomError(CLASH_ERROR, "{text}", {"text": text, "clashes": clashes})
        return self
