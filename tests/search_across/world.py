"""Streams of a bucket, what a search of all of them says, and what the plain evaluator says of their entries."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from search.engine import sort_of
from search.engine.sorting import place_of
from search.language import has_text, query, scorer
from streams_node.searching.hits import values_of
from streams_node.testing.inprocess import InProcess
from tests.http.wire import Reply, ask
from tests.search.world import CONFIG, JSON, append, create

BUCKET = "shop"


async def bucket(node: InProcess, names: Sequence[str], declared: dict[str, Any] | None = None) -> None:
    """A bucket with these streams, declared alike."""
    assert (await ask(node, "PUT", f"/{BUCKET}")).status == 201
    for name in names:
        await create(node, f"/{BUCKET}/{name}", declared)


async def put(node: InProcess, name: str, entries: Sequence[Any]) -> None:
    await append(node, entries, f"/{BUCKET}/{name}")


async def search(node: InProcess, form: str = "", **asked: Any) -> Reply:
    return await ask(node, "POST", f"/{BUCKET}/streams/_search{form}", JSON, json.dumps(asked).encode())


async def seen(node: InProcess, **asked: Any) -> dict[str, Any]:
    reply = await search(node, **asked)
    assert reply.status == 200, reply
    view: dict[str, Any] = json.loads(reply.body)
    return view


Found = tuple[str, int]


async def pages(node: InProcess, size: int, **asked: Any) -> list[tuple[Found, Any]]:
    """All hits, page by page: each with its stream and the `seq` of its source."""
    found: list[tuple[Found, Any]] = []
    after = None
    while True:
        view = await seen(node, size=size, search_after=after, **asked)
        coverage = view["coverage"]
        assert coverage["complete"], coverage
        assert coverage["incomplete"] == []
        found += [((hit["stream_id"], hit["source"]["seq"]), hit["source"]) for hit in view["hits"]]
        after = view["next_search_after"]
        if after is None:
            assert len(view["hits"]) < size
            assert view["total"] == {"value": len(view["hits"]), "relation": "eq"}
            return found
        assert len(view["hits"]) == size
        assert after == view["hits"][-1]["sort"]
        assert view["total"] == {"value": size, "relation": "gte"}


def expected(streams: Mapping[str, Sequence[Any]], q: str, sort: Sequence[str] = ()) -> list[Found]:
    """All entries that match, in their order; of an order by score, only those scores are right that count words."""
    plan = query(q, CONFIG)
    keys = sort_of(sort if sort or has_text(plan) else ["at"], plan, CONFIG)
    score, place, values = scorer(plan, 1), place_of(keys), values_of(keys, 1)
    hits = [
        (place(values(entry, seq, said)), name, seq)
        for name, entries in streams.items()
        for seq, entry in enumerate(entries)
        if (said := score(entry)) is not None
    ]
    return [(name, seq) for _, name, seq in sorted(hits)]
