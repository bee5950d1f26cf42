"""One stream of more than 512 objects, with indexes that were merged twice: every family says what a scan says."""

import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from indexers.messages import StoreAt
from search.language import matcher, query
from streams_node.protocol.offsets import encode
from streams_node.testing.inprocess import InProcess
from tests.aggregate import world as aggregates
from tests.http.wire import ask
from tests.indexing.world import FakeDriver, append, create, desk_of, indexed, on_loop, rows, sealed
from tests.search.world import found
from tests.tiers.bucket import memory_bucket

PATH = aggregates.A
OBJECTS, ENTRIES = 528, 4  # as many entries in each
OBJECTS_A_CLAIM = 2  # so that 264 index objects of each family are made: 256 of them are one in the end
DECLARED: dict[str, Any] = aggregates.DECLARED | {"routingKey": {"jsonPointer": "/k", "required": False}}
LEVELS = """
SELECT family, max(level), count(*) FROM index_objects WHERE dead_us IS NULL AND covers > 0
 GROUP BY family ORDER BY family
"""
SETTINGS: dict[str, Any] = {
    "own_segment_bytes": 1, "segment_entries": ENTRIES, "stream_metrics_ms": 0, "publish_ms_min": 500,
}  # fmt: skip
QUERIES = ("level:error AND status:500", "text:only1029", "status:>=500 AND text:w3", "NOT level:info AND text:w5")
FIRST, LAST = aggregates.T0 + 61_300, aggregates.T0 + 900_200


def drawn(count: int) -> list[dict[str, Any]]:
    draw = random.Random(7)
    return [
        {
            "k": draw.choice(("a", "B", f"key-{number // 7}")), "at": aggregates.T0 + 500 * number,
            "level": draw.choice(("info", "warn", "error", "debug")), "status": draw.choice((200, 404, 500)),
            "ms": float(draw.randrange(1000)), "text": f"w{draw.randrange(9)} only{number} w{draw.randrange(9)}",
        }
        for number in range(count)
    ]  # fmt: skip


@pytest.mark.timeout(300)  # seconds where nobody else works
@on_loop
async def test_every_family_of_a_stream_of_528_objects_answers_as_a_scan_does(tmp_path: Path) -> None:
    entries = drawn(OBJECTS * ENTRIES)
    async with indexed(tmp_path / "node", memory_bucket(), **SETTINGS) as node:
        desk = desk_of(node)
        # Its driver is in this process, and reaches a store in memory: no disk is waited for.
        desk._parts = desk._parts._replace(store_at=StoreAt(kind="folder", folder=str(tmp_path)))
        await create(node, PATH, DECLARED)
        await append(node, PATH, entries)
        await sealed(node)
        assert await rows(node, "SELECT count(*) FROM objects WHERE dead_us IS NULL") == [(OBJECTS,)]
        await finish(node)
        families = ("companion", "exact", "lexicon", "rollups")
        assert await rows(node, LEVELS) == [(family, 2, 1 + 8) for family in families]
        await check_keys(node, entries)
        await check_searches(node, entries)
        await check_rollups(node, entries)


async def finish(node: InProcess) -> None:
    driver = FakeDriver(node)
    (size,) = (await rows(node, "SELECT max(bytes) FROM objects"))[0]
    while (claim := await driver.claim(bytes_max=OBJECTS_A_CLAIM * size)) is not None:
        assert (await driver.commit(driver.built(claim))).status == 200


async def check_keys(node: InProcess, entries: list[dict[str, Any]]) -> None:
    listed, after = list[str](), ""
    while True:
        page = json.loads((await ask(node, "GET", f"{PATH}/_routing_keys?limit=90{after}")).body)
        assert (page["coverage"]["complete"], page["coverage"]["indexed_segments"]) == (True, OBJECTS)
        listed += page["keys"]
        if page["next_after"] is None:
            break
        after = f"&after={quote(page['next_after'])}"
    assert listed == sorted({each["k"] for each in entries})
    for key in ("B", "key-0", "key-150", "key-301", "nobody"):
        assert await read(node, f"key={key}") == [each for each in entries if each["k"] == key]
    for text in ("level:error status:500", "status:404 level:WARN"):
        takes = matcher(query(text.replace(" ", " AND "), aggregates.CONFIG), 1)
        assert await read(node, f"filter={quote(text)}") == [each for each in entries if takes(each)]


async def read(node: InProcess, selection: str) -> list[Any]:
    got, offset = list[Any](), "-1"
    while True:
        reply = await ask(node, "GET", f"{PATH}?offset={offset}&{selection}")
        assert reply.status == 200, reply.body
        got += json.loads(reply.body)
        offset = reply.headers["stream-next-offset"]
        if "stream-up-to-date" in reply.headers:
            return got


async def check_searches(node: InProcess, entries: list[dict[str, Any]]) -> None:
    for text in QUERIES:
        takes = matcher(query(text, aggregates.CONFIG), 1)
        wanted = [number for number, each in enumerate(entries) if takes(each)]
        assert wanted
        view = await found(node, q=text, sort=["offset:asc"], size=500)
        assert (view["coverage"]["complete"], view["coverage"]["indexed_segments"]) == (True, OBJECTS)
        assert view["total"] == {"value": len(wanted), "relation": "eq"}
        assert [hit["offset"] for hit in view["hits"]] == [encode(0, number + 1) for number in wanted]


async def check_rollups(node: InProcess, entries: list[dict[str, Any]]) -> None:
    for interval in ("1s", "1m", "1h"):
        for group_by in ([], ["level"], ["status", "level"]):
            asked: dict[str, Any] = {"rollup": "req", "interval": interval, "group_by": group_by}
            asked |= {"begin": FIRST, "to": LAST}
            view = await aggregates.found(node, **asked)
            assert (view["coverage"]["complete"], view["coverage"]["used_rollups"]) == (True, True)
            assert aggregates.shown(view) == aggregates.recount(entries, asked)
