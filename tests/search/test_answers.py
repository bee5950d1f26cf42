"""Whole answers, word for word: what a search takes, what it gives, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from streams_node.protocol.offsets import encode
from tests.http.wire import ask
from tests.indexing.world import indexed, on_loop
from tests.search.both_ways import both_ways  # noqa: F401 - each page on the loop or in a thread
from tests.search.world import DECLARED, JSON, A, append, create, found, get, post

TIMES = ("took_ms", "scanned_tail_time_ms", "json_parse_time_ms", "sort_time_ms", "exact_candidate_time_ms",
         "scanned_segment_time_ms", "indexed_segment_time_ms", "fts_section_get_ms", "fts_decode_ms")  # fmt: skip
ENTRIES = [
    {"at": "2026-03-25T10:00:00Z", "level": "ERROR", "status": 500, "text": "card declined", "tags": ["a"]},
    {"at": 1774432800001, "level": "info", "status": 200, "text": "card card", "title": "ok", "n": 1.50},
    {"at": "2026-03-25T10:00:02.000001Z", "level": None, "status": "12", "text": ["other", "words"]},
]


def still(view: dict[str, Any]) -> dict[str, Any]:
    """Without times."""
    view["took_ms"] = 0
    view["coverage"].update({name: 0 for name in TIMES if name in view["coverage"]})
    return view


@on_loop
async def test_a_whole_answer(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await append(node, ENTRIES)
        reply = await post(node, q="level:error OR status:>=12", size=2)
        assert reply.status == 200
        head = encode(0, 3)
        view = json.loads(reply.body)
        assert view["coverage"].pop("segment_payload_bytes_fetched") > 0
        assert still(view) == {
            "stream": "a",
            "snapshot_end_offset": head,
            "took_ms": 0,
            "timed_out": False,
            "timeout_ms": 3000,
            "coverage": {
                "mode": "complete",
                "complete": True,
                "stream_head_offset": head,
                "visible_through_offset": head,
                "visible_through_primary_timestamp_max": None,
                "oldest_omitted_append_at": None,
                "possible_missing_events_upper_bound": 0,
                "possible_missing_uploaded_segments": 0,
                "possible_missing_sealed_rows": 0,
                "possible_missing_wal_rows": 0,
                "indexed_segments": 0,
                "indexed_segment_time_ms": 0,
                "fts_section_get_ms": 0,
                "fts_decode_ms": 0,
                "fts_clause_estimate_ms": 0,
                "scanned_segments": 0,
                "scanned_segment_time_ms": 0,
                "scanned_tail_docs": 3,
                "scanned_tail_time_ms": 0,
                "exact_candidate_time_ms": 0,
                "candidate_doc_ids": 0,
                "decoded_records": 3,
                "json_parse_time_ms": 0,
                "sort_time_ms": 0,
                "peak_hits_held": 3,
                "index_families_used": [],
                "omitted": [],
            },
            "total": {"value": 2, "relation": "gte"},
            "hits": [
                {
                    "offset": encode(0, 3),
                    "score": 0.0,
                    "sort": [encode(0, 3)],
                    "fields": {
                        "at": "2026-03-25T10:00:02.000001Z", "level": None, "status": "12", "text": ["other", "words"],
                    },
                    "source": ENTRIES[2],
                },
                {
                    "offset": encode(0, 2),
                    "score": 0.0,
                    "sort": [encode(0, 2)],
                    "fields": {
                        "at": 1774432800001, "level": "info", "status": 200, "text": "card card", "title": "ok",
                    },
                    "source": ENTRIES[1],
                },
            ],
            "next_search_after": [encode(0, 2)],
        }  # fmt: skip
        assert b'"n": 1.5' in reply.body or b'"n":1.5' in reply.body
        said = {name: value for name, value in reply.headers.items() if name.startswith("search-")}
        for name in ("search-took-ms", "search-segment-payload-bytes-fetched"):
            assert int(said.pop(name)) >= 0
        for name in TIMES[1:]:
            assert int(said.pop(f"search-{name.replace('_', '-')}")) >= 0
        assert said == {
            "search-timed-out": "false",
            "search-timeout-ms": "3000",
            "search-total-relation": "gte",
            "search-coverage-complete": "true",
            "search-indexed-segments": "0",
            "search-fts-clause-estimate-ms": "0",
            "search-scanned-segments": "0",
            "search-scanned-tail-docs": "3",
            "search-candidate-doc-ids": "0",
            "search-decoded-records": "3",
            "search-peak-hits-held": "3",
            "search-index-families-used": "",
        }
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["content-type"] == "application/json"


@on_loop
async def test_both_surfaces_and_both_methods_answer_alike(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, "/v1/stream/shop/b")
        await append(node, ENTRIES, "/v1/stream/shop/b")
        views = []
        for path in ("/v1/stream/shop/b", "/shop/b"):
            views.append(still(await found(node, path, q="card", sort=["status:asc", "offset"], size=1)))
            reply = await get(node, path, q="card", sort="status:asc,offset", size="1")
            assert reply.status == 200
            views.append(still(json.loads(reply.body)))
            assert (await ask(node, "HEAD", f"{path}/_search?q=card")).status == 200
        assert views[0]["stream"] == "shop/b"
        assert views[0]["hits"][0]["sort"] == [200, encode(0, 2)]
        assert all(view == views[0] for view in views)
        after = json.dumps(views[0]["next_search_after"])
        reply = await get(node, "/shop/b", q="card", sort="status:asc,offset", size="1", search_after=after)
        assert [hit["offset"] for hit in json.loads(reply.body)["hits"]] == [encode(0, 1)]


@on_loop
async def test_no_time_is_a_valid_answer(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await append(node, ENTRIES)
        for reply in (await post(node, q="card", timeout_ms=0), await get(node, q="card", timeout_ms="0")):
            assert reply.status == 408
            view = json.loads(reply.body)
            assert (view["timed_out"], view["timeout_ms"], view["hits"]) == (True, 0, [])
            assert view["total"] == {"value": 0, "relation": "gte"}
            coverage = view["coverage"]
            assert (coverage["complete"], coverage["mode"]) == (False, "published")
            assert coverage["visible_through_offset"] == encode(0, 0)
            assert coverage["possible_missing_events_upper_bound"] == coverage["possible_missing_wal_rows"] == 3
            assert coverage["omitted"] == [[encode(0, 0), encode(0, 3)]]
            assert coverage["oldest_omitted_append_at"] is not None
            assert reply.headers["search-timed-out"] == "true"
        view = await found(node, q="card", timeout_ms=60_000.7)
        assert view["timeout_ms"] == 3000


REFUSED: list[tuple[Any, str]] = [
    (b"{", "search request must be valid JSON"),
    (b"[]", "search request must be an object"),
    ({}, "q must be a string"),
    ({"q": 1}, "q must be a string"),
    ({"q": " "}, "q must not be empty"),
    ({"q": "card", "size": 0}, "size must be an integer between 1 and 500"),
    ({"q": "card", "size": 501}, "size must be an integer between 1 and 500"),
    ({"q": "card", "size": 1.5}, "size must be an integer between 1 and 500"),
    ({"q": "card", "size": "x"}, "size must be an integer between 1 and 500"),
    ({"q": "card", "size": True}, "size must be an integer between 1 and 500"),
    ({"q": "card", "sort": "offset"}, "sort must be an array of strings"),
    ({"q": "card", "sort": [1]}, "sort entries must be strings"),
    ({"q": "card", "sort": [""]}, "sort entries must not be empty"),
    ({"q": "card", "sort": ["offset:up"]}, "invalid sort direction for offset"),
    ({"q": "card", "sort": ["nope"]}, "unknown sort field nope"),
    ({"q": "card", "sort": ["text"]}, "search field text is not sortable"),
    ({"q": "card", "search_after": 1}, "search_after must be an array"),
    ({"q": "status:12", "search_after": ["bad"]}, "search_after element for offset cannot be read"),
    ({"q": "card", "sort": ["ok"], "search_after": ["bad", None]}, "search_after element for ok cannot be read"),
    ({"q": "card", "timeout_ms": "1"}, "timeout_ms must be a non-negative number"),
    ({"q": "card", "timeout_ms": -1}, "timeout_ms must be a non-negative number"),
    ({"q": "card", "track_total_hits": False}, "track_total_hits is no longer supported"),
    ({"q": "card", "explain": 3}, "explain must be true or false"),
    ({"q": "card", "format": "xml"}, "format must be one of json, ndjson, csv"),
    ({"q": "nope:1"}, "unknown search field nope"),
    ({"q": "status:-5"}, "expected value in fielded search clause"),
    ({"q": "contains:x"}, "contains: is not supported on _search yet"),
]  # fmt: skip


@on_loop
async def test_what_is_refused(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await append(node, ENTRIES)
        for asked, message in REFUSED:
            body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
            reply = await ask(node, "POST", f"{A}/_search", JSON, body)
            assert (reply.status, json.loads(reply.body)["error"]["message"]) == (400, message), asked
            assert json.loads(reply.body)["error"]["code"] == "bad_request"
        for query, message in (
            ("", "missing q"),
            ("q=", "q must not be empty"),
            ("q=card&search_after=x", "search_after must be a JSON array"),
            ("q=card&search_after=1", "search_after must be a JSON array"),
            ("q=card&q=card", "parameter `q` must be given once"),
            ("q=card&track_total_hits=1", "track_total_hits is no longer supported"),
            ("q=card&size=a", "size must be an integer between 1 and 500"),
            ("q=card&timeout_ms=a", "timeout_ms must be a non-negative number"),
        ):
            reply = await ask(node, "GET", f"{A}/_search?{query}")
            assert (reply.status, json.loads(reply.body)["error"]["message"]) == (400, message), query
        assert (await post(node, "/v1/stream/nobody", q="card")).status == 404
        assert (await ask(node, "PUT", f"{A}/_search", JSON)).status == 400
        reply = await ask(node, "DELETE", f"{A}/_search")
        assert (reply.status, reply.headers["allow"]) == (405, "GET, POST, HEAD")


@pytest.mark.parametrize("declared", [None, {"schema": {"type": "object"}}])
def test_a_stream_without_search_is_refused(tmp_path: Path, declared: dict[str, Any] | None) -> None:
    @on_loop
    async def look() -> None:
        async with indexed(tmp_path / "node") as node:
            if declared is None:
                assert (await ask(node, "PUT", A, JSON)).status == 201
            else:
                await create(node, A, declared)
            assert (await ask(node, "PUT", "/v1/stream/text", {"content-type": "text/plain"})).status == 201
            for path in (A, "/v1/stream/text"):
                reply = await post(node, path, q="card")
                assert reply.status == 400
                assert json.loads(reply.body)["error"]["message"] == "search is not configured for this stream"

    look()


@on_loop
async def test_a_hit_shows_where_the_words_are(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await append(node, [{"text": "the CARD was declined", "level": "card"}, {"title": "no such word"}])
        reply = await post(node, q="card OR level:card", highlight=True)
        (hit,) = json.loads(reply.body)["hits"]
        assert hit["highlight"]["text"] == [{"text": "the CARD was declined", "marks": [[4, 8]]}]
        (plain,) = json.loads((await post(node, q="card")).body)["hits"]
        assert "highlight" not in plain


@on_loop
async def test_other_forms(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await append(node, [*ENTRIES, {"text": 'a "card", \n x', "level": "=1"}])
        reply = await post(node, q="card", format="ndjson", sort=["offset:asc"])
        assert reply.headers["content-type"] == "application/x-ndjson"
        *hits, rest = [json.loads(line) for line in reply.body.splitlines()]
        assert [hit["offset"] for hit in hits] == [encode(0, 1), encode(0, 2), encode(0, 4)]
        assert rest["total"] == {"value": 3, "relation": "eq"}
        reply = await get(node, q="card", format="csv", sort="offset:asc")
        assert reply.headers["content-type"] == "text/csv; charset=utf-8"
        head, first, *_ = reply.body.decode().splitlines()
        assert head == "offset,score,at,dur,level,ok,status,text,title"
        assert first == f"{encode(0, 1)},{hits[0]['score']},2026-03-25T10:00:00Z,,ERROR,,500,card declined,"
        assert reply.headers["search-next-search-after"] == "null"


@on_loop
async def test_rows_can_be_paged(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await append(node, [{"text": f"card {number}", "level": f"é{number}"} for number in range(5)])
        rows, after, more = list[str](), "", dict[str, str]()
        while after != "null":
            reply = await get(node, q="card", format="csv", sort="level:asc", size="2", **more)
            assert reply.status == 200, reply
            rows += [row.split(",")[4] for row in reply.body.decode().splitlines()[1:]]
            more["search_after"] = after = reply.headers["search-next-search-after"]
        assert rows == [f"é{number}" for number in range(5)]
        await append(node, [{"text": "long card", "level": "~" + "x" * 5000}])
        reply = await get(node, q="long", format="csv", sort="level:asc", size="1")
        assert "search-next-search-after" not in reply.headers


@on_loop
async def test_a_place_of_another_life_or_beyond_the_end_is_refused(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await append(node, [{"text": f"card {number}"} for number in range(5)])
        page = await found(node, q="card", sort=["offset:asc"], size=3)
        assert page["next_search_after"] == [encode(0, 3)]
        assert len((await found(node, q="card", sort=["offset:asc"], search_after=[encode(0, 5)]))["hits"]) == 0
        assert len((await found(node, q="card", sort=["offset:asc"], search_after=[encode(0, 0)]))["hits"]) == 5
        for token in (encode(0, 6), encode(1, 2), encode(7, 0)):
            reply = await post(node, q="card", sort=["offset:asc"], search_after=[token])
            assert reply.status == 400, token
            assert b"search_after element for offset cannot be read" in reply.body
        await ask(node, "DELETE", A)
        await create(node)
        await append(node, [{"text": f"card {number}"} for number in range(6)])
        reply = await post(node, q="card", sort=["offset:asc"], search_after=page["next_search_after"])
        assert reply.status == 400, reply


@on_loop
async def test_older_entries_are_found_as_the_current_schema_has_them(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        old = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}
        new = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        await create(node, A, {**DECLARED, "schema": old})
        await append(node, [{"level": "info", "note": "old words"}])
        lens = {
            "apiVersion": "durable.lens/v1", "schema": "a", "from": 1, "to": 2,
            "ops": [{"op": "rename", "from": "/note", "to": "/text"}],
        }  # fmt: skip
        body = {"schema": new, "lens": lens, "search": DECLARED["search"]}
        reply = await ask(node, "POST", f"{A}/_schema", JSON, json.dumps(body).encode())
        assert reply.status == 200, reply
        await append(node, [{"text": "new words"}])
        view = await found(node, q="words")
        sources = [hit["source"] for hit in view["hits"]]
        assert sources == [{"text": "new words"}, {"level": "info", "text": "old words"}]
        assert view["hits"][1]["fields"] == {"level": "info", "text": "old words"}
