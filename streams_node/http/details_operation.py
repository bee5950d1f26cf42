"""What `_details` takes and gives, in words: a part of operations.py."""

from collections.abc import Mapping

from streams_node.http.operation import Answer, Operation

_SEALED = "object_store_unavailable object_store_refused object_missing object_corrupt object_damaged"

DETAILS = Operation(
    "All that is known of a stream: itself, its profile and schema, how far its indexes are, what it takes in the "
    "object store and on the node's disk, and the requests that it caused. The tag tells of changes of the stream and "
    "its objects; no read moves it, so the counts of requests, the copies on disk and the end of a sliding window may "
    "differ under one tag. With `live=long-poll` and the tag that is known, the next other state is awaited; 304 when "
    "there is none in time. Changes that come faster than ten a second, or than a thousand answers a second, are "
    "told of together.",
    "live timeout timeout_ms If-None-Match",
    (
        Answer(200, "The details.", "ETag Cache-Control", "view"),
        Answer(304, "They still have a tag of `If-None-Match`.", "ETag Cache-Control"),
    ),
    f"bad_request not_found overloaded unavailable {_SEALED}",
)
PRODUCERS = Operation(
    "The producers of a stream, each with the newest of its requests that was accepted, in the order of the UTF-8 of "
    "their ids, page by page. What a page says is on disk.",
    "limit.producers after.producers",
    (Answer(200, "A page.", "Cache-Control", "view"),),
    "bad_request not_found gone outcome_unknown overloaded",
)

_REQUESTS: Mapping[str, str] = {
    "puts": "Writes, as text.",
    "reads": "`gets`, `heads` and `lists` together, as text.",
    "gets": "Reads of objects or parts of them, as text.",
    "heads": "Questions for an object's size, as text.",
    "lists": "Pages of keys, as text.",
    "deletes": "Deletions, as text.",
}
DETAILS_FIELDS: Mapping[str, Mapping[str, str]] = {
    "DetailsView": {
        "stream": "The stream itself.",
        "profile": "As `_profile` answers.",
        "schema": "As `_schema` answers.",
        "index_status": "As `_index_status` answers.",
        "storage": "What it takes, in bytes.",
        "object_store_requests": "Requests to the object store that were made for this stream alone.",
        "subscriptions": "Who is woken when it gets entries.",
    },
    "StreamSubscriptions": {
        "count": "Subscriptions that it is for.",
        "named": "Those that name it; the others have a pattern that it matches.",
        "first": "The first of them by their ids, a hundred at most.",
    },
    "StreamSubscription": {
        "id": "Its id.",
        "type": "`webhook` or `pull-wake`.",
        "named": "Whether it names the stream.",
    },
    "StreamDetails": {
        "name": "`stream`, or `bucket/stream` outside the bucket `_default`.",
        "content_type": "The type of its entries.",
        "profile": "The kind of its profile.",
        "created_at": "When it was created.",
        "updated_at": "When it was appended to last, or created.",
        "expires_at": "When it ends if nothing restarts its window; null when it does not. Reads restart it, and no "
        "tag tells of that.",
        "ttl_seconds": "The length of that window; null when it has none.",
        "stream_seq": "The newest `Stream-Seq`; null when none was sent.",
        "closed": "Whether it is closed.",
        "epoch": "The epoch of its next entry.",
        "epochs": "All of its epochs, in order: the offset after an entry carries that of the entry.",
        "earliest_offset": "The number of its oldest entry that is still part of it, as text; 0 when none was trimmed.",
        "next_offset": "How many entries it has had, as text. This is a number, and no offset to read from.",
        "sealed_through": "The number of its newest entry that is in a sealed object; `-1` when none is.",
        "uploaded_through": "The same in the object store: what is sealed counts once it is uploaded.",
        "segment_count": "Objects that hold some of its entries. Of a fork: of its own ones, here and below.",
        "uploaded_segment_count": "Those in the object store: all.",
        "pending_rows": "Entries that are in the log alone.",
        "pending_bytes": "Their size.",
        "total_size_bytes": "Size of all entries that are still part of it. Of an object that was trimmed in its "
        "middle, or of a pack in a trimmed stream, in proportion to the entries.",
        "wal_rows": "The same as `pending_rows`: the log lets go of what is in the object store.",
        "wal_bytes": "The same as `pending_bytes`.",
        "last_append_at": "The time of its newest append, or of its creation.",
        "last_segment_cut_at": "The time of the newest entry in its newest object; null when it has none.",
        "forked_from": "Whose beginning it shares; null when it is no fork. Sizes and objects are of its own entries.",
    },
    "ForkDetails": {
        "stream": "The stream that it was forked from, which may be gone by now.",
        "first_own_offset": "The number of the first entry that is its own, as text.",
    },
    "EpochDetails": {
        "epoch": "The epoch.",
        "first_offset": "The number of its first entry, as text.",
    },
    "StorageDetails": {
        "object_storage": "In the object store. Of an object that holds several streams, this one's share.",
        "local_storage": "On the node's disk.",
        "companion_families": "Its share of index objects, by what they are for.",
    },
    "ObjectStorage": {
        "total_bytes": "`segments_bytes`, `indexes_bytes` and `manifest_and_meta_bytes` together.",
        "segments_bytes": "Of sealed entries.",
        "indexes_bytes": "Of index objects, each counted once.",
        "manifest_and_meta_bytes": "`manifest_bytes`, where known, and `schema_registry_bytes`.",
        "manifest_bytes": "Null: the catalogue is one for all streams.",
        "schema_registry_bytes": "Of its declarations in the catalogue.",
        "segment_object_count": "Objects with sealed entries.",
        "routing_index_object_count": "Objects that find routing keys.",
        "routing_lexicon_object_count": "Objects that list routing keys: the same ones.",
        "exact_index_object_count": "Objects that find values of fields.",
        "bundled_companion_object_count": "Objects for searches, rollups and metrics.",
    },
    "LocalStorage": {
        "total_bytes": "`wal_retained_bytes`, `pending_sealed_segment_bytes` and the five caches together.",
        "wal_retained_bytes": "Entries in the log.",
        "pending_tail_bytes": "Those that are not sealed.",
        "pending_sealed_segment_bytes": "0: what is sealed and not uploaded yet counts as a part of the log.",
        "segment_cache_bytes": "Copies of sealed entries.",
        "routing_index_cache_bytes": "0: the lexicon serves for it.",
        "exact_index_cache_bytes": "Copies of indexes of values.",
        "lexicon_index_cache_bytes": "Copies of indexes of routing keys.",
        "companion_cache_bytes": "Copies of companions, rollups and metrics.",
        "sqlite_shared_total_bytes": "The database of all streams together; it is not in the total.",
    },
    "CompanionFamilies": {
        "exact_bytes": "Values of fields.",
        "col_bytes": "Columns.",
        "fts_bytes": "Words.",
        "agg_bytes": "Rollups.",
        "mblk_bytes": "Metrics.",
    },
    "ProducersView": {
        "stream": "`stream`, or `bucket/stream` outside the bucket `_default`.",
        "count": "How many producers the stream has, on all pages.",
        "producers": "Those of this page.",
        "next_after": "To be sent as `after` for the next page; null on the last one.",
    },
    "ProducerView": {
        "id": "Its `Producer-Id`.",
        "epoch": "Its epoch.",
        "seq": "The number of its newest request in that epoch.",
        "next_offset": "How many entries the stream had right after that request, as text. No offset to read from.",
        "last_append_at": "The time of that request; null when its entry is trimmed, or cannot be found now.",
        "last_append_exact": "Whether it is the time of that request. When the entry has left the log, the newest time "
        "in the sealed object that holds it is shown: the request was then, or before.",
    },
    "StoreRequests": {**_REQUESTS, "by_artifact": "The same by what they were for, in the order of the names."},
    "ArtifactRequests": {"artifact": "What they were for.", **_REQUESTS},
}
