"""What an aggregation takes and gives, in words: a part of operations.py."""

from collections.abc import Mapping

from streams_node.http.aggregate_wanted import AGGS_MAX, DEPTH_MAX, PERCENTS, PERCENTS_MAX, SIZE, SIZE_MAX
from streams_node.http.operation import Answer, Operation, Schema

_MOMENT: Schema = {"type": ["string", "number"], "description": "A date; digits in a text are Unix nanoseconds, a "
                   "number is Unix milliseconds. What is finer than a millisecond is cut."}  # fmt: skip
_NAMES: Schema = {"type": ["array", "null"], "items": {"type": "string"}}
_FIELD: Schema = {"type": "string", "description": "An aggregatable field, or an alias of one."}
_KINDS: Mapping[str, Mapping[str, Schema]] = {
    "terms": {
        "field": _FIELD,
        "size": {"type": "integer", "minimum": 1, "maximum": SIZE_MAX, "default": SIZE},
    },
    "date_histogram": {
        "field": _FIELD,
        "interval": {"type": "string", "description": "`<integer>` and `ms`, `s`, `m`, `h` or `d`."},
    },
    "stats": {"field": _FIELD},
    "percentiles": {
        "field": _FIELD,
        "percents": {
            "type": "array",
            "items": {"type": "number", "minimum": 0, "maximum": 100},
            "maxItems": PERCENTS_MAX,
            "default": list(PERCENTS),
        },
    },
}
_AGGS: Schema = {
    "type": "object",
    "description": f"Aggregations by name, {AGGS_MAX} at most: each has one of the kinds, and `aggs` of its own below "
    f"`terms` and `date_histogram`, {DEPTH_MAX} levels deep.",
    "additionalProperties": {
        "type": "object",
        "properties": {
            **{kind: {"type": "object", "properties": members} for kind, members in _KINDS.items()},
            "aggs": {"type": "object"},
        },
    },
}
_BODY: Schema = {
    "type": "object",
    "properties": {
        "rollup": {"type": "string", "description": "One of the stream's `search.rollups`. Either this or `aggs`."},
        "from": _MOMENT,
        "to": _MOMENT,
        "interval": {"type": "string", "description": "One of the rollup's `intervals`, letter by letter."},
        "q": {"type": ["string", "null"], "description": "Only records that match this query."},
        "group_by": {**_NAMES, "description": "Dimensions of the rollup."},
        "measures": {**_NAMES, "description": "Measures of the rollup; all of them by default."},
        "aggs": _AGGS,
        "timeout_ms": {"type": "number", "minimum": 0, "description": "How long the answer may take: 3000 at most."},
    },
}
_AGGREGATE = Operation(
    "What the records of a stream add up to. By a `rollup` of its `search`: in windows of time [from, to); windows at "
    "the edges have only what lies in that range. By `aggs`: terms, windows, sums and percentiles of any aggregatable "
    "fields; `from` and `to` are of the primary timestamp, and may be left out. It has at least what was acknowledged "
    "before it was asked: indexes answer for what they cover, everything else is counted record by record, within "
    "`search_scan_bytes_max` and the time. What was left out is in no window, and counted in `coverage`.",
    "",
    (
        Answer(200, "The windows, or what was asked for in `aggs`.", "Cache-Control", "view"),
        Answer(408, "The time was over: the same body, without what was left out.", "Cache-Control", "view"),
    ),
    "bad_request not_found overloaded payload_too_large",
    takes=_BODY,
)
AGGREGATE_OPERATIONS: Mapping[str, Operation] = {
    "sub.aggregate": _AGGREGATE,
    "bucket.sub.aggregate": _AGGREGATE,
}

AGGREGATE_FIELDS: Mapping[str, Mapping[str, str]] = {
    "AggregateView": {
        "stream": "The name of the stream, as in its `/v1` path.",
        "rollup": "The rollup that was asked for.",
        "from": "From this moment on,",
        "to": "and before this one. Null where `aggs` were asked for without.",
        "interval": "The length of a window.",
        "coverage": "What the answer rests on.",
        "buckets": "The windows that have something, by time.",
        "matched": "With `aggs`: how many records it is about.",
        "inexact": "With `aggs`: how many of them an index holds only roughly, and were too many to be read. Mostly 0.",
        "aggs": "With `aggs`, by the names that were asked for. Of `terms` the `buckets`, each with a `key` and a "
        "`count`, how often a record has an `other` value, and by how much a count may be wrong: `error_bound`, mostly "
        "0. Of `date_histogram` the `buckets`, each with `start`, `end` and `count`. Of `stats` `count`, `sum`, `min`, "
        "`max` and `avg`. Of `percentiles` the `values` by percent, and whether they are `approximate`. What was asked "
        "for inside of buckets is in their `aggs`.",
    },
    "AggregateBucket": {
        "start": "Where the window begins: a multiple of the interval since 1970.",
        "end": "Where it ends. At the edges of the range it has only what lies in the range.",
        "groups": "What it adds up to, a group for each combination of values, by the JSON text of the key.",
    },
    "AggregateGroup": {
        "key": "The values of `group_by`: as an exact index spells them, or null.",
        "measures": "By name: of a count `count`; of a summary `count`, `sum`, `min`, `max`, `avg`, `p50`, `p95` and "
        "`p99`, and the `histogram` that these come from.",
    },
    "AggregateCoverage": {
        "mode": "`complete`, or `published` when something was left out.",
        "complete": "Whether all of the stream was counted.",
        "stream_head_offset": "The end of the stream as the counting began.",
        "visible_through_offset": "Everything before it was counted; the head when nothing was left out.",
        "visible_through_primary_timestamp_max": "Null: rollups do not know it.",
        "oldest_omitted_append_at": "When the oldest entry that was left out was appended. Of a sealed one, when the "
        "oldest entry of its object was. Null when nothing was left out.",
        "possible_missing_events_upper_bound": "How many entries were left out.",
        "possible_missing_uploaded_segments": "In how many sealed objects some of them are.",
        "possible_missing_sealed_rows": "0: what is sealed and not in the bucket yet counts as a part of the log.",
        "possible_missing_wal_rows": "How many of them are in the log only.",
        "used_rollups": "Whether windows of a rollup were used.",
        "indexed_segments": "Indexed stretches that an index answered for.",
        "scanned_segments": "Sealed objects whose entries were counted one by one.",
        "scanned_tail_docs": "Entries of the log that were.",
        "index_families_used": "`agg` when a rollup was used, `mblk` when metric blocks were, `col` when columns were.",
        "omitted": "The stretches that were left out: each from one offset to another. No window has them.",
    },
}
