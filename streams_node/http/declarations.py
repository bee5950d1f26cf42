"""What a stream is declared to be, as JSON Schema of the bodies that say so: for the interface's description."""

from typing import Any

REGISTRY_UPDATE: dict[str, Any] = {
    "type": "object",
    "description": "At least one of `schema`, `routingKey` and `search`.",
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "durable.streams/schema-registry/v1"},
        "schema": {"type": ["object", "boolean"], "description": "A JSON Schema, draft-07, without `$ref`."},
        "lens": {
            "type": "object",
            "description": "From the current version to the next one; see the manual's page on schemas.",
            "required": ["apiVersion", "schema", "from", "to", "ops"],
            "properties": {
                "apiVersion": {"const": "durable.lens/v1"},
                "schema": {"type": "string"},
                "from": {"type": "integer"},
                "to": {"type": "integer"},
                "description": {"type": "string"},
                "ops": {"type": "array", "minItems": 1, "items": {"type": "object"}},
            },
        },
        "routingKey": {
            "type": ["object", "null"],
            "required": ["jsonPointer", "required"],
            "properties": {"jsonPointer": {"type": "string"}, "required": {"type": "boolean"}},
        },
        "search": {"type": ["object", "null"]},
    },
}

SCHEMA_CHECK: dict[str, Any] = {
    "type": "object",
    "required": ["update"],
    "additionalProperties": False,
    "properties": {
        "update": REGISTRY_UPDATE,
        "entries": {"type": "array", "maxItems": 100, "description": "Entries to hold against it."},
    },
}

PROFILE_UPDATE: dict[str, Any] = {
    "type": "object",
    "required": ["profile"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "durable.streams/profile/v1"},
        "profile": {
            "type": "object",
            "description": "What comes with a kind is on the manual's page on profiles.",
            "required": ["kind"],
            "additionalProperties": False,
            "properties": {
                "kind": {"enum": ["evlog", "generic", "metrics", "otel-traces", "state-protocol"]},
                "redactKeys": {"type": "array", "items": {"type": "string"}, "maxItems": 64},
                "correlation": {"type": "object"},
                "observability": {"type": "object"},
            },
        },
    },
}
