"""What the search of a stream takes and gives, in words: a part of operations.py."""

from collections.abc import Mapping

from streams_node.http.bucket_search_operation import bucket_fields, bucket_operation
from streams_node.http.operation import Answer, Operation, Schema

_TEXT: Schema = {"type": "string"}
_BODY: Schema = {
    "type": "object",
    "required": ["q"],
    "properties": {
        "q": {"type": "string", "description": "The query."},
        "size": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
        "sort": {
            "type": "array",
            "items": {"type": "string"},
            "description": "`field`, `offset` or `_score`, each with `:asc` or `:desc`; `desc` is the default.",
        },
        "search_after": {"type": ["array", "null"], "description": "The `next_search_after` of the page before."},
        "timeout_ms": {"type": "number", "minimum": 0, "maximum": 3000, "default": 3000},
        "explain": {"type": "boolean", "default": False, "description": "Say where the time went."},
        "highlight": {"type": "boolean", "default": False, "description": "Show what of a text matched."},
        "format": {"enum": ["json", "ndjson", "csv"], "default": "json"},
    },
}
SEARCH_OUTPUTS: Mapping[str, str] = {
    "Search-Timed-Out": "Whether the time was over before all was looked at.",
    "Search-Timeout-Ms": "The time that the search had.",
    "Search-Took-Ms": "The time that it took.",
    "Search-Total-Relation": "`eq` when the page has all that matches behind its beginning, else `gte`.",
    "Search-Coverage-Complete": "Whether everything of the stream was looked at, or could be ruled out.",
    "Search-Indexed-Segments": "Indexed stretches that were searched.",
    "Search-Indexed-Segment-Time-Ms": "And how long that took.",
    "Search-Fts-Section-Get-Ms": "How long it took to fetch and open indexes.",
    "Search-Fts-Decode-Ms": "How long it took to read what an index could not decide.",
    "Search-Fts-Clause-Estimate-Ms": "Always 0: clauses are not estimated.",
    "Search-Scanned-Segments": "Sealed objects whose entries were looked at one by one.",
    "Search-Scanned-Segment-Time-Ms": "And how long that took.",
    "Search-Scanned-Tail-Docs": "Entries of the log that were looked at, and others of late that are in memory.",
    "Search-Scanned-Tail-Time-Ms": "And how long that took.",
    "Search-Exact-Candidate-Time-Ms": "How long it took to ask exact indexes.",
    "Search-Candidate-Doc-Ids": "Entries that an index named.",
    "Search-Decoded-Records": "Records that were read and evaluated.",
    "Search-Json-Parse-Time-Ms": "How long that took, with the reading.",
    "Search-Segment-Payload-Bytes-Fetched": "Bytes of entries that were examined.",
    "Search-Sort-Time-Ms": "How long it took to put hits in order.",
    "Search-Peak-Hits-Held": "Hits that were in memory at once.",
    "Search-Index-Families-Used": "Which indexes were used, of `col`, `exact` and `fts`.",
}
_HEADERS = f"Cache-Control {' '.join(SEARCH_OUTPUTS)}"
_TEXT_OF_IT = (
    "A page of the entries that match a query: at least what was acknowledged before it was asked. Indexes answer for "
    "what they cover; the rest is looked through, within `search_scan_bytes_max` and the time. What was left out is "
    "counted in `coverage`."
)
_ANSWERS = (
    Answer(200, "The page.", _HEADERS, "view"),
    Answer(408, "The time was over: the same body, with what was found so far.", _HEADERS, "view"),
)
_CODES = "bad_request not_found overloaded"
SEARCH_GET = Operation(
    f"{_TEXT_OF_IT} `sort` may come several times.",
    "q.search size.search sort.search search_after.search timeout_ms.search explain.search highlight.search "
    "format.search",
    _ANSWERS,
    _CODES,
)
SEARCH = Operation(_TEXT_OF_IT, "", _ANSWERS, f"{_CODES} payload_too_large", takes=_BODY)
SEARCH_OPERATIONS: Mapping[str, Operation] = {
    "bucket.search": bucket_operation(_BODY, _HEADERS),
    **{
        f"{surface}sub.search{method}": operation
        for surface in ("", "bucket.")
        for method, operation in (("", SEARCH), (".get", SEARCH_GET))
    },
}

_FIELDS: Mapping[str, Mapping[str, str]] = {
    "SearchView": {
        "stream": "The name of the stream, as in its `/v1` path.",
        "snapshot_end_offset": "The end of the stream as the search began.",
        "took_ms": "How long the answer took, in milliseconds.",
        "timed_out": "Whether the time was over before all was looked at.",
        "timeout_ms": "The time that it had.",
        "coverage": "What the answer rests on.",
        "total": "How many hits there are.",
        "hits": "The hits, in their order.",
        "next_search_after": "To be sent as `search_after` for the next page, also where this one is short; "
        "null when fewer hits than `size` were found, and none was cut off.",
        "explain": "Where the time went, if that was asked for.",
    },
    "SearchTotal": {
        "value": "The hits on this page.",
        "relation": "`eq` when no more match behind the page's beginning, `gte` when they may.",
    },
    "SearchHit": {
        "offset": "The offset behind the entry: a read from it begins with the next one.",
        "score": "How well a text matches; 0 where the query has no text.",
        "sort": "Its values of the sort keys. Dates are milliseconds; what no double holds exactly is a text.",
        "fields": "The declared fields that it has, each with the value as it stands in the record.",
        "source": "The record, as the current schema has it.",
        "highlight": "If that was asked for: by field, pieces of the texts that matched, each with the places of the "
        "matches in its `text`: `marks`, from one character to before another.",
    },
    "SearchCoverage": {
        "mode": "`complete`, or `published` when something was left out.",
        "complete": "Whether all of the stream was looked at or ruled out. Otherwise hits may be missing.",
        "stream_head_offset": "The end of the stream as the search began.",
        "visible_through_offset": "Everything before it was looked at; the head when nothing was left out.",
        "visible_through_primary_timestamp_max": "The latest primary timestamp in the index; null if a part lacks it.",
        "oldest_omitted_append_at": "When the oldest entry that was left out was appended. Of a sealed one, when the "
        "oldest entry of its object was. Null when nothing was left out.",
        "possible_missing_events_upper_bound": "How many entries were left out.",
        "possible_missing_uploaded_segments": "In how many sealed objects some of them are.",
        "possible_missing_sealed_rows": "0: what is sealed and not in the bucket yet counts as a part of the log.",
        "possible_missing_wal_rows": "How many of them are in the log only.",
        "indexed_segments": "Indexed stretches that were searched.",
        "indexed_segment_time_ms": "How long that took.",
        "fts_section_get_ms": "Fetching and opening indexes.",
        "fts_decode_ms": "Reading what an index could not decide.",
        "fts_clause_estimate_ms": "0: clauses are not estimated.",
        "scanned_segments": "Sealed objects whose entries were looked at one by one.",
        "scanned_segment_time_ms": "How long that took.",
        "scanned_tail_docs": "Entries of the log that were looked at, and others of late that are in memory.",
        "scanned_tail_time_ms": "How long that took.",
        "exact_candidate_time_ms": "Asking exact indexes.",
        "candidate_doc_ids": "Entries that an index named.",
        "decoded_records": "Records that were read and evaluated.",
        "json_parse_time_ms": "How long that took, with the reading.",
        "segment_payload_bytes_fetched": "Bytes of entries that were examined.",
        "sort_time_ms": "Putting hits in order.",
        "peak_hits_held": "Hits that were in memory at once.",
        "index_families_used": "Of `col`, `exact` and `fts`, those that were used.",
        "omitted": "The stretches that were left out: each from one offset to another. No hit is of them, but for what "
        "an index had found when the time was up.",
    },
    "SearchExplain": {
        "waited_ms": "Waiting for a turn.",
        "index_ms": "Searching the index.",
        "scan_ms": "Looking through what is not indexed.",
        "records_ms": "Fetching the records of hits.",
        "opened": "Indexes in the view that the search used, also those that were open before.",
        "pruned": "Entries that an index has ruled out.",
        "scanned": "Entries that were looked at or ruled out without an index of their text.",
        "evaluated": "Records that were parsed and evaluated.",
    },
}
SEARCH_FIELDS: Mapping[str, Mapping[str, str]] = {
    **_FIELDS,
    **bucket_fields(_FIELDS["SearchCoverage"], _FIELDS["SearchHit"], _FIELDS["SearchExplain"]),
}
