"""What a profile installs with itself: a schema, a routing key, and what can be searched.

Plain documents, as a client would send them to `_schema`; each call makes new ones.
"""

from typing import Any

from streams_node.profiles.evlog import LEVELS, MEMBERS
from streams_node.profiles.metrics import API_VERSION

Document = dict[str, Any]
_KEYWORD = "exact prefix exists sortable"
_TYPED = "exact column exists sortable"


def evlog() -> Document:
    """The update of the registry that goes with `evlog`."""
    return {"schema": _evlog_schema(), "search": _evlog_search()}


def metrics() -> Document:
    """The update of the registry that goes with `metrics`."""
    return {
        "schema": metrics_schema(),
        "routingKey": {"jsonPointer": "/seriesKey", "required": True},
        "search": _metrics_search(),
    }


def _closed(properties: Document) -> Document:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


# --- evlog ----------------------------------------------------------------------------------------------------------


def _evlog_schema() -> Document:
    said: Document = {"type": ["string", "null"]}
    known: Document = {
        "timestamp": {"type": "string"},
        "level": {"type": "string", "enum": list(LEVELS)},
        "status": {"type": ["integer", "null"]},
        "duration": {"type": ["number", "null"]},
        "sampling": {"type": ["object", "null"]},
        "redaction": _closed({"keys": {"type": "array", "items": {"type": "string"}}}),
        "context": {"type": "object"},
    }
    return _closed({name: known.get(name, dict(said)) for name in MEMBERS})


def _evlog_search() -> Document:
    fields: Document = {"timestamp": _field("date", "/timestamp", f"{_TYPED} aggregatable")}
    for name in ("level", "service", "environment", "method"):
        fields[name] = _field("keyword", f"/{name}", f"{_KEYWORD} aggregatable", lowercase=True)
    for name in ("requestId", "traceId", "spanId"):
        fields[name] = _field("keyword", f"/{name}", _KEYWORD)
    fields["path"] = _field("keyword", "/path", f"{_KEYWORD} aggregatable")
    fields["status"] = _field("integer", "/status", f"{_TYPED} aggregatable")
    fields["duration"] = _field("float", "/duration", f"{_TYPED} aggregatable")
    for name in ("message", "why", "fix"):
        fields[name] = _field("text", f"/{name}", "exists positions")
    fields["error.message"] = _field("text", "/context/error/message", "exists positions")
    return {
        "profile": "evlog",
        "primaryTimestampField": "timestamp",
        "aliases": {
            "env": "environment", "msg": "message", "req": "requestId", "span": "spanId", "time": "timestamp",
            "trace": "traceId", "ts": "timestamp",
        },
        "defaultFields": [*_defaults(message=2, why=1.5, fix=1.25), {"field": "error.message", "boost": 2}],
        "fields": fields,
        "rollups": {
            # Two, because a record without a duration would be missing from every measure of a rollup that asks for it.
            "events": {
                "dimensions": ["service", "environment", "level"],
                "intervals": ["1m", "5m", "1h"],
                "measures": {"events": {"kind": "count"}, "errors": {"kind": "count", "include": "level:error"}},
            },
            "requests": {
                "dimensions": ["service", "environment", "method", "status"],
                "intervals": ["1m", "5m", "1h"],
                "measures": {
                    "requests": {"kind": "count"},
                    "latency": {"kind": "summary", "field": "duration", "histogram": "log2_v1"},
                },
            },
        },
    }  # fmt: skip


# --- metrics --------------------------------------------------------------------------------------------------------


def metrics_schema() -> Document:
    """The canonical interval; the node's own stream has this and nothing else."""
    counted: Document = {"type": "object", "additionalProperties": {"type": "number"}}
    labels: Document = {"type": "object", "additionalProperties": {"type": "string"}}
    numbers: Document = {
        "count": {"type": "number", "minimum": 0},
        "sum": {"type": "number"},
        "min": {"type": ["number", "null"]},
        "max": {"type": ["number", "null"]},
    }
    return _closed(
        {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": "interval"},
            **{name: {"type": "string"} for name in ("metric", "unit", "metricKind", "temporality")},
            **{name: {"type": "integer"} for name in ("windowStart", "windowEnd")},
            "intervalMs": {"type": "integer", "minimum": 0},
            **{name: {"type": ["string", "null"]} for name in ("instance", "stream")},
            "tags": labels,
            "attributes": labels,
            "dimensionPairs": {"type": "array", "items": {"type": "string"}},
            "dimensionKey": {"type": ["string", "null"]},
            "seriesKey": {"type": "string"},
            **numbers,
            **{name: {"type": "number"} for name in ("avg", "p50", "p95", "p99")},
            "buckets": counted,
            "summary": _closed({**numbers, "histogram": counted}),
        }
    )


def _metrics_search() -> Document:
    fields: Document = {
        "windowStart": _field("date", "/windowStart", f"{_TYPED} aggregatable"),
        "windowEnd": _field("date", "/windowEnd", _TYPED),
        "intervalMs": _field("integer", "/intervalMs", f"{_TYPED} aggregatable"),
    }
    for name in ("metric", "stream"):
        fields[name] = _field("keyword", f"/{name}", f"{_KEYWORD} aggregatable", lowercase=True)
    for name in ("unit", "metricKind", "temporality"):
        fields[name] = _field("keyword", f"/{name}", "exact prefix exists aggregatable", lowercase=True)
    for name in ("instance", "dimensionKey"):
        fields[name] = _field("keyword", f"/{name}", f"{_KEYWORD} aggregatable")
    fields["seriesKey"] = _field("keyword", "/seriesKey", "exact exists sortable")
    fields["dimensionPairs"] = _field("keyword", "/dimensionPairs", "exact prefix exists")
    fields["count"] = _field("integer", "/count", f"{_TYPED} aggregatable")
    fields["sum"] = _field("float", "/sum", f"{_TYPED} aggregatable")
    for name in ("min", "max", "avg", "p95", "p99"):
        fields[name] = _field("float", f"/{name}", _TYPED)
    return {
        "profile": "metrics",
        "primaryTimestampField": "windowStart",
        "aliases": {
            "ts": "windowStart", "time": "windowStart", "name": "metric", "dims": "dimensionKey",
            "series": "seriesKey",
        },
        "defaultFields": _defaults(metric=2, stream=1.25, dimensionPairs=1),
        "fields": fields,
        "rollups": {
            "metrics": {
                "timestampField": "windowStart",
                "dimensions": [
                    "metric", "unit", "stream", "instance", "dimensionKey", "metricKind", "temporality",
                ],
                "intervals": ["10s", "1m", "5m", "1h"],
                "measures": {
                    "value": {
                        "kind": "summary_parts",
                        "countJsonPointer": "/count",
                        "sumJsonPointer": "/sum",
                        "minJsonPointer": "/min",
                        "maxJsonPointer": "/max",
                        "histogramJsonPointer": "/buckets",
                    }
                },
            }
        },
    }  # fmt: skip


def _field(kind: str, pointer: str, flags: str, *, lowercase: bool = False) -> Document:
    return {
        "kind": kind,
        "bindings": [{"version": 1, "jsonPointer": pointer}],
        **({"normalizer": "lowercase_v1"} if lowercase else {}),
        **({"analyzer": "unicode_word_v1"} if kind == "text" else {}),
        **dict.fromkeys(flags.split(), True),
    }


def _defaults(**boosts: float) -> list[Document]:
    return [{"field": name, "boost": boost} for name, boost in boosts.items()]
