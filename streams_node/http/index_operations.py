"""What the routes of the indexes take and give, in words: a part of operations.py."""

from collections.abc import Mapping

from streams_node.http.operation import Answer, Operation, Schema

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer", "minimum": 0}
_CLAIM: Schema = {
    "type": "object",
    "required": ["driver"],
    "properties": {
        "driver": _TEXT,
        "wait_ms": {**_NUMBER, "default": 0},
        "bytes_max": {**_NUMBER, "default": 256 << 20},
    },
}
_RENEW: Schema = {
    "type": "object",
    "required": ["claim", "fence"],
    "properties": {"claim": _TEXT, "fence": _NUMBER, "done": {**_NUMBER, "default": 0}},
}
_OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
_COMMIT: Schema = {
    "type": "object",
    "required": ["claim", "fence", "objects"],
    "properties": {
        "claim": _TEXT,
        "fence": _NUMBER,
        "objects": _OBJECTS,
        "merged": {"type": "array", "items": {"type": "array", "items": _TEXT}, "default": []},
        "failed": {**_OBJECTS, "default": []},
    },
}
_REBUILD: Schema = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "families": {
            "type": "array",
            "items": {"enum": ["lexicon", "exact", "companion", "rollups", "metrics"]},
            "description": "Only these; none means all that the stream has.",
        },
        "anew": {"type": "boolean", "default": False, "description": "Forget first what is indexed."},
    },
}
_SEALED = "object_store_unavailable object_store_refused object_missing object_corrupt object_damaged"

INDEX_STATUS = Operation(
    "How far the indexes of a stream are behind what of it is sealed. With `live=long-poll` and the tag of the status "
    "that is known, the next other one is awaited; 304 when there is none in time.",
    "live timeout timeout_ms If-None-Match",
    (
        Answer(200, "The status.", "ETag Cache-Control", "view"),
        Answer(304, "The status is still one of `If-None-Match`.", "ETag Cache-Control"),
    ),
    f"bad_request not_found overloaded {_SEALED}",
)
INDEX_REBUILD = Operation(
    "Has all that is sealed and not indexed indexed now, however little it is; with `anew`, everything. Until then "
    "answers come from the entries themselves.",
    "",
    (Answer(202, "What will be indexed.", "Cache-Control", "view"),),
    f"bad_request not_found payload_too_large overloaded {_SEALED}",
    takes=_REBUILD,
)
INDEX_OPERATIONS: Mapping[str, Operation] = {
    "index.claim": Operation(
        "An index driver asks for work, and gets it under a lease: sealed objects to read, or index objects to merge. "
        "The manual's page on the index protocol describes the claim.",
        "",
        (
            Answer(200, "The claim.", "Cache-Control", "json"),
            Answer(204, "There is nothing to do, for so long.", "Cache-Control"),
        ),
        "bad_request payload_too_large overloaded",
        takes=_CLAIM,
    ),
    "index.renew": Operation(
        "Lengthens a lease.",
        "",
        (Answer(200, "The driver has it for `lease_ms` from now on.", "Cache-Control", "view"),),
        "bad_request payload_too_large lease_ended",
        takes=_RENEW,
    ),
    "index.commit": Operation(
        "Ends a claim with what came of it: index objects that are in the object store by now, and what each covers. "
        "All of it is taken, or nothing. It may be sent again.",
        "",
        (
            Answer(
                200, "It is indexed. `left_out` counts covers of what was deleted meanwhile.", "Cache-Control", "view"
            ),
        ),
        f"bad_request payload_too_large lease_ended index_refused overloaded {_SEALED}",
        takes=_COMMIT,
    ),
    "index.overview": Operation(
        "What there is to index, which drivers are at it, and which objects they could not use.",
        "",
        (Answer(200, "As of now.", "Cache-Control", "view"),),
        "",
    ),
}

INDEX_CODES: Mapping[str, str] = {
    "lease_ended": "The claim is over, or was another one's: nothing was stored. Claim again.",
    "index_refused": "A commit does not fit its claim, the object store, or what is indexed already; the message says "
    "how. Nothing was stored.",
}

_RUNS: Mapping[str, str] = {
    "indexed_segment_count": "Sealed parts of the stream that are indexed, from the first on without a gap.",
    "lag_segments": "Sealed parts behind these.",
    "lag_ms": "From the newest indexed entry to the newest of all, as text; null when nothing is indexed.",
    "bytes_at_rest": "What its share of the objects takes in the bucket, as text.",
    "object_count": "Objects that hold some of it.",
    "active_run_count": "Those of the configuration that is wanted.",
    "retired_run_count": "Those of a former one, which serve until that covers as much.",
    "fully_indexed_uploaded_segments": "Whether every sealed part is indexed.",
    "updated_at": "When the newest of the objects was committed.",
}
INDEX_FIELDS: Mapping[str, Mapping[str, str]] = {
    "IndexRenewedView": {"claim": "The claim.", "lease_ms": "For how long it is the driver's."},
    "IndexCommittedView": {
        "claim": "The claim.",
        "covers": "How many covers were stored.",
        "left_out": "How many were not: what they cover was deleted, or is to be indexed in another way by now.",
    },
    "IndexClaimView": {
        "driver": "Who has it.",
        "fence": "Its number.",
        "objects": "Objects to read or to make.",
        "done": "How many of them the driver says it has done.",
        "bytes": "Size of those to read.",
    },
    "IndexFailureView": {
        "object": "The end of its key.",
        "reason": "What the driver said.",
        "count": "How often.",
        "since": "The first time.",
    },
    "IndexingView": {
        "planned_streams": "Streams that have an index.",
        "due_streams": "Those with enough to index.",
        "due_entries": "How many entries these have that are sealed and not indexed.",
        "due_bytes": "About how many bytes.",
        "oldest_ms": "For how long the oldest of them has been waiting.",
        "asked": "Whether somebody has asked for some of it.",
        "claims": "Who is at work.",
        "failed": "Objects that could not be used. They are tried again, later each time.",
        "counts": "Since the start of the node.",
    },
    "IndexSegments": {
        "total_count": "Sealed parts of the stream: objects that hold some of its entries.",
        "uploaded_count": "Those in the bucket: all.",
    },
    "IndexManifest": {
        "generation": "Grows with whatever of the stream or its indexes is new in the bucket.",
        "uploaded_generation": "The same: the bucket is told with each generation of the catalogue.",
        "last_uploaded_at": "The time of the newest entry that is in the bucket.",
        "last_uploaded_etag": "Null: the catalogue is one for all streams.",
        "last_uploaded_size_bytes": "Null.",
    },
    "RunFamily": {"configured": "Whether the stream has it.", **_RUNS},
    "ExactIndex": {
        "name": "The field.",
        "kind": "Its kind.",
        **_RUNS,
        "stale_configuration": "Whether nothing is indexed yet as the field is declared now.",
    },
    "BundledCompanions": {
        name: _RUNS[name] for name in ("object_count", "bytes_at_rest", "fully_indexed_uploaded_segments")
    },
    "SearchFamilyStatus": {
        "family": "`exact`, `col`, `fts`, `agg` or `mblk`.",
        "fields": "What it is of.",
        "plan_generation": "How often the plan of the stream's indexes has changed.",
        "covered_segment_count": "Sealed parts that it covers.",
        "contiguous_covered_segment_count": "Those from the first on without a gap.",
        "stale_segment_count": "Those that only a former configuration covers.",
        **{
            name: _RUNS[name]
            for name in ("lag_segments", "lag_ms", "bytes_at_rest", "object_count", "fully_indexed_uploaded_segments",
                         "updated_at")
        },
    },
    "IndexStatusView": {
        "stream": "The name of the stream, as in its `/v1` path.",
        "profile": "The kind of its profile.",
        "desired_index_plan_generation": "How often the plan of its indexes has changed; 0 when it has none.",
        "segments": "Its sealed parts.",
        "manifest": "How far the bucket knows of it.",
        "routing_key_index": "Where a routing key is found.",
        "routing_key_lexicon": "Which routing keys there are: the same objects.",
        "exact_indexes": "Where a value of a field is found, by the names of the fields.",
        "bundled_companions": "What searches and sorts.",
        "search_families": "All that a search may use, in this order: exact, col, fts, agg, mblk.",
    },
    "RebuildView": {
        "stream": "The name of the stream, as in its `/v1` path.",
        "anew": "Whether it begins from nothing.",
        "entries": "Family -> how many entries will be indexed.",
    },
}  # fmt: skip
