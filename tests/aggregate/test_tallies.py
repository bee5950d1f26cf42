"""Aggregations of any fields, word for word: what they take, what they give, and what they refuse."""

import json
from pathlib import Path
from typing import Any

import pytest

from streams_node.searching.tallies.wanted import TOO_MANY
from tests.aggregate.tally_world import DECLARED, tallied, tally
from tests.aggregate.world import T0, A
from tests.http.wire import ask
from tests.indexing.world import FakeDriver, append, create, indexed, on_loop, sealed

ENTRIES: list[dict[str, Any]] = [
    {"at": T0, "level": "INFO", "status": 200, "ms": 1, "ok": True, "text": "card"},
    {"at": T0 + 1, "level": "info", "status": 200, "ms": 2.5, "ok": True},
    {"at": T0 + 59_999, "level": "error", "status": 503, "ms": 30, "ok": False, "text": "card declined"},
    {"at": T0 + 60_000, "level": ["info", "warn"], "status": "503", "ms": [3, 4]},
    {"at": T0 + 3_600_000, "level": "warn", "ms": None},
    {"level": "info"},
]
AGGS: dict[str, Any] = {
    "levels": {"terms": {"field": "lvl", "size": 2}, "aggs": {"took": {"stats": {"field": "ms"}}}},
    "minutes": {"date_histogram": {"field": "at", "interval": "1m"}, "aggs": {"by": {"terms": {"field": "status"}}}},
    "took": {"stats": {"field": "took"}},
    "shares": {"percentiles": {"field": "ms", "percents": [50, 99.5]}},
    "truths": {"terms": {"field": "ok"}},
}
WHOLE: dict[str, Any] = {
    "stream": "a",
    "from": "2026-03-25T10:00:00.000Z",
    "to": "2026-03-25T11:00:00.000Z",
    "matched": 4,
    "inexact": 0,
    "aggs": {
        "levels": {
            "buckets": [
                {"key": "info", "count": 3,
                 "aggs": {"took": {"count": 4, "sum": 10.5, "min": 1, "max": 4, "avg": 2.625}}},
                {"key": "error", "count": 1,
                 "aggs": {"took": {"count": 1, "sum": 30, "min": 30, "max": 30, "avg": 30}}},
            ],
            "other": 1,
            "error_bound": 0,
        },
        "minutes": {
            "buckets": [
                {"start": "2026-03-25T10:00:00.000Z", "end": "2026-03-25T10:01:00.000Z", "count": 3,
                 "aggs": {"by": {"buckets": [{"key": 200, "count": 2}, {"key": 503, "count": 1}], "other": 0,
                                 "error_bound": 0}}},
                {"start": "2026-03-25T10:01:00.000Z", "end": "2026-03-25T10:02:00.000Z", "count": 1,
                 "aggs": {"by": {"buckets": [{"key": 503, "count": 1}], "other": 0, "error_bound": 0}}},
            ]
        },
        "took": {"count": 5, "sum": 40.5, "min": 1, "max": 30, "avg": 8.1},
        "shares": {"values": {"50": 3, "99.5": 30}, "approximate": False},
        "truths": {"buckets": [{"key": True, "count": 2}, {"key": False, "count": 1}], "other": 0, "error_bound": 0},
    },
}  # fmt: skip


@on_loop
async def test_a_whole_answer_is_the_same_out_of_the_log_and_out_of_companions(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        await append(node, A, ENTRIES)
        asked: dict[str, Any] = {"begin": T0, "to": T0 + 3_600_000}
        reply = await tally(node, AGGS, **asked)
        assert (reply.status, reply.headers["cache-control"]) == (200, "no-store")
        view = json.loads(reply.body)
        assert list(view) == ["stream", "from", "to", "coverage", "matched", "inexact", "aggs"]
        coverage = view.pop("coverage")
        assert view == WHOLE
        assert (coverage["complete"], coverage["scanned_tail_docs"]) == (True, 6)
        assert (await tally(node, AGGS, "/_default/a", **asked)).body == reply.body
        await sealed(node)
        assert await FakeDriver(node).finish()
        view = await tallied(node, AGGS, **asked)
        coverage = view.pop("coverage")
        shares = view["aggs"].pop("shares")
        assert view["aggs"] == {name: each for name, each in WHOLE["aggs"].items() if name != "shares"}
        assert shares["approximate"]
        assert shares["values"]["50"] == pytest.approx(3, rel=0.02)
        assert coverage["index_families_used"] == ["col"]
        assert (coverage["indexed_segments"], coverage["scanned_segments"], coverage["scanned_tail_docs"]) == (1, 0, 0)
        # What was appended just now counts, too.
        await append(node, A, [{"at": T0, "level": "info", "ms": 0.5}])
        view = await tallied(node, AGGS, **asked)
        assert view["matched"] == 5
        assert view["aggs"]["levels"]["buckets"][0]["count"] == 4
        assert view["aggs"]["took"]["sum"] == 41
        assert view["coverage"]["scanned_tail_docs"] == 1


@on_loop
async def test_what_adds_up_many_entries_steps_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        await append(node, A, ENTRIES)
        await sealed(node)
        assert await FakeDriver(node).finish()
        asked: dict[str, Any] = {"begin": T0, "to": T0 + 3_600_000}
        searches, aside = node.context.searches, list[int]()
        waits = searches.run_long

        async def run_long(stream: int, until: float, docs: int, work: Any) -> Any:
            aside.append(searches.running)
            assert docs >= len(ENTRIES)
            return await waits(stream, until, docs, work)

        monkeypatch.setattr(searches, "run_long", run_long)
        short = await tally(node, AGGS, **asked)
        assert not aside
        monkeypatch.setattr("streams_node.searching.tallies.service._LONG", len(ENTRIES) - 1)
        long = await tally(node, AGGS, **asked)
        assert (long.status, long.body) == (200, short.body)
        assert aside == [1]
        assert (searches.running, searches.waiting) == (0, 0)


@on_loop
async def test_a_query_and_no_time_at_all(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        await append(node, A, ENTRIES)
        aggs = {"n": {"terms": {"field": "level"}}}
        for _ in range(2):
            view = await tallied(node, aggs)
            assert (view["from"], view["to"], view["matched"]) == (None, None, 6)
            view = await tallied(node, aggs, q="text:card")
            assert view["aggs"]["n"]["buckets"] == [{"key": "error", "count": 1}, {"key": "info", "count": 1}]
            view = await tallied(node, aggs, q="level:nobody", to=T0 + 1)
            assert view["aggs"] == {"n": {"buckets": [], "other": 0, "error_bound": 0}}
            await sealed(node)
            await FakeDriver(node).finish()


@on_loop
async def test_what_no_column_holds_is_counted_from_its_record(tmp_path: Path) -> None:
    long, large = "x" * 70_000, 2**63
    entries = [{"level": long, "status": large}, {"level": long, "status": 1}, {"level": "a", "status": large + 4096}]
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        await append(node, A, entries)
        await sealed(node)
        assert await FakeDriver(node).finish()
        aggs = {"levels": {"terms": {"field": "level"}}, "codes": {"terms": {"field": "status"}}}
        view = await tallied(node, aggs)
        assert view["matched"] == 3
        assert view["aggs"]["levels"]["buckets"] == [{"key": long, "count": 2}, {"key": "a", "count": 1}]
        assert [each["key"] for each in view["aggs"]["codes"]["buckets"]] == [1, large, large + 4096]
        assert view["coverage"]["complete"]
        assert view["inexact"] == 0


STATS = {"stats": {"field": "ms"}}
NONE_OF_THEM = "aggs.a must have one of terms, date_histogram, stats, percentiles, and may have aggs"
NO_INTERVAL = "aggs.a.date_histogram.interval must be a positive duration string"
NO_PERCENTS = "aggs.a.percentiles.percents must be an array of 1 to 20 numbers"
REFUSED: list[tuple[Any, str]] = [
    ({}, "aggs must be an object with at least one aggregation"),
    ([], "aggs must be an object with at least one aggregation"),
    ({"a b": STATS}, "aggs has a name that is none: letters, digits, `.`, `_` and `-`, 64 at most"),
    ({"a": {}}, NONE_OF_THEM),
    ({"a": {**STATS, "terms": {"field": "level"}}}, NONE_OF_THEM),
    ({"a": {**STATS, "x": 1}}, NONE_OF_THEM),
    ({"a": {"stats": 5}}, "aggs.a.stats must be an object"),
    ({"a": {"stats": {}}}, "aggs.a.stats.field must be a string"),
    ({"a": {"stats": {"field": "ms", "x": 1}}}, "aggs.a.stats has members that are not supported: only field"),
    ({"a": {"stats": {"field": "nope"}}}, "unknown search field nope"),
    ({"a": {"stats": {"field": "level"}}}, "search field level has no numbers"),
    ({"a": {"terms": {"field": "quiet"}}}, "search field quiet is not aggregatable"),
    ({"a": {"terms": {"field": "text"}}}, "search field text is not aggregatable"),
    ({"a": {"terms": {"field": "level", "size": 0}}}, "aggs.a.terms.size must be an integer between 1 and 1000"),
    ({"a": {"date_histogram": {"field": "ms", "interval": "1m"}}}, "search field ms is not a date"),
    ({"a": {"date_histogram": {"field": "at", "interval": "0m"}}}, NO_INTERVAL),
    ({"a": {"date_histogram": {"field": "at", "interval": "999999999999999d"}}}, NO_INTERVAL),
    ({"a": {"percentiles": {"field": "ms", "percents": []}}}, NO_PERCENTS),
    (
        {"a": {"percentiles": {"field": "ms", "percents": [101]}}},
        "aggs.a.percentiles.percents must be numbers between 0 and 100",
    ),
    ({"a": {**STATS, "aggs": {"b": STATS}}}, "aggs.a has no buckets that could have aggs"),
    ({f"a{at}": STATS for at in range(33)}, "there may be 32 aggregations at most"),
]


@on_loop
async def test_what_cannot_be_answered_is_refused(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        for aggs, message in REFUSED:
            reply = await tally(node, aggs)
            assert (reply.status, json.loads(reply.body)["error"]["message"]) == (400, message)
        terms: dict[str, Any] = {"terms": {"field": "level"}}
        deep = {"a": {**terms, "aggs": {"b": {**terms, "aggs": {"c": {**terms, "aggs": {"d": terms}}}}}}}
        for asked, message in (
            ({"aggs": deep}, "aggs may be 3 levels deep"),
            ({"aggs": {"a": STATS}, "rollup": "x"}, "an aggregation has either a rollup or aggs"),
            ({"aggs": {"a": STATS}, "from": 5, "to": 5}, "to must be greater than from"),
            ({"aggs": {"a": STATS}, "q": 5}, "q must be a string"),
            ({"aggs": {"a": STATS}, "timeout_ms": -1}, "timeout_ms must be a non-negative number"),
            ({"aggs": {"a": STATS}, "timeout_ms": "1"}, "timeout_ms must be a non-negative number"),
        ):
            reply = await ask(node, "POST", f"{A}/_aggregate", {}, json.dumps(asked).encode())
            assert (reply.status, json.loads(reply.body)["error"]["message"]) == (400, message)


@on_loop
async def test_more_buckets_than_there_is_room_for_are_refused_while_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aggs = {name: AGGS[name] for name in ("levels", "minutes")}  # 3 values, 3 windows, 3 values in them
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        await append(node, A, ENTRIES)
        monkeypatch.setattr("streams_node.searching.tallies.records._BUCKETS_MAX", 9)
        assert (await tally(node, aggs)).status == 200
        monkeypatch.setattr("streams_node.searching.tallies.records._BUCKETS_MAX", 8)
        reply = await tally(node, aggs)
        assert (reply.status, json.loads(reply.body)["error"]["message"]) == (400, TOO_MANY)


@on_loop
async def test_when_the_time_is_over_the_rest_is_left_out_and_counted(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        await append(node, A, ENTRIES)
        for _ in range(2):
            reply = await tally(node, AGGS, timeout_ms=0)
            view = json.loads(reply.body)
            assert (reply.status, view["matched"]) == (408, 0)
            assert view["aggs"]["took"] == {"count": 0, "sum": 0, "min": None, "max": None, "avg": None}
            assert view["aggs"]["shares"] == {"values": {"50": None, "99.5": None}, "approximate": False}
            assert view["coverage"]["possible_missing_events_upper_bound"] == 6
            await sealed(node)
            await FakeDriver(node).finish()
