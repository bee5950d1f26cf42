"""Searches of a node in this process, and what the plain evaluator says of the same entries."""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from search.engine import sort_of
from search.engine.sorting import place_of
from search.language import query, scorer
from streams_node.schema.search_config import parse
from streams_node.searching.hits import values_of
from streams_node.testing.inprocess import InProcess
from tests.http.wire import Reply, ask

JSON = {"content-type": "application/json"}
A = "/v1/stream/a"


def field(kind: str, name: str, **flags: Any) -> dict[str, Any]:
    more = {"analyzer": "unicode_word_v1"} if kind == "text" else {}
    return {"kind": kind, "bindings": [{"version": 1, "jsonPointer": f"/{name}"}], **more, **flags}


SEARCH: dict[str, Any] = {
    "primaryTimestampField": "at",
    "aliases": {"lvl": "level"},
    "defaultFields": [{"field": "text", "boost": 2}, {"field": "title"}],
    "fields": {
        "at": field("date", "at", column=True, exists=True, exact=True),
        "level": field("keyword", "level", exact=True, prefix=True, sortable=True, normalizer="lowercase_v1"),
        "status": field("integer", "status", exact=True, column=True, sortable=True),
        "dur": field("float", "dur", column=True, sortable=True),
        "ok": field("bool", "ok", column=True, sortable=True),
        "text": field("text", "text", positions=True),
        "title": field("text", "title"),
    },
}
DECLARED: dict[str, Any] = {"schema": {"type": "object"}, "search": SEARCH}
CONFIG = parse(SEARCH)


async def create(node: InProcess, path: str = A, declared: dict[str, Any] | None = None) -> None:
    assert (await ask(node, "PUT", path, JSON)).status in {200, 201}
    body = json.dumps(DECLARED if declared is None else declared).encode()
    reply = await ask(node, "POST", f"{path}/_schema", JSON, body)
    assert reply.status == 200, reply


async def append(node: InProcess, entries: Sequence[Any], path: str = A) -> None:
    reply = await ask(node, "POST", path, JSON, json.dumps(entries).encode())
    assert reply.status == 204, reply


async def post(node: InProcess, path: str = A, **asked: Any) -> Reply:
    return await ask(node, "POST", f"{path}/_search", JSON, json.dumps(asked).encode())


async def get(node: InProcess, path: str = A, **asked: str) -> Reply:
    return await ask(node, "GET", f"{path}/_search?{urlencode(asked, quote_via=quote)}")


async def found(node: InProcess, path: str = A, **asked: Any) -> dict[str, Any]:
    reply = await post(node, path, **asked)
    assert reply.status == 200, reply
    view: dict[str, Any] = json.loads(reply.body)
    return view


def expected(entries: Sequence[Any], q: str, sort: Sequence[str] = ()) -> list[int]:
    """The sequences of all entries that match, in their order; scores as the plain evaluator has them."""
    plan = query(q, CONFIG)
    keys = sort_of(sort, plan, CONFIG)
    score, place, values = scorer(plan, 1), place_of(keys), values_of(keys, 1)
    hits = [(place(values(entry, seq, said)), seq) for seq, entry in enumerate(entries)
            if (said := score(entry)) is not None]  # fmt: skip
    return [seq for _, seq in sorted(hits)]
