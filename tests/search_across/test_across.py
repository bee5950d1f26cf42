"""A search of several streams is the searches of each of them, merged; what was not searched is counted."""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streams_node.errors import StreamsError
from streams_node.http import bucket_streams
from streams_node.http.bucket_search_request import Pattern
from streams_node.protocol.offsets import encode
from streams_node.searching import across
from tests.http.wire import ask
from tests.indexing.world import FakeDriver, indexed, on_loop, sealed
from tests.search.both_ways import both_ways  # noqa: F401 - each page on the loop or in a thread
from tests.search.test_oracle import QUERIES, SORTS, entry
from tests.search.world import DECLARED, JSON, field, post
from tests.search_across.world import BUCKET, bucket, expected, pages, put, search, seen

NAMES = ("a", "b-1", "b-2", "c")


@pytest.mark.parametrize("seed", range(3))
def test_pages_are_those_of_the_evaluator_over_all_streams(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    streams: dict[str, list[Any]] = {name: [] for name in NAMES}

    async def run() -> None:
        async with indexed(tmp_path / "node") as node:
            driver = FakeDriver(node)
            await bucket(node, NAMES)
            for stage in range(3):
                for name, entries in streams.items():
                    if random.random() < 0.8:
                        fresh = [{**entry(random), "seq": len(entries) + at} for at in range(random.randrange(1, 30))]
                        entries.extend(fresh)
                        await put(node, name, fresh)
                if stage:
                    await sealed(node)
                if stage == 2:
                    await driver.finish()
                for q in random.sample(QUERIES, 4):
                    sort, size = random.choice(SORTS), random.choice([3, 7, 50, 500])
                    found = await pages(node, size, q=q, sort=sort)
                    assert [at for at, _ in found] == expected(streams, q, sort), (q, sort)
                    assert all(source == streams[name][seq] for (name, seq), source in found)
                some = {name: entries for name, entries in streams.items() if name.startswith("b-")}
                found = await pages(node, 9, q="NOT card", streams="b-*", sort=["at:asc"])
                assert [at for at, _ in found] == expected(some, "NOT card", ["at:asc"])

    asyncio.run(run())


@on_loop
async def test_without_a_sort_the_newest_come_first_whatever_their_stream(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await bucket(node, NAMES)
        for at, name in enumerate((*NAMES, *NAMES)):
            await put(node, name, [{"at": 1000 - at if at % 2 else 1000 + at, "level": "x", "seq": at // 4}])
        view = await seen(node, q="level:x")
        times = [hit["source"]["at"] for hit in view["hits"]]
        assert times == sorted(times, reverse=True)
        assert len(times) == 8
        assert view["hits"][0]["sort"] == [1006, encode(0, 2), "b-2"]


@on_loop
async def test_equal_hits_are_in_the_order_of_their_streams_page_by_page(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await bucket(node, NAMES)
        for name in NAMES:
            await put(node, name, [{"at": 1000, "status": 1, "seq": seq} for seq in range(3)])
        for direction, order in (("asc", range(3)), ("desc", range(2, -1, -1))):
            wanted = [(name, seq) for seq in order for name in NAMES]
            for size in (1, 2, 5):
                found = await pages(node, size, q="status:1", sort=["status", f"offset:{direction}"])
                assert [at for at, _ in found] == wanted, (direction, size)
        # Less than a whole place is behind everything that begins so, as for one stream.
        view = await seen(node, q="status:1", sort=["status:asc", "offset"], search_after=[1, encode(0, 2)])
        assert [(hit["stream_id"], hit["source"]["seq"]) for hit in view["hits"]] == [(name, 0) for name in NAMES]


@on_loop
async def test_a_place_is_not_changed_by_what_another_stream_makes_of_it(tmp_path: Path) -> None:
    plain = json.loads(json.dumps(DECLARED))
    del plain["search"]["fields"]["level"]["normalizer"]
    async with indexed(tmp_path / "node") as node:
        await bucket(node, ["lowered"])
        await put(node, "lowered", [{"level": text, "seq": 0} for text in ("APPLE", "Zeta")])
        assert (await ask(node, "PUT", f"/{BUCKET}/plain", JSON)).status == 201
        body = json.dumps(plain).encode()
        assert (await ask(node, "POST", f"/{BUCKET}/plain/_schema", JSON, body)).status == 200
        await put(node, "plain", [{"level": text, "seq": 0} for text in ("ERROR", "b", "Z")])
        for size in (1, 2, 3):
            found = await pages(node, size, q="NOT status:1", sort=["level:asc"])
            assert [source["level"] for _, source in found] == ["ERROR", "Z", "APPLE", "b", "Zeta"]


@on_loop
async def test_streams_that_cannot_be_asked_are_counted(tmp_path: Path) -> None:
    other = json.loads(json.dumps(DECLARED))
    other["search"]["fields"] |= {"status": field("keyword", "status", exact=True, sortable=True),
                                  "more": field("keyword", "more", exact=True)}  # fmt: skip
    async with indexed(tmp_path / "node") as node:
        await bucket(node, ["a"])
        await put(node, "a", [{"text": "card", "status": 7, "seq": 0}])
        assert (await ask(node, "PUT", f"/{BUCKET}/text", {"content-type": "text/plain"})).status == 201
        assert (await ask(node, "PUT", f"/{BUCKET}/bare", JSON)).status == 201
        view = await seen(node, q="card")
        assert view["coverage"]["streams"] == {
            "matched": 3, "relation": "eq", "searched": 1, "not_searchable": 2, "failed": 0, "left_out": 0,
        }  # fmt: skip
        assert view["coverage"]["complete"]
        reply = await search(node, q="card", streams="*e*")
        assert (reply.status, json.loads(reply.body)["error"]["message"]) == (
            400, "search is not configured for this stream",
        )  # fmt: skip
        assert (await ask(node, "PUT", f"/{BUCKET}/z", JSON)).status == 201
        body = json.dumps(other).encode()
        assert (await ask(node, "POST", f"/{BUCKET}/z/_schema", JSON, body)).status == 200
        view = await seen(node, q="more:x OR card", sort=["at"])
        assert view["coverage"]["streams"]["searched"] == 1
        assert view["hits"] == []
        reply = await search(node, q="card", sort=["status"])
        assert reply.status == 400
        assert "`a` and `z` have no order in common" in json.loads(reply.body)["error"]["message"]
        assert (await search(node, q="card", sort=["at"])).status == 200


@on_loop
async def test_streams_beyond_the_bounds_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_streams, "STREAMS_MAX", 3)
    async with indexed(tmp_path / "node") as node:
        await bucket(node, [f"s{number}" for number in range(7)])
        for number in range(7):
            await put(node, f"s{number}", [{"text": "card", "seq": 0}])
        view = await seen(node, q="card")
        assert [hit["stream_id"] for hit in view["hits"]] == ["s0", "s1", "s2"]
        assert view["coverage"]["streams"] == {
            "matched": 7, "relation": "eq", "searched": 3, "not_searchable": 0, "failed": 0, "left_out": 4,
        }  # fmt: skip
        assert (view["coverage"]["complete"], view["coverage"]["mode"]) == (False, "published")
        assert view["total"] == {"value": 3, "relation": "gte"}
        monkeypatch.setattr(bucket_streams, "_PAGE", 2)
        monkeypatch.setattr(bucket_streams, "_LOOKED_MAX", 4)
        view = await seen(node, q="card", streams="*")
        assert view["coverage"]["streams"]["relation"] == "gte"
        assert view["coverage"]["streams"]["left_out"] == 1
        assert not view["coverage"]["complete"]
        view = await seen(node, q="card", streams="s6")
        assert [hit["stream_id"] for hit in view["hits"]] == ["s6"]
        assert view["coverage"]["complete"]


@on_loop
async def test_no_time_is_a_valid_answer(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await bucket(node, NAMES)
        reply = await search(node, q="card", timeout_ms=0)
        view = json.loads(reply.body)
        assert (reply.status, view["timed_out"], view["hits"], view["next_search_after"]) == (408, True, [], None)
        assert view["coverage"]["streams"]["left_out"] == view["coverage"]["streams"]["matched"] == 4
        assert reply.headers["search-timed-out"] == "true"
        assert reply.headers["search-coverage-complete"] == "false"


@on_loop
async def test_all_streams_share_one_budget(tmp_path: Path) -> None:
    budget = 256 << 10
    async with indexed(tmp_path / "node", search_scan_bytes_max=budget) as node:
        await bucket(node, NAMES)
        for name in NAMES:
            for at in range(2):
                await put(node, name, [{"status": 12, "text": "w " * 40, "seq": at * 700 + n} for n in range(700)])
        view = await seen(node, q="status:12", sort=["status"], size=500)
        coverage = view["coverage"]
        assert coverage["segment_payload_bytes_fetched"] < 2 * budget
        missing = {gap["stream_id"]: gap["possible_missing_events_upper_bound"] for gap in coverage["incomplete"]}
        assert coverage["possible_missing_events_upper_bound"] == sum(missing.values()) > 0
        assert coverage["scanned_tail_docs"] == 4 * 1400 - sum(missing.values())
        assert (coverage["complete"], view["total"]["relation"]) == (False, "gte")
        alone = json.loads((await post(node, f"/{BUCKET}/a", q="status:12", sort=["status"])).body)["coverage"]
        assert alone["complete"]  # each of them would fit


@on_loop
async def test_one_stream_that_fails_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with indexed(tmp_path / "node") as node:
        await bucket(node, NAMES)
        for name in NAMES:
            await put(node, name, [{"text": "card", "seq": 0}])
        whole = across.Across._merge

        def fails(self: across.Across, searched: across.Searched) -> None:
            if searched.part.name == "b-1":
                raise StreamsError("as a test wants it")
            whole(self, searched)

        monkeypatch.setattr(across.Across, "_merge", fails)
        view = await seen(node, q="card")
        assert [hit["stream_id"] for hit in view["hits"]] == ["a", "b-2", "c"]
        assert view["coverage"]["streams"]["failed"] == 1
        assert (view["coverage"]["complete"], view["total"]["relation"]) == (False, "gte")


@on_loop
async def test_deleted_streams_are_not_there(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await bucket(node, NAMES)
        for name in NAMES:
            await put(node, name, [{"text": "card", "seq": 0}])
        assert (await ask(node, "DELETE", f"/{BUCKET}/b-1")).status == 204
        view = await seen(node, q="card")
        assert [hit["stream_id"] for hit in view["hits"]] == ["a", "b-2", "c"]
        assert view["coverage"]["streams"]["matched"] == 3
        assert view["coverage"]["complete"]


REFUSED: list[tuple[Any, str]] = [
    (b"{", "search request must be valid JSON"),
    ({"q": ""}, "q must not be empty"),
    ({"q": "card", "streams": 1}, "streams must be a text of 1 to 1024 bytes"),
    ({"q": "card", "streams": ""}, "streams must be a text of 1 to 1024 bytes"),
    ({"q": "card", "search_after": [1, None, "x", "a", 2]},
     "search_after must have 3 elements of the sort, and the id of a stream"),
    ({"q": "card", "search_after": [1, None, None, 4]},
     "search_after must have 3 elements of the sort, and the id of a stream"),
    ({"q": "card", "sort": ["nope"]}, "unknown sort field nope"),
    ({"q": "nope:1"}, "unknown search field nope"),
]  # fmt: skip


@on_loop
async def test_what_is_refused(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await bucket(node, NAMES)
        for asked, message in REFUSED:
            body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
            reply = await ask(node, "POST", f"/{BUCKET}/streams/_search", JSON, body)
            assert (reply.status, json.loads(reply.body)["error"]["message"]) == (400, message), asked
        reply = await ask(node, "GET", f"/{BUCKET}/streams/_search")
        assert (reply.status, reply.headers["allow"]) == (405, "POST")
        assert (await ask(node, "POST", "/nobody/streams/_search", JSON, b'{"q":"card"}')).status == 404
        assert (await ask(node, "POST", "/NO/streams/_search", JSON, b'{"q":"card"}')).status == 400
        large = json.dumps({"q": "card", "x": "y" * (257 << 10)}).encode()
        assert (await ask(node, "POST", f"/{BUCKET}/streams/_search", JSON, large)).status == 413
        view = await seen(node, q="card", streams="none-*")
        assert (view["hits"], view["coverage"]["complete"]) == ([], True)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*", ["a", "**"], ["__own"]),
        ("a", ["a"], ["ab", ""]),
        ("a*", ["a", "ab"], ["ba"]),
        ("*a", ["a", "ba"], ["ab"]),
        ("a*b*c", ["abc", "axbxbc"], ["acb", "ac"]),
        ("aa*aa", ["aaaa", "aaxaa"], ["aaa"]),
        ("*ab*ab*", ["abab", "xabxabx"], ["ab", "aab"]),
        ("__*", [], ["__own"]),
    ],
)
def test_a_star_is_any_text(pattern: str, matching: list[str], others: list[str]) -> None:
    found = Pattern.of(pattern)
    assert [name for name in (*matching, *others) if found.matches(name)] == matching
    assert found.text == pattern
