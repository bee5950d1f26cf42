"""POST of `…/_schema/check`: what an update of a registry would do, without doing it."""

import msgspec

from streams_node.errors import InvalidRequest, StreamsError
from streams_node.http.context import Context
from streams_node.http.reply import Reply, SubRequest
from streams_node.http.schemas import deciding, parsed_update
from streams_node.ingest.append import bounds_of
from streams_node.ingest.declare import drafted
from streams_node.meaning import Bounds, Meaning, prepared

SCHEMA_CHECK_BODY_BYTES_MAX = 2 << 20  # an update as large as one may be, and entries
_ENTRIES_MAX = 100


class CheckRequest(msgspec.Struct, forbid_unknown_fields=True):
    update: msgspec.Raw
    entries: list[msgspec.Raw] = []


class RefusedView(msgspec.Struct):
    index: int
    message: str


class SchemaCheckView(msgspec.Struct, rename="camel"):
    current_version: int
    entries: int
    refused: list[RefusedView]


async def check_schema(context: Context, request: SubRequest) -> Reply[SchemaCheckView]:
    """Refuse what an update would be refused for; otherwise say which of some entries it would refuse."""
    asked = _asked(request.body)
    state = await context.ledger.readable(request.name)
    update = await parsed_update(context, bytes(asked.update))
    meaning = await drafted(context.ledger, state, deciding(update))
    bounds, now_us = bounds_of(context.ledger), context.ledger.now_us()
    refused = await context.ledger.workshop.check(lambda: _refused(meaning, asked.entries, now_us, bounds))
    return Reply(200, SchemaCheckView(meaning.version, len(asked.entries), refused))


def _asked(body: bytes) -> CheckRequest:
    try:
        asked = msgspec.json.decode(body, type=CheckRequest)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise InvalidRequest("the body", f"a JSON object with `update` and `entries`: {problem}") from None
    if len(asked.entries) > _ENTRIES_MAX:
        raise InvalidRequest("`entries`", f"at most {_ENTRIES_MAX} of them", len(asked.entries))
    return asked


def _refused(meaning: Meaning, entries: list[msgspec.Raw], now_us: int, bounds: Bounds) -> list[RefusedView]:
    """As an append of each alone would be."""
    found: list[RefusedView] = []
    for index, entry in enumerate(entries):
        done = prepared(meaning, b"[%b]" % bytes(entry), None, now_us, bounds)
        problem: StreamsError | None = done.wrong or done.refused
        if problem is not None:
            found.append(RefusedView(index, problem.message))
    return found
