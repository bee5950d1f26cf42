"""GET and POST of `…/_schema`: the registry of a stream."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from search.language.planner import check_config
from streams_node.errors import InvalidDeclaration
from streams_node.http.context import Context
from streams_node.http.reply import Reply, SubRequest
from streams_node.ingest.declare import Decide, declare, standing_of
from streams_node.meaning import Facts, Standing
from streams_node.schema.errors import SchemaRefused
from streams_node.schema.registry import ABSENT, Update, evolved, parse_update
from streams_node.schema.search_config import SearchConfig, SearchConfigError

SCHEMA_BODY_BYTES_MAX = 1 << 20
_LARGE_BYTES = 16 << 10  # reading that much of an update takes about a millisecond
_LARGE_COMMON_BYTES = 1 << 20  # and to write the text of so large a registry


class RoutingKeyView(msgspec.Struct, rename="camel"):
    json_pointer: str
    required: bool


class BoundaryView(msgspec.Struct):
    offset: int
    version: int


class RegistryView(msgspec.Struct, rename="camel"):
    """As `Registry.document` makes it; handlers send that text."""

    api_version: str
    schema: str
    current_version: int
    boundaries: list[BoundaryView]
    schemas: dict[str, Any]
    lenses: dict[str, dict[str, Any]]
    routing_key: RoutingKeyView | UnsetType = UNSET
    search: dict[str, Any] | UnsetType = UNSET


async def read_schema(context: Context, request: SubRequest) -> Reply[RegistryView]:
    """The registry as it is stored; an empty one where nothing was ever declared."""
    state = await context.ledger.readable(request.name)
    meaning = state.tail_meaning
    if meaning is None:
        return Reply(200, None, standing_of(state, None).registry.encode())
    if meaning.problem is not None:
        raise meaning.problem
    encode = meaning.registry.encode
    if meaning.common.size < _LARGE_COMMON_BYTES:
        return Reply(200, None, encode())
    return Reply(200, None, await context.ledger.workshop.make(encode))


async def update_schema(context: Context, request: SubRequest) -> Reply[RegistryView]:
    """Change the registry. The answer is the whole of it, once it is stored."""
    await context.ledger.living(request.name)
    update = await parsed_update(context, request.body)
    declared = await declare(context.ledger, request.name, deciding(update))
    if declared.batch is not None:
        await declared.batch.settling
    return Reply(200, None, declared.standing.registry.encode())


def deciding(update: Update) -> Decide:
    """What an update makes of a stream."""

    def decide(before: Standing, facts: Facts) -> Standing:
        if update.schema is not ABSENT and not facts.is_json:  # it would refuse every append, and never be of use
            raise SchemaRefused(
                f"schema requires application/json stream content-type; this one is {facts.content_type}"
            )
        after = before._replace(registry=evolved(before.registry, update, facts.end))
        if isinstance(update.search, SearchConfig):
            check_search(update.search)
        return after

    return decide


def check_search(config: SearchConfig) -> None:
    """The one rule of a configuration that needs the query language."""
    try:
        check_config(config)
    except SearchConfigError as problem:
        raise SchemaRefused(str(problem)) from None


async def parsed_update(context: Context, body: bytes) -> Update:
    """The update that a body is, or what is wrong with it."""
    try:
        if len(body) < _LARGE_BYTES:
            return parse_update(body)
        return await context.ledger.workshop.make(lambda: parse_update(body))
    except SchemaRefused as refusal:
        raise InvalidDeclaration(str(refusal)) from None
