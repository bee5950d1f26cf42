"""One configuration with a field of every kind, and what tests need to ask it."""

from typing import Any


def field(kind: str, pointer: str, flags: str = "", **more: Any) -> dict[str, Any]:
    bound = {"kind": kind, "bindings": [{"version": 1, "jsonPointer": pointer}], **more}
    return bound | dict.fromkeys(flags.split(), True)


TEXT = {"analyzer": "unicode_word_v1"}
LOWER = {"normalizer": "lowercase_v1"}
CONFIG: dict[str, Any] = {
    "primaryTimestampField": "eventTime",
    "aliases": {"lvl": "level", "ts": "eventTime"},
    "defaultFields": [{"field": "message", "boost": 2}, {"field": "title"}],
    "fields": {
        "eventTime": field("date", "/eventTime", "exact column exists sortable"),
        "level": field("keyword", "/level", "exact prefix exists sortable", **LOWER),
        "service": field("keyword", "/service", "exact exists"),
        "status": field("integer", "/status", "exact column exists sortable"),
        "dur": field("float", "/dur", "exact column exists sortable aggregatable"),
        "ok": field("bool", "/ok", "exact column"),
        "tags": field("keyword", "/tags", "exact prefix"),
        "message": field("text", "/message", "exists positions", **TEXT),
        "title": field("text", "/title", **TEXT),
        # what each capability is refused without
        "plain": field("keyword", "/plain"),
        "only": field("keyword", "/only", "prefix"),
        "number": field("integer", "/number"),
        "exactly": field("integer", "/exactly", "exact"),
    },
    "rollups": {
        "req": {
            "dimensions": ["service"],
            "intervals": ["1m", "1h"],
            "measures": {
                "n": {"kind": "count"},
                "errs": {"kind": "count", "include": "ok:false"},
                "lat": {"kind": "summary", "field": "dur", "histogram": "log2_v1"},
            },
        }
    },
}
