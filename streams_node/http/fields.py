"""What the fields of all answers mean, in words: a part of operations.py."""

from collections.abc import Mapping

from streams_node.http.aggregate_operation import AGGREGATE_FIELDS
from streams_node.http.details_operation import DETAILS_FIELDS
from streams_node.http.index_operations import INDEX_FIELDS
from streams_node.http.reserved import RESERVED_FIELDS
from streams_node.http.search_operation import SEARCH_FIELDS
from streams_node.http.server_operation import SERVER_FIELDS

# The fields of views, by the names of their classes.
FIELDS: Mapping[str, Mapping[str, str]] = {
    **DETAILS_FIELDS,
    **INDEX_FIELDS,
    **SEARCH_FIELDS,
    **AGGREGATE_FIELDS,
    **SERVER_FIELDS,
    "BucketView": {
        "bucket_id": "The bucket's id.",
        "streams": "How many streams it holds. One that has expired counts until it is collected.",
        "created_at_ms": "When it was created, in milliseconds since 1970.",
    },
    "BucketStream": {
        "stream_id": "The stream's id in the bucket.",
        "status": "`Open` or `Closed`.",
        "content_type": "The type of its entries.",
        "tail_offset": "How many entries it has had. This is a number, and no offset to read from.",
        "created_at_ms": "When it was created, in milliseconds since 1970.",
        "last_write_at_ms": "The time of its newest append, or of its creation.",
    },
    "BucketPage": {
        "bucket_id": "The bucket's id.",
        "prefix": "The prefix that was asked for.",
        "stream_count": "How many streams are on this page.",
        "streams": "The streams.",
        "next_cursor": "To be sent as `after` for the next page; null on the last one.",
        "has_more": "Whether there is a next page.",
    },
    "StreamView": {
        "name": "`stream`, or `bucket/stream` outside the bucket `_default`.",
        "created_at": "When it was created.",
        "expires_at": "When it ends if nothing restarts its window; null when it does not.",
        "epoch": "The epoch of its next entry.",
        "next_offset": "How many entries it has had, as a text. This is a number, and no offset to read from.",
        "sealed_through": "The number of its newest entry that is in a sealed object; `-1` when none is.",
        "uploaded_through": "The number of its newest entry that is in the object store; `-1` when none is. "
        "What is sealed counts once it is uploaded, so the two are the same here.",
        "profile": "The kind of its profile; `generic` where none was set.",
    },
    "SchemaCheckView": {
        "currentVersion": "The version that there would be.",
        "entries": "How many entries were held against it.",
        "refused": "Those that an append would be refused for.",
    },
    "RefusedView": {"index": "Its place among the entries, from 0.", "message": "What would be said of it."},
    "RegistryView": {
        "apiVersion": "`durable.streams/schema-registry/v1`.",
        "schema": "The name of the stream, as in its `/v1` path; lenses name it.",
        "currentVersion": "The version that new entries are validated by; 0 when there is none.",
        "routingKey": "Where the routing key of an entry stands; absent when it is not taken from entries.",
        "search": "What can be searched; absent when nothing can.",
        "boundaries": "Where each version begins, in ascending order.",
        "schemas": "The JSON Schema of each version.",
        "lenses": "The lens from each version to the next one, with its defaults filled in.",
    },
    "RoutingKeySource": {"kind": "`routing_key`.", "name": "Blank: a stream has one routing key."},
    "RoutingKeysCoverage": {
        "complete": "Whether no key is missing. Otherwise keys may be missing before and between those of the page.",
        "indexed_segments": "Sealed parts of the stream that the index covers, as they were when it was made.",
        "scanned_uploaded_segments": "Objects of the bucket whose keys were read for this answer.",
        "scanned_local_segments": "0: what is sealed and not in the bucket yet is read as a part of the log.",
        "scanned_wal_rows": "Entries of the log whose keys the answer rests on.",
        "possible_missing_uploaded_segments": "Objects of the bucket that are not indexed and were not read.",
        "possible_missing_local_segments": "0: the log is read whole.",
    },
    "RoutingKeysTiming": {
        "lexicon_run_get_ms": "Fetching parts of the index that were not on this node.",
        "lexicon_decode_ms": "Opening them.",
        "lexicon_enumerate_ms": "Finding the page in them.",
        "lexicon_merge_ms": "Putting it together with what is not indexed.",
        "fallback_scan_ms": "Reading the keys of a sealed object.",
        "fallback_segment_get_ms": "Fetching it.",
        "fallback_wal_scan_ms": "Reading the keys of the log.",
        "lexicon_runs_loaded": "Parts of the index that were asked.",
    },
    "RoutingKeysView": {
        "stream": "The name of the stream, as in its `/v1` path.",
        "source": "What the keys are of.",
        "took_ms": "How long the answer took.",
        "coverage": "What the answer rests on.",
        "timing": "What it took, in milliseconds.",
        "keys": "The keys, each once.",
        "next_after": "To be sent as `after` for the next page; null at the end. Where keys may be missing it comes "
        "with every page that has any.",
    },
    "RoutingKeyView": {
        "jsonPointer": "Where it stands in an entry.",
        "required": "Whether an entry without it is refused.",
    },
    "BoundaryView": {
        "offset": "The number of the first entry of the version.",
        "version": "The version.",
    },
    "ProfileView": {
        "apiVersion": "`durable.streams/profile/v1`.",
        "profile": "The kind and its configuration.",
    },
    "ProfileDocument": {
        "kind": "`generic`, `evlog` or `metrics`.",
        "redactKeys": "`evlog`: names of members that are redacted beside the usual ones, in lower case.",
        "correlation": "`evlog`: where ids are looked for.",
        "observability": "`evlog`: streams that belong to it.",
    },
    "CorrelationView": {
        "requestIdFields": "Dotted paths that may have the id of the request.",
        "traceContextFields": "Dotted paths that may have the ids of trace and span.",
        "parseTraceparent": "Whether a W3C `traceparent` is read.",
    },
    "FlushView": {
        "stream": "Bucket and id of the stream.",
        "flushed": "Whether everything up to `next_offset` is in the bucket.",
        "next_offset": "The end of the stream as the request came.",
        "generation": "The newest generation of the catalogue.",
    },
    **RESERVED_FIELDS,
    "Readiness": {
        "ready": "Whether writes are taken.",
        "reasons": "Why not; empty when they are.",
    },
}
