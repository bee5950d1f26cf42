"""Which refusal comes first, and that a refused request changes nothing: append and create, in the protocol's order."""

import json
from collections.abc import Callable, Mapping

import pytest

from streams_node.protocol.offsets import encode
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess
from tests.http.wire import Reply, ask

WithNode = Callable[..., None]
JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}
CLOSE = {"stream-closed": "true"}
NEXT = {"producer-id": "p", "producer-epoch": "1", "producer-seq": "1"}  # what producer `p` may send next
GAP = NEXT | {"producer-seq": "7"}
STALE = NEXT | {"producer-epoch": "0", "producer-seq": "0"}
JUMP = NEXT | {"producer-epoch": "2", "producer-seq": "3"}
RETRY = NEXT | {"producer-seq": "0"}
OLD_SEQ = {"stream-seq": "m"}

# From first to last: each line breaks one rule more than the ones below it, and its own refusal must win.
OPEN_JSON: list[tuple[Mapping[str, str], bytes, int, str]] = [
    ({"producer-id": "p"}, b"", 400, "bad_request"),
    (JSON | {"producer-id": "", "producer-epoch": "1", "producer-seq": "1"}, b"1", 400, "bad_request"),
    (JSON | NEXT | {"producer-epoch": "x"}, b"1", 400, "bad_request"),
    (GAP, b"", 400, "bad_request"),
    (GAP | OLD_SEQ, b"no json", 400, "bad_request"),
    (TEXT | STALE | OLD_SEQ, b"no json", 409, "content_type_mismatch"),
    (JSON | STALE | OLD_SEQ, b"no json", 400, "bad_request"),
    (JSON | STALE | OLD_SEQ, b"[]", 400, "bad_request"),
    (JSON | STALE | OLD_SEQ, b"1", 403, "producer_fenced"),
    (JSON | JUMP | OLD_SEQ, b"1", 400, "bad_request"),
    (JSON | GAP | OLD_SEQ, b"1", 409, "producer_gap"),
    (GAP | CLOSE, b"", 409, "producer_gap"),
    (STALE | CLOSE, b"", 403, "producer_fenced"),
    (JSON | NEXT | OLD_SEQ, b"1", 409, "sequence_regressed"),
    (JSON | OLD_SEQ | CLOSE, b"1", 409, "sequence_regressed"),
    (OLD_SEQ | CLOSE, b"", 409, "sequence_regressed"),
]
CLOSED_JSON: list[tuple[Mapping[str, str], bytes, int, str]] = [
    ({"producer-epoch": "1"}, b"", 400, "bad_request"),
    ({}, b"", 400, "bad_request"),
    ({}, b"1", 400, "bad_request"),
    (NEXT, b"1", 400, "bad_request"),
    (TEXT, b"no json", 409, "stream_closed"),
    (JSON, b"no json", 409, "stream_closed"),
    (JSON | OLD_SEQ, b"1", 409, "stream_closed"),
    (JSON | CLOSE, b"1", 409, "stream_closed"),
    (JSON | GAP, b"1", 409, "stream_closed"),
    (JSON | NEXT, b"1", 409, "stream_closed"),
    (NEXT | CLOSE, b"", 409, "stream_closed"),
]


async def prepared(node: InProcess) -> None:
    """A stream with three entries, a producer at (1, 0), and `Stream-Seq` at `m`."""
    await ask(node, "PUT", "/v1/stream/a", JSON, b"[1,2]")
    first = await ask(node, "POST", "/v1/stream/a", JSON | RETRY | OLD_SEQ, b"3")
    assert first.status == 200


@pytest.mark.parametrize(("headers", "body", "status", "code"), OPEN_JSON)
def test_a_refused_append_is_refused_for_the_first_reason_and_changes_nothing(
    with_node: WithNode, headers: Mapping[str, str], body: bytes, status: int, code: str
) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await prepared(node)
        refused(await ask(node, "POST", "/v1/stream/a", headers, body), status, code)
        after = await ask(node, "POST", "/v1/stream/a", JSON | NEXT | {"stream-seq": "n"}, b"4")
        assert (after.status, after.headers["stream-next-offset"]) == (200, encode(0, 4))
        assert (await ask(node, "GET", "/v1/stream/a")).body == b"[1,2,3,4]"

    with_node(test)


@pytest.mark.parametrize(("headers", "body", "status", "code"), CLOSED_JSON)
def test_a_closed_stream_refuses_for_the_first_reason(
    with_node: WithNode, headers: Mapping[str, str], body: bytes, status: int, code: str
) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await prepared(node)
        await ask(node, "POST", "/v1/stream/a", CLOSE)
        reply = await ask(node, "POST", "/v1/stream/a", headers, body)
        refused(reply, status, code)
        if code == "stream_closed":
            assert reply.headers["stream-next-offset"] == encode(0, 3)
            assert reply.headers["stream-closed"] == "true"
        assert (await ask(node, "POST", "/v1/stream/a", CLOSE)).status == 204

    with_node(test)


def test_the_duplicate_comes_before_the_old_sequence(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await prepared(node)
        reply = await ask(node, "POST", "/v1/stream/a", JSON | RETRY | OLD_SEQ, b"3")
        assert reply.status == 204
        # Nothing of a duplicate counts, so the sequence it carries does not either.
        await ask(node, "POST", "/v1/stream/a", JSON | RETRY | {"stream-seq": "z"}, b"3")
        assert (await ask(node, "POST", "/v1/stream/a", JSON | {"stream-seq": "n"}, b"4")).status == 204

    with_node(test)


def test_the_request_that_closed_the_stream_may_come_again(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await prepared(node)
        closing = JSON | NEXT | CLOSE
        assert (await ask(node, "POST", "/v1/stream/a", closing, b"4")).status == 200
        for again in (b"4", b"something else"):
            reply = await ask(node, "POST", "/v1/stream/a", closing, again)
            assert (reply.status, reply.headers["stream-closed"]) == (204, "true")
            assert reply.headers["stream-next-offset"] == encode(0, 4)
        assert (await ask(node, "POST", "/v1/stream/a", NEXT | CLOSE)).status == 204

    with_node(test)


@pytest.mark.parametrize("value", ["false", "yes", "1", "", " ", "true true", "truee", "tru"])
def test_stream_closed_counts_only_when_it_says_true(with_node: WithNode, value: str) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", TEXT | {"stream-closed": value})
        reply = await ask(node, "POST", "/v1/stream/a", TEXT | {"stream-closed": value}, b"x")
        assert reply.status == 204
        assert "stream-closed" not in reply.headers
        assert (await ask(node, "POST", "/v1/stream/a", {"stream-closed": value})).status == 400

    with_node(test)


@pytest.mark.parametrize("value", ["true", "TRUE", "True", "tRuE", " true "])
def test_stream_closed_counts_in_any_case(with_node: WithNode, value: str) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", TEXT)
        assert (await ask(node, "POST", "/v1/stream/a", {"stream-closed": value})).headers["stream-closed"] == "true"

    with_node(test)


# --- create ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (JSON, b"{"),
        (JSON, b"[1,]"),
        (JSON, b"\xff"),
        (JSON | CLOSE, b"no json"),
        (JSON | {"stream-ttl": "1", "stream-expires-at": "2099-01-01T00:00:00Z"}, b"1"),
        (JSON | {"stream-ttl": "03600"}, b"1"),
        (JSON | {"stream-expires-at": "tomorrow"}, b"1"),
        (JSON | {"producer-id": "p"}, b"1"),
        (JSON | NEXT, b"1"),
        ({"content-type": "nonsense"}, b"1"),
        (JSON | {"stream-seq": ""}, b"1"),
        (JSON | {"stream-timestamp": "later"}, b"1"),
        (JSON | {"content-length": "x"}, b"1"),
    ],
)
def test_a_refused_create_leaves_nothing_behind(with_node: WithNode, headers: Mapping[str, str], body: bytes) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/shop")
        for path in ("/shop/fresh", "/v1/stream/shop/fresh", "/v1/stream/other/fresh"):
            assert (await ask(node, "PUT", path, headers, body)).status in {400, 409}
            assert (await ask(node, "GET", path)).status == 404
        assert json.loads((await ask(node, "GET", "/shop")).body)["streams"] == 0
        assert (await ask(node, "GET", "/other")).status == 404
        reply = await ask(node, "PUT", "/shop/fresh", JSON, b"[]")
        assert (reply.status, reply.headers["stream-next-offset"]) == (201, encode(0, 0))

    with_node(test)


@pytest.mark.parametrize(
    ("again", "status"),
    [
        ({"content-type": "text/PLAIN; x=y", "stream-ttl": "60"}, 200),
        ({"content-type": "text/plain", "stream-ttl": "1m"}, 200),
        ({"content-type": "text/plain", "stream-ttl": "61"}, 409),
        ({"content-type": "text/plain"}, 409),
        ({"stream-ttl": "60"}, 409),
        ({"content-type": "text/html", "stream-ttl": "60"}, 409),
        ({"content-type": "text/plain", "stream-ttl": "60", "stream-closed": "true"}, 409),
        ({"content-type": "text/plain", "stream-expires-at": "2099-01-01T00:00:00Z"}, 409),
    ],
)
def test_a_repeated_create_compares_what_was_asked_for(
    with_node: WithNode, again: Mapping[str, str], status: int
) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", TEXT | {"stream-ttl": "60"}, b"x")
        reply = await ask(node, "PUT", "/v1/stream/a", again, b"ignored")
        assert reply.status == status
        assert (await ask(node, "GET", "/v1/stream/a")).body == b"x"

    with_node(test)


def test_a_create_applies_producer_and_sequence_with_its_body(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", JSON | RETRY | OLD_SEQ, b"[1]")
        refused(await ask(node, "POST", "/v1/stream/a", JSON | OLD_SEQ, b"2"), 409, "sequence_regressed")
        assert (await ask(node, "POST", "/v1/stream/a", JSON | RETRY, b"1")).status == 204
        assert (await ask(node, "POST", "/v1/stream/a", JSON | NEXT, b"2")).status == 200
        assert (await ask(node, "GET", "/v1/stream/a")).body == b"[1,2]"

    with_node(test)


@pytest.mark.parametrize(
    "path",
    ["/v1/stream/a/snapshot", "/v1/stream/a/pk/k", "/v1/stream/a/_search", "/shop/a/touch/wait", "/shop/streams",
     "/v1/stream/__mine__", "/v1/stream/metrics/a"],
)  # fmt: skip
def test_a_path_of_the_node_can_not_be_created(with_node: WithNode, path: str) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/shop")
        reply = await ask(node, "PUT", path, TEXT, b"x")
        assert reply.status in {400, 405}, reply
        assert (await ask(node, "GET", path)).status in ({501} if "touch" in path else {200, 400, 404})

    with_node(test)


def refused(reply: Reply, status: int, code: str) -> None:
    assert (reply.status, json.loads(reply.body)["error"]["code"]) == (status, code), reply
