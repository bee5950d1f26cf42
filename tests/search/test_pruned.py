"""Companions that hold nothing of what is asked are not fetched, and no answer is another for it."""

import asyncio
import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexers.runs import IndexDamaged
from search.engine import Ask, Page, Searcher
from search.language import Compare, Op, matcher, query
from search.language import values as values_of
from streams_node.answers import bounds, views
from streams_node.answers.bounds import impossible
from streams_node.answers.ranges import Range
from streams_node.objects.keys import ObjectId, index_key
from streams_node.searching import newest as newest_module
from streams_node.testing.inprocess import InProcess
from tests.http.wire import ask
from tests.indexing.world import FakeDriver, covered, indexed, on_loop, sealed
from tests.search.both_ways import both_ways  # noqa: F401 - each page on the loop or in a thread
from tests.search.test_oracle import pages
from tests.search.world import CONFIG, JSON, A, append, create, expected, found

HOURS = 6
LATEST = "2026-01-01T05:39:00.000Z"
ASKED = (
    'at:>="2026-01-01T04:00:00Z"', 'at:<"2026-01-01T01:30:00Z" OR at:>="2026-01-01T05:00:00Z"', "dur:3002.5",
    "status:777", "level:only3", "dur:>99999", 'at:>="2026-01-01T02:00:00Z" at:<"2026-01-01T03:00:00Z" NOT level:error',
)  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "BYTES_MIN", 0)
    monkeypatch.setattr("streams_node.http.search_request.TIMEOUT_MS_MAX", 30_000)  # a machine with load is slow
    monkeypatch.setattr("streams_node.answers.pruning._SECONDS", 30.0)
    monkeypatch.setattr("streams_node.indexing.work.MERGED", 1000)


async def grown(node: InProcess) -> list[Any]:
    """A companion an hour; each hour has a level of its own."""
    entries: list[Any] = []
    for hour in range(HOURS):
        fresh = [
            {
                "seq": len(entries) + at, "at": f"2026-01-01T0{hour}:{at:02}:00Z", "dur": 1000.5 * hour + at,
                "level": f"only{hour}" if at == 7 else "info", "status": 777 if hour == 2 else 200, "text": "card",
            }
            for at in range(40)
        ]  # fmt: skip
        await append(node, fresh)
        entries += fresh
        await sealed(node)
        await FakeDriver(node).finish()
    return entries


@pytest.mark.parametrize("beginning", [16 << 10, 40])
@on_loop
async def test_only_what_may_match_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beginning: int) -> None:
    monkeypatch.setattr(bounds, "_BEGINNING_BYTES", beginning)  # of which some directories are longer
    async with indexed(tmp_path / "node") as node:
        await create(node)
        entries = await grown(node)
    opened = {}
    for q in ASKED:
        async with indexed(tmp_path / "node") as node:  # nothing is open yet
            view = await found(node, q=q, size=500, sort=["offset"], explain=True)
            assert [hit["source"]["seq"] for hit in view["hits"]] == expected(entries, q, ["offset"]), q
            assert view["coverage"]["complete"]
            assert view["coverage"]["scanned_tail_docs"] == view["coverage"]["scanned_segments"] == 0
            opened[q] = view["explain"]["opened"]
            assert view["explain"]["pruned"] == 40 * (HOURS - opened[q])
            assert await pages(node, "card", ["offset"], 50) == ([each["seq"] for each in entries[::-1]], entries[::-1])
            assert await pages(node, q, ["at"], 9) == await pages(node, q, ["at"], 500)
    assert list(opened.values()) == [2, 3, 1, 1, 1, 0, 1]


@on_loop
async def test_sums_open_what_may_match_only(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await grown(node)
    async with indexed(tmp_path / "node") as node:
        aggs = {"hours": {"date_histogram": {"field": "at", "interval": "1h"}}}
        for opened, hour in enumerate((2, 4), 1):
            begin = 1_767_225_600_000 + hour * 3_600_000
            body = json.dumps({"aggs": aggs, "from": begin, "to": begin + 3_600_000}).encode()
            reply = await ask(node, "POST", f"{A}/_aggregate", JSON, body)
            view = json.loads(reply.body)
            assert (view["matched"], view["coverage"]["complete"]) == (40, True)
            assert (view["coverage"]["indexed_segments"], view["coverage"]["scanned_segments"]) == (opened, 0)


@on_loop
async def test_the_latest_primary_timestamp_is_that_of_all_companions_opened_or_not(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await grown(node)
    for q, cold in (('at:<"2026-01-01T01:30:00Z"', LATEST), ("dur:>99999", LATEST), ("level:only3", None)):
        async with indexed(tmp_path / "node") as node:
            for latest, closed in ((cold, True), (LATEST, False)):
                view = await found(node, q=q, size=500, sort=["offset"], explain=True)
                assert (view["explain"]["pruned"] > 0) == closed, q
                assert view["coverage"]["visible_through_primary_timestamp_max"] == latest, q
                await found(node, q="card", size=500, sort=["offset"])  # opens all


@on_loop
async def test_what_is_ruled_out_is_not_missing_when_the_time_is_over(tmp_path: Path) -> None:
    from search.engine import Ask, Page, Searcher, TimeOver  # noqa: PLC0415 - loads tantivy

    async with indexed(tmp_path / "node") as node:
        await create(node)
        await grown(node)
    real = Searcher.page

    def half(searcher: Searcher, asked: Ask) -> Page:
        return replace(real(searcher, asked), timed_out=True)

    def late(*_: object) -> None:
        raise TimeOver

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Searcher, "page", half)
        patch.setattr(Searcher, "aggregate", late)
        async with indexed(tmp_path / "node") as node:
            view = await found(node, q=ASKED[0], size=500, sort=["offset"], explain=True)
            assert view["explain"]["pruned"] == 160
            assert view["coverage"]["possible_missing_events_upper_bound"] == 80
        async with indexed(tmp_path / "node") as node:
            aggs = {"hours": {"date_histogram": {"field": "at", "interval": "1h"}}}
            body = json.dumps({"aggs": aggs, "q": ASKED[0]}).encode()
            view = json.loads((await ask(node, "POST", f"{A}/_aggregate", JSON, body)).body)
            assert view["coverage"]["possible_missing_events_upper_bound"] == 80


@on_loop
async def test_a_directory_that_cannot_be_read_rules_nothing_out(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        entries = await grown(node)
        companions = [each for each in await covered(node, A) if each.family == "companion"]
        for number, each in enumerate(companions):
            path = tmp_path / "objects" / index_key("companion", ObjectId(each.made))
            data = bytearray(path.read_bytes())
            data[40 * number] ^= 1  # in its head, and in its directory
            path.write_bytes(data)
    async with indexed(tmp_path / "node") as node:
        for q in ASKED:
            if "level" not in q and "status" not in q:  # whose exact runs are whole
                view = await found(node, q=q, size=500, sort=["offset"], explain=True)
                assert view["coverage"]["complete"]
                assert view["explain"]["opened"] == 0
                assert [hit["source"]["seq"] for hit in view["hits"]] == expected(entries, q, ["offset"])


NUMBERS = st.one_of(st.integers(-(2**70), 2**70), st.integers(-3, 3))
OPS = st.sampled_from(["", ">", ">=", "<", "<="])


@settings(deadline=None)
@given(
    values=st.lists(NUMBERS, min_size=1, max_size=5),
    parts=st.lists(st.tuples(OPS, NUMBERS), min_size=1, max_size=3),
    joint=st.sampled_from([" AND ", " OR "]),
    negated=st.booleans(),
)
def test_what_is_impossible_matches_nothing(
    values: list[int], parts: list[tuple[str, int]], joint: str, *, negated: bool
) -> None:
    text = joint.join(f'status:{op}"{value}"' for op, value in parts)
    plan = query(f"NOT ({text})" if negated else text, CONFIG)
    matches = matcher(plan, 1)
    held: list[Any] = list(values_of(CONFIG.fields["status"], 1)({"status": values}))  # beyond 64 bits they are doubles
    least, most = min(held), max(held)
    if impossible(plan, {"status": (least, most)}):
        assert not any(matches({"status": value}) for value in values)
        assert not matches({"status": values})
    elif not negated and len(parts) == 1 and isinstance(plan, Compare):  # it may lie between two values that are there
        assert matches({"status": values}) or (plan.op is Op.EQ and least < plan.value < most)


@on_loop
async def test_what_is_asked_again_and_again_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask the filter of a closed companion takes longer than to have it in the view; unless there is no room.

    One after another, as searches wait for what they need themselves. Numbers cost nothing to ask for.
    """
    monkeypatch.setattr(views, "_SPARED_MAX", 3)
    monkeypatch.setattr(views, "_COUNTED_MAX", HOURS)
    async with indexed(tmp_path / "node") as node:
        await create(node)
        entries = await grown(node)
    for q, room, opens in (("level:only3", 1 << 30, HOURS), ("level:only3", 1, 1), ("status:777", 1 << 30, 1)):
        async with indexed(tmp_path / "node") as node:
            assert node.context.tiers.indexes is not None
            opened = node.context.tiers.indexes.views
            assert opened is not None
            opened._bytes_max = room
            said = []
            for _ in range(12):
                view = await found(node, q=q, size=500, sort=["offset"], explain=True)
                assert [hit["source"]["seq"] for hit in view["hits"]] == expected(entries, q, ["offset"])
                assert view["coverage"]["complete"]
                said.append(view["explain"]["opened"])
                assert len(opened._tasks) <= 1
                await asyncio.gather(*opened._tasks.values())
            assert said[:3] == [1, 1, 1]
            assert said[-1] == opens
            assert all(after - before <= 1 for before, after in pairwise(said))
            assert len(opened._spared) <= HOURS


@on_loop
async def test_where_not_all_fits_no_second_view_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would drive out companions of the first one, which the next search would have to fetch again."""
    monkeypatch.setattr(newest_module, "_ENTRIES_MIN", 30)
    async with indexed(tmp_path / "node") as node:
        await create(node)
        entries = await grown(node)
        assert node.context.tiers.indexes is not None
        opened = node.context.tiers.indexes.views
        assert opened is not None
        await found(node, q="level:info", size=3, sort=["offset"])
        opened._bytes_max = opened.bytes - 1
        before = dict(opened._packs)
        for _ in range(3):
            view = await found(node, q="level:inf*", size=20, sort=["offset"])
            assert [hit["source"]["seq"] for hit in view["hits"]] == expected(entries, "level:inf*", ["offset"])[:20]
            assert opened._packs == before
        opened._bytes_max = opened.bytes
        await found(node, q="level:inf*", size=20, sort=["offset"])
        assert len(opened._views) == 2


@on_loop
async def test_a_view_at_hand_is_used_again_and_its_companions_stay_longest(tmp_path: Path) -> None:
    """What is known of a view is forgotten as soon as one of its companions goes."""
    other = "/v1/stream/b"
    async with indexed(tmp_path / "node") as node:
        for path in (A, other):
            await create(node, path)
        for begin in (0, 10):
            for path in (A, other):
                await append(node, [{"seq": begin + at, "text": "card"} for at in range(10)], path)
                await sealed(node)
                await FakeDriver(node).finish()
        assert node.context.tiers.indexes is not None
        opened = node.context.tiers.indexes.views
        assert opened is not None

        async def shown(path: str) -> list[int]:
            view = await found(node, path, q="card", size=50, sort=["offset"])
            return [hit["source"]["seq"] for hit in view["hits"]]

        whole = list(range(19, -1, -1))
        for path in (A, other, other, A, A):
            assert await shown(path) == whole
        assert len(opened._hands) == 2
        first, second = opened._views.values()  # the one that was used last is behind
        names = [{pack.name for pack in view.packs} for view in (first, second)]
        assert not names[0] & names[1]
        for pack in first.packs:
            await opened.drop(pack.name)
        for cover in [each for each in await covered(node, other) if each.family == "companion"]:
            assert await opened._one(cover) is not None  # as by a search that had no time to open a view of them
        assert len(opened._views) == 1
        opened._bytes_max = opened.bytes - 1
        await opened._make_room(set())
        assert not opened._hands
        assert names[0] <= opened._packs.keys()
        assert not names[1] <= opened._packs.keys()
        opened._bytes_max = 1 << 30
        for path in (A, other, other):
            assert await shown(path) == whole
        made = next(iter(opened._packs))
        await opened.drop(made)
        assert not opened._hands
        for path in (A, other):
            assert await shown(path) == whole


@on_loop
async def test_companions_that_had_to_go_while_they_were_opened_are_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(packs: Any, *_: object) -> Any:
        for pack in packs:
            shutil.rmtree(pack.folder)
        raise IndexDamaged(packs[0].name, "Tantivy cannot open it: a file is not there")

    async with indexed(tmp_path / "node") as node:
        await create(node)
        await append(node, [{"seq": at, "text": "card"} for at in range(10)])
        await sealed(node)
        await FakeDriver(node).finish()
        monkeypatch.setattr(views, "_open", damaged)
        view = await found(node, q="card", size=50, sort=["offset"])
        assert [hit["source"]["seq"] for hit in view["hits"]] == list(range(9, -1, -1))
        assert (view["coverage"]["complete"], view["coverage"]["indexed_segments"]) == (True, 0)


@on_loop
async def test_nothing_is_left_of_what_a_search_had_no_time_to_remove(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await grown(node)
        assert node.context.tiers.indexes is not None
        opened = node.context.tiers.indexes.views
        assert opened is not None
        await found(node, q="level:info", size=3, sort=["offset"])
        opened._bytes_max = 1
        room = asyncio.create_task(opened._make_room(set()))
        await asyncio.sleep(0)
        room.cancel()
        with pytest.raises(asyncio.CancelledError):
            await room
        await asyncio.gather(*opened._tasks.values())
        assert not opened._packs
        assert not opened._views
        assert await asyncio.to_thread(lambda: list((opened._folder / "packs").iterdir())) == []
        assert await asyncio.to_thread(lambda: list((opened._folder / "views").iterdir())) == []


@on_loop
async def test_newest_hits_are_looked_for_in_the_newest_companions_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No page is another for it, also where there are too few hits, or an entry came since."""
    monkeypatch.setattr(newest_module, "_ENTRIES_MIN", 30)
    asked: list[tuple[int, int]] = []  # covers of the view that was looked into first, and hits of it
    real = Searcher.page

    def spied(self: Searcher, ask: Ask) -> Page:
        page = real(self, ask)
        asked.append((len(self.sources[0].view.packs), len(page.hits)))
        return page

    monkeypatch.setattr(Searcher, "page", spied)
    async with indexed(tmp_path / "node") as node:
        await create(node)
        entries = await grown(node)
        for q, first in (
            ("level:inf*", True),
            ("level:only*", True),
            ("level:on* OR status:777", True),
            ("level:info", False),
        ):
            for sort in (["offset"], ["offset:asc"], ["at", "offset"]):
                for size in (3, 20, 200):
                    asked.clear()
                    assert (await pages(node, q, sort, size))[0] == expected(entries, q, sort), (q, sort, size)
                    begins = sort == ["offset"] and first
                    assert (asked[0][0] == 1) == begins, (q, sort, asked)
        asked.clear()
        view = await found(node, q="level:inf*", size=20, sort=["offset"])
        assert asked == [(1, 20)]
        assert view["coverage"]["complete"]
        await append(node, [{"seq": len(entries), "level": "info", "text": "card"}])
        view = await found(node, q="level:inf*", size=20, sort=["offset"])
        assert [hit["source"]["seq"] for hit in view["hits"]] == [
            240,
            *[seq for seq in range(239, 0, -1) if seq % 40 != 7][:19],
        ]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 8)), max_size=30), st.integers(0, 2000))
def test_the_newest_companions_are_all_that_cover_anything_from_there_on(
    parts: list[tuple[int, int]], end: int
) -> None:
    covers, at = list[Any](), 0
    for size, made in parts:
        covers.append(SimpleNamespace(first_seq=at, end_seq=at + size, made=f"m{made}"))
        at += size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(newest_module, "_ENTRIES_MIN", 20)
        found = newest_module.newest(covers, [Range(0, end)])
    if found is None:
        return
    names = {cover.made for cover in found.covers}
    assert {cover.made for cover in covers if cover.end_seq > found.first and cover.first_seq < end} <= names
    assert found.first < end
    assert 3 * len(names) <= len({cover.made for cover in covers})
    assert list(found.covers) == [cover for cover in covers if cover.made in names]
