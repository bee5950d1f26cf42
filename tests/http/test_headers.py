"""The headers of every operation, exactly: nothing missing, nothing twice, nothing that says more than it should."""

import json
from collections.abc import Callable

from streams_node.protocol.cursors import cursor
from streams_node.protocol.offsets import encode
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess
from tests.http.event_streams import events_of
from tests.http.wire import SECURITY, Reply, ask

WithNode = Callable[..., None]
JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain; charset=utf-8"}
SHARED = "public, max-age=60, stale-while-revalidate=300"
CORS = ("access-control-allow-origin", "access-control-expose-headers")
EXPOSED = {
    "stream-next-offset", "stream-cursor", "stream-up-to-date", "stream-closed", "stream-sse-data-encoding",
    "producer-epoch", "producer-seq", "producer-expected-seq", "producer-received-seq", "etag", "location",
    "content-type", "content-encoding", "vary", "retry-after", "stream-end-offset", "stream-earliest-offset",
    "stream-ttl", "stream-expires-at",
}  # fmt: skip
ACCEPTED = {
    "content-type", "authorization", "if-none-match", "stream-seq", "stream-ttl", "stream-expires-at", "stream-closed",
    "producer-id", "producer-epoch", "producer-seq", "stream-forked-from", "stream-fork-offset",
    "stream-fork-sub-offset",
}  # fmt: skip


def expect(reply: Reply, status: int, **headers: str) -> None:
    """Status and headers, names with `_` for `-`. The security lines are always there, CORS has its own tests."""
    assert reply.status == status, reply
    assert reply.without(CORS) == SECURITY | {name.replace("_", "-"): value for name, value in headers.items()}


def producer(epoch: int, seq: int, *, id_: str = "p") -> dict[str, str]:
    return {"producer-id": id_, "producer-epoch": str(epoch), "producer-seq": str(seq)}


def listed(value: str) -> set[str]:
    return {name.strip() for name in value.split(",")}


# --- create ---------------------------------------------------------------------------------------------------------


def test_create(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        path = "/v1/stream/a%20b"
        reply = await ask(node, "PUT", path, JSON, b"[1,2]")
        expect(reply, 201, content_type="application/json", stream_next_offset=encode(0, 2), content_length="0",
               location="http://node.test/v1/stream/a%20b")  # fmt: skip
        assert reply.body == b""
        again = await ask(node, "PUT", path, {"content-type": "Application/JSON; charset=x"}, b"not even JSON")
        expect(again, 200, content_type="application/json", stream_next_offset=encode(0, 2), content_length="0")

    with_node(test)


def test_create_closed_with_a_producer(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        reply = await ask(node, "PUT", "/v1/stream/a", TEXT | producer(3, 0) | {"stream-closed": "TRUE"}, b"all")
        expect(reply, 201, content_type=TEXT["content-type"], stream_next_offset=encode(0, 1), content_length="0",
               location="http://node.test/v1/stream/a", stream_closed="true", producer_epoch="3",
               producer_seq="0")  # fmt: skip

    with_node(test)


def test_create_without_a_type_is_bytes(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        reply = await ask(node, "PUT", "/v1/stream/a")
        assert reply.headers["content-type"] == "application/octet-stream"

    with_node(test)


def test_the_location_is_where_the_client_wrote_to(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/shop")
        assert (await ask(node, "PUT", "/shop/a")).headers["location"] == "http://node.test/shop/a"
        bare = await ask(node, "PUT", "/v1/stream/b", host=False)
        assert bare.headers["location"] == "http://127.0.0.1:4437/v1/stream/b"

    with_node(test)


def test_the_location_is_the_public_address_if_there_is_one(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        reply = await ask(node, "PUT", "/v1/stream/a")
        assert reply.headers["location"] == "https://streams.example.com/base/v1/stream/a"

    with_node(test, public_url="https://streams.example.com/base/")


# --- append ---------------------------------------------------------------------------------------------------------


def test_append(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", JSON)
        expect(await ask(node, "POST", "/v1/stream/a", JSON, b"[1,2,3]"), 204, stream_next_offset=encode(0, 3))
        stored = await ask(node, "POST", "/v1/stream/a", JSON | producer(0, 0), b"4")
        expect(stored, 200, stream_next_offset=encode(0, 4), content_length="0", producer_epoch="0", producer_seq="0")
        await ask(node, "POST", "/v1/stream/a", JSON | producer(0, 1), b"5")
        twice = await ask(node, "POST", "/v1/stream/a", JSON | producer(0, 0), b"4")
        expect(twice, 204, stream_next_offset=encode(0, 5), producer_epoch="0", producer_seq="1")

    with_node(test)


def test_close(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", TEXT, b"x")
        closing = {"stream-closed": "true"}
        for _again in range(2):
            reply = await ask(node, "POST", "/v1/stream/a", closing | {"content-type": "what/ever"})
            expect(reply, 204, stream_next_offset=encode(0, 1), stream_closed="true")
        refused = await ask(node, "POST", "/v1/stream/a", TEXT, b"y")
        problem(refused, 409, "stream_closed", stream_closed="true", stream_next_offset=encode(0, 1))

    with_node(test)


def test_append_and_close_with_a_producer(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", TEXT)
        said = TEXT | producer(0, 0) | {"stream-closed": "true"}
        facts = {
            "stream_next_offset": encode(0, 1),
            "stream_closed": "true",
            "producer_epoch": "0",
            "producer_seq": "0",
        }
        expect(await ask(node, "POST", "/v1/stream/a", said, b"end"), 200, content_length="0", **facts)
        expect(await ask(node, "POST", "/v1/stream/a", said, b"end"), 204, **facts)

    with_node(test)


def test_refused_appends(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", TEXT)
        await ask(node, "POST", "/v1/stream/a", TEXT | producer(2, 0) | {"stream-seq": "b"}, b"x")
        gap = await ask(node, "POST", "/v1/stream/a", TEXT | producer(2, 5), b"x")
        problem(gap, 409, "producer_gap", producer_expected_seq="1", producer_received_seq="5")
        assert json.loads(gap.body)["error"] | {"expected_seq": 1, "received_seq": 5} == json.loads(gap.body)["error"]
        fenced = await ask(node, "POST", "/v1/stream/a", TEXT | producer(1, 0), b"x")
        problem(fenced, 403, "producer_fenced", producer_epoch="2")
        problem(await ask(node, "POST", "/v1/stream/a", TEXT | producer(3, 1), b"x"), 400, "bad_request")
        problem(await ask(node, "POST", "/v1/stream/a", JSON, b"1"), 409, "content_type_mismatch")
        problem(await ask(node, "POST", "/v1/stream/a", TEXT | {"stream-seq": "b"}, b"x"), 409, "sequence_regressed")
        problem(await ask(node, "POST", "/v1/stream/nope", TEXT, b"x"), 404, "not_found")

    with_node(test)


# --- read -----------------------------------------------------------------------------------------------------------


def test_read_to_the_end(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", JSON, b"[1,2]")
        reply = await ask(node, "GET", "/v1/stream/a")
        expect(reply, 200, content_type="application/json", stream_next_offset=encode(0, 2),
               stream_end_offset=encode(0, 2), stream_up_to_date="true", etag='"1:0:2"', cache_control=SHARED,
               content_length="5")  # fmt: skip
        assert reply.body == b"[1,2]"
        cached = await ask(node, "GET", "/v1/stream/a", {"if-none-match": 'W/"x", "1:0:2"'})
        expect(cached, 304, content_type="application/json", stream_next_offset=encode(0, 2),
               stream_end_offset=encode(0, 2), stream_up_to_date="true", etag='"1:0:2"',
               cache_control=SHARED)  # fmt: skip
        assert cached.body == b""
        assert set(CORS) <= set(cached.headers)

    with_node(test)


def test_read_a_page_of_a_closed_stream(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", TEXT | {"stream-closed": "true"}, b"one")
        await ask(node, "PUT", "/v1/stream/b", JSON | {"stream-closed": "true"}, b'["one","two"]')
        part = await ask(node, "GET", "/v1/stream/b?offset=-1&max_bytes=6")
        expect(part, 200, content_type="application/json", stream_next_offset=encode(0, 1),
               stream_end_offset=encode(0, 2), etag='"2:0:1"', cache_control=SHARED, content_length="7")  # fmt: skip
        rest = await ask(node, "GET", f"/v1/stream/b?offset={encode(0, 1)}")
        expect(rest, 200, content_type="application/json", stream_next_offset=encode(0, 2), stream_closed="true",
               stream_end_offset=encode(0, 2), stream_up_to_date="true", etag='"2:1:2:c"', cache_control=SHARED,
               content_length="7")  # fmt: skip
        raw = await ask(node, "GET", "/v1/stream/b?format=raw")
        assert (raw.headers["etag"], raw.body) == ('"2:0:2:raw:c"', b'"one""two"')

    with_node(test)


def test_read_from_now(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", JSON | {"stream-closed": "true"}, b"[1,2]")
        reply = await ask(node, "GET", "/v1/stream/a?offset=now", {"if-none-match": "*"})
        expect(reply, 200, content_type="application/json", stream_next_offset=encode(0, 2), stream_closed="true",
               stream_end_offset=encode(0, 2), stream_up_to_date="true", cache_control="no-store",
               content_length="2")  # fmt: skip
        assert reply.body == b"[]"

    with_node(test)


def test_an_offset_beyond_the_end_names_the_end_in_every_mode(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", TEXT, b"x")
        for mode in ("", "&live=long-poll", "&live=sse"):
            reply = await ask(node, "GET", f"/v1/stream/a?offset={encode(0, 2)}{mode}")
            problem(reply, 400, "bad_request", stream_next_offset=encode(0, 1))

    with_node(test)


def test_an_offset_of_an_earlier_life_is_gone(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", TEXT, b"x")
        await ask(node, "DELETE", "/v1/stream/a")
        await ask(node, "PUT", "/v1/stream/a", TEXT, b"y")
        reply = await ask(node, "GET", f"/v1/stream/a?offset={encode(0, 1)}")
        problem(reply, 410, "gone", stream_next_offset=encode(1, 0), stream_earliest_offset=encode(1, 0))

    with_node(test)


def test_long_poll_with_entries(with_node: WithNode) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", TEXT, b"x")
        reply = await ask(node, "GET", "/v1/stream/a?offset=-1&live=long-poll")
        expect(reply, 200, content_type=TEXT["content-type"], stream_next_offset=encode(0, 1), content_length="1",
               stream_end_offset=encode(0, 1), stream_up_to_date="true", etag='"1:0:1"', cache_control=SHARED,
               stream_cursor=now_cursor(clock))  # fmt: skip

    with_node(test)


def test_long_poll_without_entries(with_node: WithNode) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", TEXT, b"x")
        for live in ("long-poll", "true"):
            reply = await ask(node, "GET", f"/v1/stream/a?offset=now&live={live}&timeout_ms=0")
            expect(reply, 204, stream_next_offset=encode(0, 1), stream_end_offset=encode(0, 1),
                   stream_up_to_date="true", cache_control="no-store", stream_cursor=now_cursor(clock))  # fmt: skip
        await ask(node, "POST", "/v1/stream/a", {"stream-closed": "true"})
        closed = await ask(node, "GET", "/v1/stream/a?offset=now&live=long-poll")
        expect(closed, 204, stream_next_offset=encode(0, 1), stream_end_offset=encode(0, 1), stream_up_to_date="true",
               cache_control="no-store", stream_closed="true")  # fmt: skip

    with_node(test)


def test_a_cursor_moves_on_from_the_one_that_came(with_node: WithNode) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", TEXT, b"x")
        seen = now_cursor(clock)
        reply = await ask(node, "GET", f"/v1/stream/a?offset=-1&live=long-poll&cursor={seen}")
        assert int(reply.headers["stream-cursor"]) > int(seen)

    with_node(test)


def test_event_stream(with_node: WithNode) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", TEXT, b"x")
        await ask(node, "PUT", "/v1/stream/b", None, b"\0")
        facts = {"content_type": "text/event-stream", "cache_control": "no-cache, no-store", "x_accel_buffering": "no",
                 "stream_next_offset": encode(0, 0), "stream_end_offset": encode(0, 1)}  # fmt: skip
        text = await ask(node, "GET", "/v1/stream/a?offset=-1&live=sse")
        expect(text, 200, **facts)
        binary = await ask(node, "GET", "/v1/stream/b?offset=-1&live=sse")
        expect(binary, 200, **facts, stream_sse_data_encoding="base64")
        said = {"streamNextOffset": encode(0, 1), "streamCursor": now_cursor(clock), "upToDate": True}
        for reply, data in ((text, b"x"), (binary, b"AA==")):
            events = events_of(reply.body)
            assert [(event.kind, event.data) for event in events[:1]] == [("data", data)]
            assert [json.loads(event.data) for event in events[1:]] == [said]

    with_node(test)


# --- what is known --------------------------------------------------------------------------------------------------


def test_head(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", JSON | {"stream-ttl": "24h"}, b"[1]")
        facts = {"content_type": "application/json", "stream_next_offset": encode(0, 1), "cache_control": "no-store",
                 "stream_end_offset": encode(0, 1)}  # fmt: skip
        reply = await ask(node, "HEAD", "/v1/stream/a")
        expect(reply, 200, **facts, etag='"1:0:1"', stream_ttl="86400")
        assert reply.body == b""
        cached = await ask(node, "HEAD", "/v1/stream/a", {"if-none-match": '"1:0:1"'})
        expect(cached, 304, **facts, etag='"1:0:1"', stream_ttl="86400")
        await ask(node, "POST", "/v1/stream/a", {"stream-closed": "true"})
        closed = await ask(node, "HEAD", "/v1/stream/a", {"if-none-match": '"1:0:1"'})
        expect(closed, 200, **facts, etag='"1:0:1:c"', stream_ttl="86400", stream_closed="true")

    with_node(test)


def test_the_end_that_head_shows_is_the_end_that_was_asked_for(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        for name, asked, shown in (
            ("a", "2099-01-01T01:00:00+01:00", "2099-01-01T00:00:00.000Z"),
            ("b", "2099-01-01T00:00:00.123456789Z", "2099-01-01T00:00:00.123456Z"),
        ):
            path = f"/v1/stream/{name}"
            assert (await ask(node, "PUT", path, {"stream-expires-at": asked})).status == 201
            assert (await ask(node, "HEAD", path)).headers["stream-expires-at"] == shown
            assert (await ask(node, "PUT", path, {"stream-expires-at": shown})).status == 200

    with_node(test)


def test_delete(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a")
        expect(await ask(node, "DELETE", "/v1/stream/a"), 204)
        problem(await ask(node, "DELETE", "/v1/stream/a"), 404, "not_found")

    with_node(test)


# --- buckets and the rest -------------------------------------------------------------------------------------------


def test_buckets(with_node: WithNode) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        made = {"bucket_id": "shop", "streams": 0, "created_at_ms": clock() // 1000}
        for method, status in (("PUT", 201), ("GET", 200)):
            reply = await ask(node, method, "/shop")
            expect(reply, status, content_type="application/json", cache_control="no-store",
                   content_length=str(len(reply.body)))  # fmt: skip
            assert json.loads(reply.body) == made
        problem(await ask(node, "PUT", "/shop"), 409, "bucket_exists")
        await ask(node, "PUT", "/shop/a", JSON, b"[1,2,3]")
        listing = json.loads((await ask(node, "GET", "/shop/streams")).body)
        stream = {"stream_id": "a", "status": "Open", "content_type": "application/json", "tail_offset": 3,
                  "created_at_ms": clock() // 1000, "last_write_at_ms": clock() // 1000}  # fmt: skip
        assert listing == {"bucket_id": "shop", "prefix": "", "stream_count": 1, "streams": [stream],
                           "next_cursor": None, "has_more": False}  # fmt: skip
        problem(await ask(node, "DELETE", "/shop"), 409, "bucket_not_empty")
        await ask(node, "DELETE", "/shop/a")
        expect(await ask(node, "DELETE", "/shop"), 204, cache_control="no-store")
        problem(await ask(node, "GET", "/shop"), 404, "not_found")

    with_node(test)


def test_preflight_anywhere(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        asked = {"origin": "https://app.example", "access-control-request-method": "GET",
                 "access-control-request-headers": "if-none-match"}  # fmt: skip
        for path in ("/v1/stream/nope", "/nope", "/", "/shop/a", "/v1/stream/a/b/c", "/v1/streams", "/%ff", "/metrics"):
            reply = await ask(node, "OPTIONS", path, asked)
            assert reply.status == 204, path
            headers = reply.headers
            assert headers["access-control-allow-origin"] == "*"
            assert listed(headers["access-control-allow-methods"]) >= {
                "GET",
                "POST",
                "PUT",
                "DELETE",
                "HEAD",
                "OPTIONS",
            }
            assert listed(headers["access-control-allow-headers"]) >= ACCEPTED
            assert listed(headers["access-control-expose-headers"]) >= EXPOSED
            assert reply.without(CORS, SECURITY).keys() == {
                "access-control-allow-methods", "access-control-allow-headers", "access-control-max-age",
            }  # fmt: skip

    with_node(test)


def test_a_browser_may_read_every_answer(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        origin = {"origin": "https://app.example"}
        requests = [
            ("PUT", "/v1/stream/a", TEXT, b"x"), ("PUT", "/v1/stream/a", TEXT, b""), ("PUT", "/v1/stream/a", JSON, b""),
            ("POST", "/v1/stream/a", TEXT, b"y"), ("GET", "/v1/stream/a", {}, b""), ("HEAD", "/v1/stream/a", {}, b""),
            ("GET", "/v1/stream/a?offset=now", {}, b""), ("GET", "/v1/stream/a?offset=now&live=sse", {}, b""),
            ("GET", "/v1/stream/a?offset=now&live=true&timeout=1", {}, b""), ("DELETE", "/v1/stream/a", {}, b""),
            ("GET", "/v1/stream/a", {}, b""), ("PATCH", "/v1/stream/a", {}, b""), ("PUT", "/shop", {}, b""),
            ("GET", "/shop/streams", {}, b""), ("GET", "/v1/streams", {}, b""), ("GET", "/nope/at/all", {}, b""),
            ("GET", "/health", {}, b""), ("DELETE", "/shop", {}, b""),
        ]  # fmt: skip
        for method, path, headers, body in requests:
            reply = await ask(node, method, path, headers | origin, body)
            assert reply.headers["access-control-allow-origin"] == "*", (method, path)
            assert listed(reply.headers["access-control-expose-headers"]) >= EXPOSED, (method, path)
            assert reply.headers["x-content-type-options"] == "nosniff", (method, path)

    with_node(test)


def test_reads_say_cors_to_everybody_because_caches_keep_them(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", TEXT, b"x")
        for query in ("", "?offset=-1&live=true"):
            assert set(CORS) <= set((await ask(node, "GET", f"/v1/stream/a{query}")).headers)

    with_node(test)


def test_head_is_answered_wherever_get_is(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/shop")
        paths = ["/", "/health", "/livez", "/readyz", "/metrics", "/docs", "/openapi.json", "/v1/streams", "/shop"]
        for path in (*paths, "/shop/streams", "/nope", "/v1/streams?limit=x"):
            got, head = await ask(node, "GET", path), await ask(node, "HEAD", path)
            assert (head.status, head.headers.keys()) == (got.status, got.headers.keys()), path
            if got.status == 200:
                assert head.body == b""
                assert path == "/metrics" or head.headers["content-length"] == got.headers["content-length"]

    with_node(test)


def test_a_method_that_is_not_offered_is_told_what_is(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a")
        for method, path, allowed in (
            ("PATCH", "/v1/stream/a", "GET, HEAD, OPTIONS, POST, PUT, DELETE"),
            ("TRACE", "/v1/stream/nope", "GET, HEAD, OPTIONS, POST, PUT, DELETE"),
            ("POST", "/shop", "DELETE, GET, HEAD, PUT"),
            ("DELETE", "/shop/streams", "GET, HEAD"),
            ("POST", "/health", "GET, HEAD"),
            ("PUT", "/v1/streams", "GET, HEAD"),
        ):
            reply = await ask(node, method, path)
            problem(reply, 405, "method_not_allowed", allow=reply.headers.get("allow", ""))
            assert listed(reply.headers["allow"]) - {"OPTIONS"} == listed(allowed) - {"OPTIONS"}, (method, path)

    with_node(test)


def test_with_a_key_reads_are_private_and_a_refusal_names_the_scheme(with_node: WithNode) -> None:
    key = "0123456789abcdef"

    async def test(node: InProcess, _: FakeClock) -> None:
        for wrong in (
            {}, {"authorization": key}, {"authorization": "Bearer " + key + "x"}, {"authorization": "Basic " + key},
            {"authorization": "Bearer"}, {"authorization": ""},
        ):  # fmt: skip
            for method, path in (
                ("GET", "/v1/stream/a"), ("PUT", "/v1/stream/a"), ("GET", "/shop"), ("GET", "/metrics"),
                ("GET", "/v1/streams"), ("POST", "/shop/a"),
            ):  # fmt: skip
                reply = await ask(node, method, path, wrong)
                problem(reply, 401, "unauthorized", www_authenticate="Bearer")
        right = {"authorization": f"bearer  {key}"}
        assert (await ask(node, "PUT", "/v1/stream/a", right | TEXT, b"x")).status == 201
        reply = await ask(node, "GET", "/v1/stream/a", right)
        assert reply.headers["cache-control"] == "private, max-age=60, stale-while-revalidate=300"
        for method, path in (("GET", "/health"), ("GET", "/readyz"), ("GET", "/livez"), ("OPTIONS", "/v1/stream/a")):
            assert (await ask(node, method, path)).status < 300

    with_node(test, no_auth=False, api_key=key)


def test_an_error_carries_the_clients_request_id_if_it_is_harmless(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        reply = await ask(node, "GET", "/v1/stream/nope", {"x-request-id": "abc-123"})
        assert reply.headers["x-request-id"] == "abc-123"
        reply = await ask(node, "GET", "/v1/stream/nope", [(b"x-request-id", b"a b\xff" * 50)])
        assert reply.headers["x-request-id"].isalnum()

    with_node(test)


def problem(reply: Reply, status: int, code: str, **headers: str) -> None:
    """An error in its one shape."""
    error = json.loads(reply.body)["error"]
    assert (reply.status, error["code"]) == (status, code), reply
    assert isinstance(error["message"], str)
    assert error["message"]
    assert reply.without(CORS, ["x-request-id"]) == SECURITY | {
        "content-type": "application/json", "cache-control": "no-store", "content-length": str(len(reply.body)),
    } | {name.replace("_", "-"): value for name, value in headers.items()}  # fmt: skip


def now_cursor(clock: FakeClock) -> str:
    return cursor(clock() / 1_000_000, None, 0.5)
