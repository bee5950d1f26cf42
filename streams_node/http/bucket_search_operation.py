"""What the search of a bucket takes and gives, in words: a part of search_operation.py."""

from collections.abc import Mapping

from streams_node.http.operation import Answer, Operation, Schema


def bucket_operation(body: Schema, headers: str) -> Operation:
    """As a search of one stream, with one more member."""
    streams = {
        "type": "string",
        "minLength": 1,
        "default": "*",
        "description": "Ids of streams: `*` stands for any text, none included. The node's own are never meant.",
    }
    return Operation(
        "A page of the entries of a bucket's streams that match a query, in one order; equal hits are in the order "
        "of the ids. The first 1000 streams are searched; others, and those that there was no time for, are counted "
        "in `coverage.streams`. All of them together examine `search_scan_bytes_max`. A stream that cannot be asked "
        "this is counted as `not_searchable`; when no stream can be, the answer is 400. It does not restart the "
        "window of `Stream-TTL`.",
        "",
        (
            Answer(200, "The page.", headers, "view"),
            Answer(408, "The time was over: the same body, with what was found so far.", headers, "view"),
        ),
        "bad_request not_found overloaded payload_too_large",
        takes={**body, "properties": {"streams": streams, **_properties(body)}},
    )


def _properties(body: Schema) -> Mapping[str, object]:
    found = body["properties"]
    assert isinstance(found, dict)  # noqa: S101 - it is the schema of an object
    return found


def bucket_fields(coverage: Mapping[str, str], hit: Mapping[str, str], explain: Mapping[str, str]) -> Mapping[
    str, Mapping[str, str]
]:  # fmt: skip
    """The words for its answer: where they are those of one stream's, numbers are added up over the streams."""
    alike = {name: text for name, text in coverage.items() if name not in _OF_ONE_STREAM}
    return {
        "BucketSearchView": {
            "bucket_id": "The bucket.",
            "streams": "The pattern.",
            "took_ms": "How long the answer took, in milliseconds.",
            "timed_out": "Whether the time was over before all was looked at.",
            "timeout_ms": "The time that it had.",
            "coverage": "What the answer rests on.",
            "total": "How many hits there are.",
            "hits": "The hits, in their order.",
            "next_search_after": "To be sent as `search_after` for the next page; null when there is none.",
            "explain": "Where the time went, stream by stream, if that was asked for.",
        },
        "BucketSearchStreams": {
            "matched": "Streams that the pattern means.",
            "relation": "`gte` when there were too many ids to look at all of them, else `eq`.",
            "searched": "How many of them were searched.",
            "not_searchable": "How many cannot be asked this: their schema does not say what is searched, or not that.",
            "failed": "How many could not be searched for another reason; the node's log says which.",
            "left_out": "How many were too many, or not reached in time. Their entries are in no other number here.",
        },
        "BucketSearchGap": {
            "stream_id": "The id of the stream.",
            **{name: coverage[name] for name in ("stream_head_offset", "visible_through_offset",
                                                 "possible_missing_events_upper_bound", "omitted")},
        },
        "BucketSearchCoverage": {
            **alike,
            "complete": "Whether all streams were searched, and all of each was looked at or ruled out.",
            "streams": "Which streams it is about.",
            "peak_hits_held": "Hits of one stream that were in memory at once, at most.",
            "incomplete": "The streams of which something was left out, in the order of their ids.",
        },
        "BucketSearchHit": {"stream_id": "The stream that the entry is in.", **hit,
                            "sort": f"{hit['sort']} The last one is the id of the stream."},
        "BucketSearchStream": {
            "stream_id": "The stream.",
            "snapshot_end_offset": "Its end as it was searched.",
            **explain,
        },
    }  # fmt: skip


_OF_ONE_STREAM = (
    "stream_head_offset", "visible_through_offset", "visible_through_primary_timestamp_max", "omitted",
)  # fmt: skip
