"""Other forms of a page, byte for byte; and pages that end before they have too many bytes."""

import csv
import io
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streams_node.protocol.offsets import encode
from tests.http.wire import Reply, ask
from tests.indexing.world import FakeDriver, indexed, on_loop, sealed
from tests.search.world import JSON, A, append, create, get, post
from tests.search_across.world import BUCKET, Found, bucket, expected, put, search

FORMULAS = ["=1+1", "+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff201"]
PLAIN = ["'=1", "a=1", " =1", '"quoted", with a comma', "two\nlines", "", "naïve"]


def table(reply: Reply) -> list[list[str]]:
    return list(csv.reader(io.StringIO(reply.body.decode(), newline="")))


@on_loop
async def test_a_row_a_hit_byte_for_byte(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await append(node, [
            {"level": "=cmd|' /C calc'!A0", "text": ['a "b"', "c,d"], "status": -5, "at": None, "ok": True},
            {"level": "x", "text": "two\nlines", "dur": -1.5},
        ])  # fmt: skip
        reply = await get(node, q="NOT status:1", format="csv", sort="offset:asc")
        assert reply.headers["content-type"] == "text/csv; charset=utf-8"
        assert (
            reply.body
            == (
                "offset,score,at,dur,level,ok,status,text,title\r\n"
                f'{encode(0, 1)},0.0,,,\'=cmd|\' /C calc\'!A0,true,-5,"[""a \\""b\\"""", ""c,d""]",\r\n'
                f'{encode(0, 2)},0.0,,-1.5,x,,,"two\nlines",\r\n'
            ).encode()
        )


@on_loop
async def test_no_text_of_a_row_is_a_formula(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await append(node, [{"level": text, "status": 1} for text in (*FORMULAS, *PLAIN)])
        head, *rows = table(await post(node, q="status:1", format="csv", sort=["offset:asc"]))
        at = head.index("level")
        assert [row[at] for row in rows] == [*(f"'{text}" for text in FORMULAS), *PLAIN]


@on_loop
async def test_a_line_a_hit_byte_for_byte(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        # As it is stored: with line ends of its own, outside of texts.
        body = b'[{\n  "text": "card\\nx",\r\n  "n": 1.50\n}]'
        assert (await ask(node, "POST", A, JSON, body)).status == 204
        reply = await post(node, q="card", format="ndjson", sort=["offset:asc"], highlight=True, explain=True)
        assert reply.headers["content-type"] == "application/x-ndjson"
        hit, rest, end = reply.body.split(b"\n")
        assert end == b""
        assert json.loads(hit) == {
            "offset": encode(0, 1), "score": json.loads(hit)["score"], "sort": [encode(0, 1)],
            "fields": {"text": "card\nx"}, "source": {"text": "card\nx", "n": 1.5},
            "highlight": {"text": [{"text": "card\nx", "marks": [[0, 4]]}]},
        }  # fmt: skip
        assert b'"n": 1.50' in hit
        assert list(json.loads(rest)) == [
            "stream", "snapshot_end_offset", "took_ms", "timed_out", "timeout_ms", "coverage", "total",
            "next_search_after", "explain",
        ]  # fmt: skip
        reply = await post(node, q="card", format="ndjson", timeout_ms=0)
        (rest, end) = reply.body.split(b"\n")
        assert (reply.status, json.loads(rest)["timed_out"], end) == (408, True, b"")


@on_loop
async def test_forms_of_a_bucket(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await bucket(node, ["=a", "b"])
        for name in ("=a", "b"):
            await put(node, name, [{"text": "card", "status": 1}])
        rows = table(await search(node, q="status:1", format="csv", sort=["offset"]))
        assert rows == [
            ["stream_id", "offset", "score", "at", "dur", "level", "ok", "status", "text", "title"],
            ["'=a", encode(0, 1), "0.0", "", "", "", "", "1", "card", ""],
            ["b", encode(0, 1), "0.0", "", "", "", "", "1", "card", ""],
        ]
        reply = await search(node, "?format=ndjson", q="status:1", sort=["offset"])
        first, second, rest = map(json.loads, reply.body.splitlines())
        assert [first["stream_id"], second["stream_id"]] == ["=a", "b"]
        assert first["sort"] == [encode(0, 1), "=a"]
        assert rest["coverage"]["streams"]["searched"] == 2
        assert "hits" not in rest


@pytest.mark.parametrize("seed", range(3))
def test_pages_end_before_they_are_too_large(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of all sizes: none is skipped, and none is on two pages."""
    limit = 60_000
    monkeypatch.setattr("streams_node.searching.answer.PAGE_BYTES_MAX", limit)
    monkeypatch.setattr("streams_node.searching.across.PAGE_BYTES_MAX", limit)
    random = Random(seed)
    streams: dict[str, list[Any]] = {name: [] for name in ("a", "b", "c")}

    async def walk(node: Any, sort: list[str], path: str | None = None) -> list[Found]:
        found: list[Found] = []
        after, short = None, 0
        while True:
            asked: dict[str, Any] = {"q": "status:1", "sort": sort, "size": 20, "search_after": after}
            reply = await (search(node, **asked) if path is None else post(node, path, **asked))
            assert reply.status == 200, reply
            view = json.loads(reply.body)
            assert view["coverage"]["complete"]
            found += [(hit.get("stream_id", "a"), hit["source"]["seq"]) for hit in view["hits"]]
            sizes = [len(json.dumps(hit["source"])) for hit in view["hits"]]
            if path is None:
                assert sum(sizes[:-1]) < limit
            after = view["next_search_after"]
            short += after is not None and len(sizes) < 20
            if after is None:
                assert short
                return found

    @on_loop
    async def run() -> None:
        async with indexed(tmp_path / "node") as node:
            await bucket(node, list(streams))
            for _ in range(2):
                for name, entries in streams.items():
                    fresh = [
                        {"status": 1, "at": random.randrange(5), "seq": len(entries) + at, "x": "y" * size}
                        for at, size in enumerate(random.choices((10, 1000, 30_000, 70_000), k=25))
                    ]
                    entries.extend(fresh)
                    await put(node, name, fresh)
                await sealed(node)
                await FakeDriver(node).finish()
            for sort in (["at", "offset:asc"], ["offset"]):
                assert await walk(node, sort) == expected(streams, "status:1", sort)
                alone = {"a": streams["a"]}
                assert await walk(node, sort, f"/{BUCKET}/a") == expected(alone, "status:1", sort)

    run()
