"""The views of `_details`."""

import msgspec

from streams_node.http.index_view import IndexStatusView
from streams_node.http.profile import ProfileView
from streams_node.http.schemas import RegistryView


class EpochDetails(msgspec.Struct):
    epoch: int
    first_offset: str


class ForkDetails(msgspec.Struct):
    stream: str
    first_own_offset: str


class StreamDetails(msgspec.Struct):
    name: str
    content_type: str
    profile: str
    created_at: str
    updated_at: str
    expires_at: str | None
    ttl_seconds: int | None
    stream_seq: str | None
    closed: bool
    epoch: int
    epochs: list[EpochDetails]
    earliest_offset: str
    next_offset: str
    sealed_through: str
    uploaded_through: str
    segment_count: int
    uploaded_segment_count: int
    pending_rows: str
    pending_bytes: str
    total_size_bytes: str
    wal_rows: str
    wal_bytes: str
    last_append_at: str
    last_segment_cut_at: str | None
    forked_from: ForkDetails | None


class ObjectStorage(msgspec.Struct):
    total_bytes: str
    segments_bytes: str
    indexes_bytes: str
    manifest_and_meta_bytes: str
    manifest_bytes: str | None
    schema_registry_bytes: str
    segment_object_count: int
    routing_index_object_count: int
    routing_lexicon_object_count: int
    exact_index_object_count: int
    bundled_companion_object_count: int


class LocalStorage(msgspec.Struct):
    total_bytes: str
    wal_retained_bytes: str
    pending_tail_bytes: str
    pending_sealed_segment_bytes: str
    segment_cache_bytes: str
    routing_index_cache_bytes: str
    exact_index_cache_bytes: str
    lexicon_index_cache_bytes: str
    companion_cache_bytes: str
    sqlite_shared_total_bytes: str


class CompanionFamilies(msgspec.Struct):
    exact_bytes: str
    col_bytes: str
    fts_bytes: str
    agg_bytes: str
    mblk_bytes: str


class StorageDetails(msgspec.Struct):
    object_storage: ObjectStorage
    local_storage: LocalStorage
    companion_families: CompanionFamilies


class ArtifactRequests(msgspec.Struct):
    artifact: str
    puts: str
    gets: str
    heads: str
    lists: str
    deletes: str
    reads: str


class StoreRequests(msgspec.Struct):
    puts: str
    reads: str
    gets: str
    heads: str
    lists: str
    deletes: str
    by_artifact: list[ArtifactRequests]


class StreamSubscription(msgspec.Struct):
    id: str
    type: str
    named: bool


class StreamSubscriptions(msgspec.Struct):
    count: int
    named: int
    first: list[StreamSubscription]


class DetailsView(msgspec.Struct):
    stream: StreamDetails
    profile: ProfileView
    schema: RegistryView
    index_status: IndexStatusView
    storage: StorageDetails
    object_store_requests: StoreRequests
    subscriptions: StreamSubscriptions
