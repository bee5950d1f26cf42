"""Makes the bodies that are sent: the same bytes in every run, for every server; pure.

The text is that of an application's log: it compresses about as well as real events do, so a server that compresses
gets neither the gift of one repeated body nor the burden of random bytes.
"""

import json
import random
from functools import lru_cache

SEED = 20_240_607
VARIANTS = 16  # different bodies per size, sent in turn
OBJECTS_PER_BATCH = 1_000
OBJECT_SIZE = 280  # without the comma: 281 bytes per object in a batch
BATCH_SIZE = OBJECTS_PER_BATCH * (OBJECT_SIZE + 1) + 1

SERVICES = ("checkout", "catalog", "search", "payments", "sessions", "shipping", "mailer", "gateway")
METHODS = ("GET", "GET", "GET", "POST", "PUT", "DELETE")
LEVELS = ("info", "info", "info", "info", "debug", "warn", "error")
STATUSES = (200, 200, 200, 201, 204, 304, 400, 404, 429, 500)
WORDS = (
    "order accepted cart updated payment declined retry scheduled cache missed row locked token refreshed page "
    "rendered upload finished worker started queue drained price changed stock reserved mail queued user signed in "
    "session expired rate limited index rebuilt shard moved lease renewed backup done slow query plan chosen"
).split()


@lru_cache(maxsize=8)
def bodies(size: int) -> tuple[bytes, ...]:
    """Make the byte bodies of one size: log lines, cut to length."""
    return tuple(_text(size, variant) for variant in range(VARIANTS))


@lru_cache(maxsize=1)
def batches() -> tuple[bytes, ...]:
    return tuple(json_batch(index) for index in range(VARIANTS))


def declaration() -> bytes:
    """What the objects of the batches are, and which of their members is the routing key: for servers with schemas."""
    text, count = {"type": "string"}, {"type": "integer", "minimum": 0}
    user = {"type": "object", "required": ["id", "plan"], "properties": {"id": text, "plan": text}}
    properties = {
        "n": count,
        "ts": {"type": "string", "minLength": 24},
        "level": {"enum": sorted(set(LEVELS))},
        "service": text,
        "trace": {"type": "string", "minLength": 32, "maxLength": 32},
        "user": user | {"additionalProperties": False},
        "method": {"enum": sorted(set(METHODS))},
        "status": count | {"maximum": 599},
        "ms": {"type": "number"},
        "message": text,
    }
    schema = {"type": "object", "required": sorted(properties), "properties": properties, "additionalProperties": False}
    return _compact({"schema": schema, "routingKey": {"jsonPointer": "/service", "required": True}})


def json_batch(index: int) -> bytes:
    """Make a JSON array of 1,000 objects, numbered on from `index * 1000` by their field `n`; always of one length."""
    source = _random("batch", index)
    first = index * OBJECTS_PER_BATCH
    return b"[" + b",".join(_object(source, first + position) for position in range(OBJECTS_PER_BATCH)) + b"]"


def _text(size: int, variant: int) -> bytes:
    source = _random("text", size, variant)
    lines, length = [], 0
    while length <= size:
        lines.append(f"{source.choice(LEVELS)} {source.choice(SERVICES)} {_hex(source, 16)} {_words(source, 8)}\n")
        length += len(lines[-1])
    return "".join(lines).encode()[:size]


def _object(source: random.Random, number: int) -> bytes:
    """Make one compact object; its numbers read the same in every JSON library, so re-serialising keeps its length."""
    event = {
        "n": number,
        "ts": f"2026-03-{source.randint(1, 28):02d}T{source.randint(0, 23):02d}:{source.randint(0, 59):02d}:00.000Z",
        "level": source.choice(LEVELS),
        "service": source.choice(SERVICES),
        "trace": _hex(source, 32),
        "user": {"id": f"u{source.randint(0, 99_999)}", "plan": source.choice(("free", "team", "pro"))},
        "method": source.choice(METHODS),
        "status": source.choice(STATUSES),
        "ms": source.randint(1, 4_000) + 0.5,
        "message": "",
    }
    room = OBJECT_SIZE - len(_compact(event))
    event["message"] = _words(source, 20)[:room].ljust(room, ".")
    return _compact(event)


def _compact(event: dict[str, object]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


def _words(source: random.Random, count: int) -> str:
    return " ".join(source.choices(WORDS, k=count))


def _hex(source: random.Random, digits: int) -> str:
    return f"{source.getrandbits(4 * digits):0{digits}x}"


def _random(*parts: str | int) -> random.Random:
    return random.Random(f"{SEED}:{parts}")  # noqa: S311 -- test data, the same in every run
