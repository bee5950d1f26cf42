"""Whole answers, word for word: what an aggregation takes, what it gives, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from streams_node.protocol.offsets import encode
from tests.aggregate.world import DECLARED, JSON, SEARCH, T0, A, aggregate, found
from tests.http.wire import ask
from tests.indexing.world import FakeDriver, append, create, indexed, on_loop, sealed
from tests.tiers.node import tiers_of

ENTRIES: list[dict[str, Any]] = [
    {"at": T0, "level": "INFO", "status": 200, "ms": 0},
    {"at": T0 + 1, "level": "info", "status": 200, "ms": 1.5},
    {"at": "2026-03-25T10:00:59.999999Z", "level": "info", "status": "200", "ms": 3},
    {"at": T0 + 59_000, "level": "info", "status": 503, "ms": 4.5},
    {"at": T0 + 60_000, "status": 503, "ms": -7},
    {"at": T0 + 60_000, "level": "debug", "status": 200, "ms": 1},  # not included
    {"at": T0, "level": ["info", "warn"], "ms": 1},  # two values
    {"at": T0, "level": "info"},  # lacks a measure
    {"level": "info", "ms": 1},
]
HEAD = encode(0, len(ENTRIES))


def coverage(**more: Any) -> dict[str, Any]:
    return {
        "mode": "complete",
        "complete": True,
        "stream_head_offset": HEAD,
        "visible_through_offset": HEAD,
        "visible_through_primary_timestamp_max": None,
        "oldest_omitted_append_at": None,
        "possible_missing_events_upper_bound": 0,
        "possible_missing_uploaded_segments": 0,
        "possible_missing_sealed_rows": 0,
        "possible_missing_wal_rows": 0,
        "used_rollups": False,
        "indexed_segments": 0,
        "scanned_segments": 0,
        "scanned_tail_docs": 0,
        "index_families_used": [],
        "omitted": [],
    } | more


ASKED: dict[str, Any] = {"rollup": "req", "begin": T0, "to": T0 + 120_000, "interval": "1m"}
WHOLE: dict[str, Any] = {
    "stream": "a",
    "rollup": "req",
    "from": "2026-03-25T10:00:00.000Z",
    "to": "2026-03-25T10:02:00.000Z",
    "interval": "1m",
    "coverage": coverage(scanned_tail_docs=9),
    "buckets": [
        {
            "start": "2026-03-25T10:00:00.000Z",
            "end": "2026-03-25T10:01:00.000Z",
            "groups": [
                {
                    "key": {},
                    "measures": {
                        "bad": {"count": 1},
                        "ms": {
                            "count": 4, "sum": 9, "min": 0, "max": 4.5, "avg": 2.25, "p50": 1, "p95": 4, "p99": 4,
                            "histogram": {"1": 2, "2": 1, "4": 1},
                        },
                        "n": {"count": 4},
                    },
                }
            ],
        },
        {
            "start": "2026-03-25T10:01:00.000Z",
            "end": "2026-03-25T10:02:00.000Z",
            "groups": [
                {
                    "key": {},
                    "measures": {
                        "bad": {"count": 1},
                        "ms": {
                            "count": 1, "sum": -7, "min": -7, "max": -7, "avg": -7, "p50": 4, "p95": 4, "p99": 4,
                            "histogram": {"4": 1},
                        },
                        "n": {"count": 1},
                    },
                }
            ],
        },
    ],
}  # fmt: skip


@on_loop
async def test_a_whole_answer_is_the_same_out_of_the_log_and_out_of_rollups(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        await append(node, A, ENTRIES)
        reply = await aggregate(node, **ASKED)
        assert reply.status == 200
        assert reply.headers["content-type"] == "application/json"
        assert reply.headers["cache-control"] == "no-store"
        assert json.loads(reply.body) == WHOLE
        assert list(json.loads(reply.body)) == list(WHOLE)
        assert (await aggregate(node, "/_default/a", **ASKED)).body == reply.body
        await sealed(node)
        assert await FakeDriver(node).finish()
        view = await found(node, **ASKED)
        assert view == WHOLE | {
            "coverage": coverage(used_rollups=True, indexed_segments=1, index_families_used=["agg"])
        }
        # Edges that no window fills: a companion names the entries.
        view = await found(node, **ASKED | {"begin": T0 + 1, "measures": ["n"]})
        assert view["buckets"][0]["start"] == "2026-03-25T10:00:00.000Z"
        assert view["buckets"][0]["groups"] == [{"key": {}, "measures": {"n": {"count": 3}}}]
        assert view["coverage"] == coverage(used_rollups=True, indexed_segments=1, index_families_used=["agg", "col"])
        # What was appended just now counts, too.
        await append(node, A, [{"at": T0, "level": "info", "ms": 1}])
        view = await found(node, **ASKED)
        assert view["buckets"][0]["groups"][0]["measures"]["n"] == {"count": 5}
        assert view["coverage"]["scanned_tail_docs"] == 1
        assert view["coverage"]["used_rollups"]


@on_loop
async def test_a_query_of_anything_is_asked_of_the_entries_where_dimensions_do_not_tell(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        await append(node, A, ENTRIES)
        await sealed(node)
        assert await FakeDriver(node).finish()
        for q, count in (("has:status", 5), ("status:>=500", 2), ("level:info AND has:status", 4)):
            view = await found(node, **ASKED | {"q": q, "measures": ["n"], "interval": "1h"})
            (bucket,) = view["buckets"]
            assert bucket["groups"] == [{"key": {}, "measures": {"n": {"count": count}}}], q
            assert not view["coverage"]["used_rollups"]


@on_loop
async def test_groups_are_of_the_fields_that_were_asked_for(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        await append(node, A, ENTRIES)
        asked = ASKED | {"group_by": ["status", "level", "status"], "measures": ["n"], "interval": "1h"}
        for _ in range(2):
            view = await found(node, **asked)
            (bucket,) = view["buckets"]
            assert (bucket["start"], bucket["end"]) == ("2026-03-25T10:00:00.000Z", "2026-03-25T11:00:00.000Z")
            assert bucket["groups"] == [
                {"key": {"level": "info", "status": "200"}, "measures": {"n": {"count": 3}}},
                {"key": {"level": "info", "status": "503"}, "measures": {"n": {"count": 1}}},
                {"key": {"level": None, "status": "503"}, "measures": {"n": {"count": 1}}},
            ]
            await sealed(node)
            await FakeDriver(node).finish()
        assert (await found(node, **asked))["coverage"]["used_rollups"]


@on_loop
async def test_times_are_dates_or_milliseconds_or_nanoseconds_in_a_text(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        await append(node, A, ENTRIES)
        for begin in (
            T0,
            float(T0),
            f"{T0}000000",
            f"{T0}000999",
            "2026-03-25T10:00:00Z",
            " 2026-03-25T11:00:00+01:00 ",
        ):
            assert await found(node, **ASKED | {"begin": begin}) == WHOLE, begin


REFUSED: list[tuple[Any, str]] = [
    (b"{", "aggregate request must be valid JSON"),
    (b"", "aggregate request must be valid JSON"),
    ([], "aggregate request must be an object"),
    ({"rollup": None}, "rollup must be a string"),
    ({"rollup": "nope"}, "unknown rollup nope"),
    ({"from": "soon"}, "from must be a valid timestamp"),
    ({"from": 1e300}, "from must be a valid timestamp"),
    ({"from": "9" * 5000}, "from must be a valid timestamp"),
    ({"from": True}, "from must be a timestamp string or unix milliseconds"),
    ({"to": None}, "to must be a timestamp string or unix milliseconds"),
    ({"to": T0}, "to must be greater than from"),
    ({"interval": 60}, "interval must be a string"),
    ({"interval": "5m"}, "interval 5m is not configured for rollup req"),
    ({"interval": "60s"}, "interval 60s is not configured for rollup req"),
    ({"q": 1}, "q must be a string"),
    ({"group_by": "level"}, "group_by must be an array of strings"),
    ({"group_by": ["level", 1]}, "group_by[1] must be a string"),
    ({"group_by": ["ms"]}, "group_by field ms is not configured on rollup req"),
    ({"measures": []}, "measures must be a non-empty array of strings"),
    ({"measures": ["n", 1]}, "measures must be a non-empty array of strings"),
    ({"measures": ["x"]}, "unknown measure x on rollup req"),
]


@on_loop
async def test_what_cannot_be_answered_is_refused(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        whole = {"rollup": "req", "from": T0, "to": T0 + 1, "interval": "1m"}
        for given, message in REFUSED:
            body = given if isinstance(given, bytes) else json.dumps({**whole, **given} if given else given).encode()
            reply = await ask(node, "POST", f"{A}/_aggregate", JSON, body)
            assert (reply.status, json.loads(reply.body)["error"]["message"]) == (400, message)
        reply = await aggregate(node, **ASKED, q="level:")
        assert reply.status == 400
        assert "position" in json.loads(reply.body)["error"]
        assert (await ask(node, "POST", f"{A}/_aggregate", JSON, b"[" * (300 << 10))).status == 413
        assert (await aggregate(node, "/v1/stream/missing", **ASKED)).status == 404
        assert (await ask(node, "GET", f"{A}/_aggregate")).status == 405
        await create(node, "/v1/stream/plain", None)
        reply = await aggregate(node, "/v1/stream/plain", **ASKED)
        assert (reply.status, json.loads(reply.body)["error"]["message"]) == (
            400, "search is not configured for this stream",
        )  # fmt: skip


@on_loop
async def test_when_the_time_is_over_the_rest_is_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        await append(node, A, ENTRIES)
        monkeypatch.setattr("streams_node.http.aggregate._MS", 1e12)  # no time at all
        reply = await aggregate(node, **ASKED)
        assert reply.status == 408
        view = json.loads(reply.body)
        assert view["coverage"].pop("oldest_omitted_append_at") is not None
        expected = coverage(
            mode="published", complete=False, visible_through_offset=encode(0, 0),
            possible_missing_events_upper_bound=9, possible_missing_wal_rows=9, omitted=[[encode(0, 0), HEAD]],
        )  # fmt: skip
        del expected["oldest_omitted_append_at"]
        assert view == WHOLE | {"coverage": expected, "buckets": []}


@on_loop
async def test_a_cover_whose_edges_cannot_be_counted_is_left_out_as_a_whole(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        await append(node, A, ENTRIES)
        await sealed(node)
        assert await FakeDriver(node).finish()
        node.context.aggregates._scan_bytes = 0
        indexes = tiers_of(node).indexes
        assert indexes is not None
        indexes.views = None
        assert (await found(node, **ASKED))["buckets"] == WHOLE["buckets"]
        view = await found(node, **ASKED | {"begin": T0 + 1})
        assert view["buckets"] == []
        assert view["coverage"]["omitted"] == [[encode(0, 0), HEAD]]
        assert view["coverage"]["possible_missing_uploaded_segments"] == 1
        assert view["coverage"]["possible_missing_wal_rows"] == 0
        assert not view["coverage"]["used_rollups"]


@on_loop
async def test_a_busy_minute_at_an_edge_is_read_by_itself(tmp_path: Path) -> None:
    """And not the objects that it lies in: a minute of 50 entries a second, of three."""
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        await append(node, A, [{"at": T0 + 20 * number, "level": "x", "ms": 1} for number in range(9000)])
        await sealed(node)
        assert await FakeDriver(node).finish()
        asked: dict[str, Any] = {"rollup": "all", "interval": "1m", "begin": T0 + 15_000, "to": T0 + 160_010}
        view = await found(node, **asked)
        counts = [group["measures"]["n"]["count"] for bucket in view["buckets"] for group in bucket["groups"]]
        assert counts == [45 * 50, 60 * 50, 40 * 50 + 1]
        assert view["coverage"]["index_families_used"] == ["agg", "col"]
        assert (view["coverage"]["scanned_segments"], view["coverage"]["scanned_tail_docs"]) == (0, 0)
        assert view["coverage"]["complete"]


@on_loop
async def test_large_entries_at_an_edge_are_not_all_read_by_themselves(tmp_path: Path) -> None:
    """The rest is counted out of its objects, step by step: of 300 of 64 KiB behind 6000 small ones."""
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        await append(node, A, [{"at": T0 + 10 * number, "level": "x", "ms": 1} for number in range(6000)])
        for _ in range(20):
            await append(node, A, [{"at": T0 + 60_000 + number, "pad": "x" * 65_536} for number in range(15)])
        await sealed(node)
        assert await FakeDriver(node).finish()
        asked: dict[str, Any] = {"rollup": "all", "interval": "1m", "begin": T0, "to": T0 + 90_000}
        view = await found(node, **asked)
        counts = [group["measures"]["n"]["count"] for bucket in view["buckets"] for group in bucket["groups"]]
        assert counts == [6000, 300]
        assert view["coverage"]["complete"]
        assert view["coverage"]["scanned_segments"] > 0


@on_loop
async def test_an_answer_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams_node.searching.aggregates.GROUPS_MAX", 1)
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        await append(node, A, ENTRIES)
        reply = await aggregate(node, **ASKED)
        assert reply.status == 400
        assert "more than 1 groups" in json.loads(reply.body)["error"]["message"]
        assert (await aggregate(node, **ASKED | {"interval": "1h"})).status == 200


@on_loop
async def test_windows_larger_than_all_time_begin_or_end_in_1970(tmp_path: Path) -> None:
    search = json.loads(json.dumps(SEARCH))
    search["rollups"]["all"]["intervals"] = ["200000000d"]
    async with indexed(tmp_path / "node") as node:
        await create(node, A, {"schema": {"type": "object"}, "search": search})
        await append(node, A, [{"at": -1}, {"at": 0}, {"at": 8.64e15}])
        asked: dict[str, Any] = {"rollup": "all", "begin": -8.64e15, "to": 8.64e15, "interval": "200000000d"}
        for _ in range(2):
            view = await found(node, **asked)
            assert view["from"] == "-271821-04-20T00:00:00.000Z"
            assert view["to"] == "+275760-09-13T00:00:00.000Z"
            starts = [(bucket["start"], bucket["end"]) for bucket in view["buckets"]]
            edge = "1970-01-01T00:00:00.000Z"
            assert starts == [("-545612-08-07T00:00:00.000Z", edge), (edge, "+549551-05-28T00:00:00.000Z")]
            await sealed(node)
            await FakeDriver(node).finish()
