"""What is found is what the plain evaluator finds, wherever the entries lie: in the log, sealed, indexed, or partly."""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streams_node.objects.keys import ObjectId, index_key
from streams_node.testing.inprocess import InProcess
from tests.http.wire import ask
from tests.indexing.world import FakeDriver, covered, indexed, on_loop, sealed
from tests.search.both_ways import both_ways  # noqa: F401 - each page on the loop or in a thread
from tests.search.world import DECLARED, JSON, A, append, create, expected, found, post
from tests.tiers.node import tiers_of

WORDS = ("card", "declined", "over", "payment", "naïve", "x")
QUERIES = (
    "card", '"card declined"', "level:error", "lvl:err*", "status:>=200 status:<500", "NOT level:error", "has:title",
    "card OR level:info", "card -declined", "dur:>1.5", "ok:true", 'at:>="2026-01-01T00:00:30Z"', "status:12",
    "pay*", "has:dur AND NOT ok:false", '"declined ov*"',
)  # fmt: skip
SORTS: tuple[list[str], ...] = (
    ["offset"], ["offset:asc"], ["at"], ["at:asc"], ["level:asc", "status"], ["dur", "ok:asc"],
    ["status:asc", "offset:asc"],
)  # fmt: skip


def entry(random: Random) -> dict[str, Any]:
    """A record in which anything may be missing, null, many, or of another kind."""
    made: dict[str, Any] = {
        "at": random.choice(
            [
                f"2026-01-01T00:00:{random.randrange(60):02}.{random.randrange(10**9):09}Z",
                random.randrange(10**12),
                None,
            ]
        ),
        "level": random.choice(["ERROR", "error", "info", "Warn", None, ["info", "ERROR"], 7]),
        "status": random.choice([12, 200, 404, 500, -1, "200", 2**62 + random.randrange(3), 2**70, "x", [404, 12]]),
        "dur": random.choice([0.5, 1.5, 2, 1e300, "3.25", None]),
        "ok": random.choice([True, False, "TRUE", None]),
        "text": random.choice(
            [" ".join(random.choices(WORDS, k=random.randrange(8))), ["card", "declined over"], None]
        ),
        "title": " ".join(random.choices(WORDS, k=3)),
        "n": random.randrange(1000),
    }
    return {name: value for name, value in made.items() if random.random() < 0.8}


async def pages(node: InProcess, q: str, sort: list[str], size: int) -> tuple[list[int], list[Any]]:
    """All hits, page by page; by the sequences of their sources."""
    seqs: list[int] = []
    sources: list[Any] = []
    after = None
    while True:
        view = await found(node, q=q, sort=sort, size=size, search_after=after)
        coverage = view["coverage"]
        assert coverage["complete"], coverage
        assert coverage["omitted"] == []
        seqs += [hit["source"]["seq"] for hit in view["hits"]]
        sources += [hit["source"] for hit in view["hits"]]
        after = view["next_search_after"]
        if after is None:
            assert len(view["hits"]) < size
            assert view["total"] == {"value": len(view["hits"]), "relation": "eq"}
            return seqs, sources


async def check(node: InProcess, entries: list[Any], random: Random, count: int) -> None:
    for q in random.sample(QUERIES, count):
        sort = random.choice(SORTS)
        seqs, sources = await pages(node, q, sort, random.choice([3, 7, 50, 500]))
        assert seqs == expected(entries, q, sort), (q, sort)
        assert sources == [entries[seq] for seq in seqs]
        view = await found(node, q=q, size=500)
        scores = [hit["score"] for hit in view["hits"]]
        assert sorted(hit["source"]["seq"] for hit in view["hits"]) == sorted(expected(entries, q))[-500:]
        if view["hits"] and len(view["hits"][0]["sort"]) > 1:
            assert scores == sorted(scores, reverse=True)


def grown(entries: list[Any], random: Random, count: int) -> list[Any]:
    fresh = [{**entry(random), "seq": len(entries) + at} for at in range(count)]
    entries += fresh
    return fresh


@pytest.mark.parametrize("seed", range(4))
def test_pages_are_those_of_the_evaluator_at_every_stage(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    entries: list[Any] = []

    async def stages(folder: Path, *, first: bool) -> None:
        async with indexed(folder) as node:
            driver = FakeDriver(node)
            if first:
                await create(node)
            for _ in range(3):
                await append(node, grown(entries, random, random.randrange(1, 60)))
                await check(node, entries, random, 2)
                if random.random() < 0.7:
                    await sealed(node)
                    await check(node, entries, random, 2)
                if random.random() < 0.7:
                    await driver.finish()
                    await check(node, entries, random, 3)
                await append(node, grown(entries, random, 1))
                assert (await found(node, q="x OR NOT x", size=1))["hits"][0]["source"] in entries

    async def run() -> None:
        await stages(tmp_path / "node", first=True)
        await stages(tmp_path / "node", first=False)

    asyncio.run(run())


@on_loop
async def test_what_was_acknowledged_is_found(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        driver = FakeDriver(node)
        for number in range(12):
            await append(node, [{"text": f"word{number}", "seq": number}])
            view = await found(node, q=f"word{number}")
            assert [hit["source"]["seq"] for hit in view["hits"]] == [number]
            if number % 4 == 1:
                await sealed(node)
            if number % 4 == 3:
                await driver.finish()


@on_loop
async def test_companions_answer_for_what_they_cover(tmp_path: Path) -> None:
    random, entries = Random(5), list[Any]()
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await append(node, grown(entries, random, 50))
        await sealed(node)
        await FakeDriver(node).finish()
        await append(node, grown(entries, random, 7))
        view = await found(node, q="card", explain=True, sort=["at"])
        coverage = view["coverage"]
        assert coverage["indexed_segments"] == 1
        assert coverage["scanned_tail_docs"] == 7
        assert coverage["scanned_segments"] == 0
        assert coverage["index_families_used"] == ["col", "fts"]
        assert view["explain"]["opened"] == 1
        assert view["explain"]["scanned"] == 7


@pytest.mark.parametrize("how", ["gone", "damaged"])
def test_an_index_that_cannot_be_read_is_not_covered(tmp_path: Path, how: str) -> None:
    random, entries = Random(6), list[Any]()

    async def run() -> None:
        async with indexed(tmp_path / "node") as node:
            await create(node)
            await append(node, grown(entries, random, 60))
            await sealed(node)
            await FakeDriver(node).finish()
            store = tiers_of(node)._store
            assert store is not None
            for each in await covered(node, A):
                if each.family != "companion":
                    continue
                path = tmp_path / "objects" / index_key("companion", ObjectId(each.made))
                assert path.exists()
                if how == "gone":
                    path.unlink()
                else:
                    path.write_bytes(path.read_bytes()[:-9] + b"123456789")
            view = await found(node, q="card", sort=["at"], size=500)
            assert view["coverage"]["complete"]
            assert view["coverage"]["indexed_segments"] == 0
            assert [hit["source"]["seq"] for hit in view["hits"]] == expected(entries, "card", ["at"])

    asyncio.run(run())


@on_loop
async def test_what_does_not_fit_the_budget_is_counted(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node", search_scan_bytes_max=64 << 10) as node:
        await create(node)
        entries = [{"seq": seq, "status": 12, "text": "word " * 20} for seq in range(4000)]
        for at in range(0, len(entries), 1000):
            await append(node, entries[at : at + 1000])
        view = await found(node, q="status:12", sort=["status"], size=500)
        coverage = view["coverage"]
        left_out = sum(_seq(end) - _seq(first) for first, end in coverage["omitted"])
        assert 0 < left_out < 4000
        assert coverage["possible_missing_events_upper_bound"] == coverage["possible_missing_wal_rows"] == left_out
        assert (coverage["complete"], coverage["mode"]) == (False, "published")
        assert view["total"]["relation"] == "gte"
        assert coverage["visible_through_offset"] == coverage["omitted"][0][0]
        seqs = {hit["source"]["seq"] for hit in view["hits"]}
        claimed = {seq for seq in range(4000) if not any(_seq(a) <= seq < _seq(b) for a, b in coverage["omitted"])}
        assert seqs == set(sorted(claimed)[-500:])
        assert 3999 in seqs


@on_loop
async def test_a_deleted_stream_and_a_new_one_share_nothing(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await append(node, [{"text": "secret", "seq": 0}] * 20)
        await sealed(node)
        await FakeDriver(node).finish()
        assert len((await found(node, q="secret"))["hits"]) == 20
        assert (await ask(node, "DELETE", A)).status == 204
        assert (await post(node, q="secret")).status == 404
        await create(node)
        assert (await found(node, q="secret"))["hits"] == []
        body = json.dumps({"search": {**DECLARED["search"], "aliases": {}}}).encode()
        assert (await ask(node, "POST", f"{A}/_schema", JSON, body)).status == 200
        assert (await post(node, q="lvl:error")).status == 400


def _seq(token: str) -> int:
    from streams_node.protocol.offsets import decode  # noqa: PLC0415

    position = decode(token)
    assert position is not None
    return position.seq
