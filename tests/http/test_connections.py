"""What only a socket shows of a connection: requests in a row, clients that leave or do not read, caps, keys, ports."""

import json
import random
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import Mock

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from streams_node.config import Settings
from streams_node.http.connection import protocol_of
from streams_node.http.connections import Connections
from tests.http.hostile import Case, corpus
from tests.http.listener import BODY_MAX, Listener, Raw, chunked, content, get, listening, post, put

KEY = "0123456789abcdef"

# --- one after the other --------------------------------------------------------------------------------------------


def test_requests_in_a_row_are_answered_in_order(node: Listener, path: str) -> None:
    new = path + "-new"
    requests = [
        put(new, b"a"), post(new, b"b"), chunked(new, b"c", b"d"), get(new), get(new, method="HEAD"),
        get(path + "-nope"), post(new, b"", headers=b"stream-closed: true\r\n"), post(new, b"e"), get(new),
        get(new, method="DELETE"), get(new), get("/health"),
    ]  # fmt: skip
    with node.connect() as raw:
        raw.send(b"".join(requests))
        answers = [raw.answer(head_only=request.startswith(b"HEAD")) for request in requests]
    assert [answer.status for answer in answers] == [201, 204, 204, 200, 200, 404, 204, 409, 200, 204, 404, 200]
    assert [answers[at].body for at in (3, 8)] == [b"abcd", b"abcd"]


@pytest.mark.parametrize("cut", [1, 7, 64, 5000])
def test_many_appends_in_a_row_keep_their_order(node: Listener, path: str, cut: int) -> None:
    many = b"".join(post(path, b"%d," % at) for at in range(100))
    with node.connect() as raw:
        for at in range(0, len(many), cut):
            raw.send(many[at : at + cut])
        answers = [raw.answer() for _ in range(100)]
    offsets = [answer.headers["stream-next-offset"] for answer in answers]
    assert offsets == sorted(set(offsets))
    assert content(node, path) == b"one" + b"".join(b"%d," % at for at in range(100))


@pytest.mark.parametrize("before", [1, 2, 5])
@pytest.mark.parametrize(
    "broken",
    [
        b"GARBAGE\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"POST /v1/stream/x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["no request", "no host", "no chunk"],
)
def test_what_is_broken_is_answered_behind_what_came_whole_before_it(
    node: Listener, path: str, broken: bytes, before: int
) -> None:
    """One that is stored must not be told that it is refused, and none may wait for ever."""
    with node.connect() as raw:
        raw.send(b"".join(post(path, b",%d" % at) for at in range(before)) + broken)
        statuses = [raw.answer().status for _ in range(before)]
        refusal = raw.answer()
        assert raw.rest() == b""
    assert statuses == [204] * before
    assert (refusal.status, refusal.code, refusal.headers["connection"]) == (400, "bad_request", "close")
    assert content(node, path) == b"one" + b"".join(b",%d" % at for at in range(before))


def test_what_came_whole_is_answered_to_a_client_that_stops_sending_behind_something_broken(node: Listener) -> None:
    broken = b"POST /v1/stream/x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
    with node.connect() as raw:
        raw.send(get("/livez") * 2 + broken)
        raw.half_close()
        assert [raw.answer().status for _ in range(3)] == [200, 200, 400]


def test_a_refusal_arrives_although_the_client_goes_on_sending() -> None:
    """Closing at once, with bytes still coming, would reset the connection and take the answer away from its client."""
    transport, loop = Mock(), Mock()
    transport.is_closing.return_value = False
    transport.get_extra_info.return_value = None
    config = Config(app=Mock(), log_config=None)
    config.load()
    protocol = protocol_of(Connections(Settings(no_auth=True)))(config, ServerState(), {}, loop)
    protocol.connection_made(transport)
    for _ in range(3):
        protocol.data_received(b"GARBAGE\r\n\r\n")
    assert [call.args[0][:13] for call in transport.write.mock_calls] == [b"HTTP/1.1 400 "]
    transport.close.assert_not_called()
    closing = loop.call_later.mock_calls[-1].args[1]
    closing()
    transport.close.assert_called_once()


def test_a_live_read_in_a_row_holds_back_what_is_behind_it(node: Listener, path: str) -> None:
    with node.connect() as raw:
        raw.send(get(path + "?offset=now&live=long-poll") + get("/health"))
        assert raw.answer().status == 204
        assert raw.answer().status == 200


def test_a_client_that_expects_to_be_told_is_told_once(node: Listener, path: str) -> None:
    with node.connect() as raw:
        raw.send(get(path, b"expect: 100-continue\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n", "POST"))
        assert raw.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        raw.send(b",two")
        assert raw.answer().status == 204
        raw.send(get(path))
        assert raw.answer().body == b"one,two"


def test_a_client_that_does_not_wait_to_be_told_is_served_all_the_same(node: Listener, path: str) -> None:
    with node.connect() as raw:
        raw.send(post(path, b",two", headers=b"expect: 100-continue\r\n"))
        answer = raw.answer()
        assert (answer.status, answer.interim) in [(204, []), (204, [100])]
        raw.send(get(path))
        assert raw.answer().body == b"one,two"


def test_a_client_that_would_be_refused_is_not_told_to_go_on(node: Listener, path: str) -> None:
    with node.connect() as raw:
        raw.send(get(path, b"expect: 100-continue\r\ncontent-length: 99999999\r\n", "POST"))
        answer = raw.answer()
    assert (answer.status, answer.interim) == (413, [])


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_the_old_version_is_served_and_the_connection_ends(node: Listener, path: str, version: str) -> None:
    request = get(path, b"connection: close\r\n" if version == "1.1" else b"").replace(
        b"HTTP/1.1", f"HTTP/{version}".encode()
    )
    with node.connect() as raw:
        raw.send(request)
        answer = raw.answer()
        assert (answer.status, answer.body, answer.headers["connection"]) == (200, b"one", "close")
        assert raw.rest() == b""


def test_the_old_version_without_a_host_is_served(node: Listener, path: str) -> None:
    with node.connect() as raw:
        raw.send(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        assert raw.answer().body == b"one"


def test_an_event_stream_in_the_old_version_is_not_chunked(node: Listener, path: str) -> None:
    node.ask(post(path, b"", headers=b"stream-closed: true\r\n"))
    with node.connect() as raw:
        raw.send(f"GET {path}?offset=-1&live=sse HTTP/1.0\r\nhost: a\r\n\r\n".encode())
        answer = raw.answer()
    assert "transfer-encoding" not in answer.headers
    assert answer.body.startswith(b"event: data\ndata:one\n\nevent: control\n")


def test_a_connection_is_kept_until_somebody_says_close(node: Listener, path: str) -> None:
    with node.connect() as raw:
        for _again in range(20):
            raw.send(get(path))
            answer = raw.answer()
            assert "connection" not in answer.headers
            assert "date" in answer.headers
            assert "server" not in answer.headers
        raw.send(get(path, b"connection: close\r\n"))
        assert raw.answer().headers["connection"] == "close"
        assert raw.rest() == b""


def test_answers_without_a_body_have_none(node: Listener, path: str) -> None:
    tag = node.ask(get(path)).headers["etag"]
    with node.connect() as raw:
        for request, status in (
            (get(path, method="HEAD"), 200), (get(path + "-nope", method="HEAD"), 404), (post(path, b"x"), 204),
            (get(path, f"if-none-match: {tag}\r\n".encode()), 200), (get(path, b"if-none-match: *\r\n"), 304),
            (get(path, method="OPTIONS"), 204), (get("/health", method="HEAD"), 200),
            (get(path + "-x", method="PATCH"), 405),
        ):  # fmt: skip
            raw.send(request)
            answer = raw.answer(head_only=request.startswith(b"HEAD"))
            assert answer.status == status, request
            if status in {204, 304}:
                assert not {"content-length", "transfer-encoding"} & set(answer.headers), answer


def test_a_refusal_without_reading_the_body_leaves_the_connection_in_step(node: Listener, path: str) -> None:
    """What follows is the next request's answer, or the end: never an answer to bytes of the body."""
    smuggled = get("/v1/stream/smuggled")
    for request, status in (
        (put("/v1/stream/..", smuggled), 400),
        (put("/metrics/x", smuggled), 404),
        (put(path, smuggled, method="PATCH"), 405),
        (put("/v1/stream/x", smuggled, headers=b"stream-ttl: x\r\n"), 400),
        (put("/nope/nope", smuggled, method="DELETE"), 404),
        (put("/health", smuggled, method="DELETE"), 405),
        (put("/shop", smuggled), 201),
        (put(path, smuggled, method="GET"), 200),
    ):
        with node.connect() as raw:
            raw.send(request + get("/livez", b"connection: close\r\n"))
            assert raw.answer().status == status, request
            rest = raw.rest()
            assert rest == b"" or (rest.startswith(b"HTTP/1.1 200 ") and rest.count(b"HTTP/1.1 ") == 1), request


# --- clients that leave, and clients that stay ----------------------------------------------------------------------


@pytest.mark.parametrize("live", ["long-poll", "sse"])
def test_a_reader_that_leaves_is_forgotten(node: Listener, path: str, live: str) -> None:
    with node.connect() as raw:
        raw.send(get(f"{path}?offset=now&live={live}"))
        if live == "sse":
            raw.until(b"upToDate")
    node.until_gauge(
        'streams_live_waiters{mode="sse"}' if live == "sse" else 'streams_live_waiters{mode="long_poll"}', 0
    )


def test_events_come_as_they_are_written(node: Listener, path: str) -> None:
    with node.connect() as raw:
        raw.send(get(path + "?offset=-1&live=sse"))
        head = raw.until(b"\r\n\r\n")
        assert b"transfer-encoding: chunked" in head
        assert b"content-length" not in head
        raw.until(b'"upToDate":true}\n\n')
        for word in (b"two", b"three"):
            node.ask(post(path, word))
            assert b"data:" + word + b"\n\n" in raw.until(b'"upToDate":true}\n\n')
        node.ask(post(path, b"end", headers=b"stream-closed: true\r\n"))
        assert b"data:end\n\nevent: control\n" in raw.until(b"streamClosed")
        assert raw.until(b"\r\n0\r\n\r\n")
        raw.send(get("/health"))
        assert raw.answer().status == 200


@pytest.mark.parametrize("path_", ["/", "/health", "/v1/streams", "/docs", "/nope", "/metrics"])
def test_a_head_has_no_body_and_leaves_the_connection_in_step(node: Listener, path_: str) -> None:
    with node.connect() as raw:
        raw.send(get(path_, method="HEAD") + get("/health"))
        assert raw.answer(head_only=True).status == (404 if path_ == "/nope" else 200)
        assert raw.answer().body == b'{"ok":true}'


def test_a_client_that_only_stopped_sending_gets_its_answers(node: Listener, path: str) -> None:
    with node.connect() as raw:
        raw.send(post(path, b"two") + get(path))
        raw.half_close()
        assert (raw.answer().status, raw.answer().body, raw.rest()) == (204, b"onetwo", b"")


@pytest.mark.parametrize("live", ["long-poll", "sse"])
def test_a_live_reader_that_stopped_sending_has_left(node: Listener, path: str, live: str) -> None:
    with node.connect() as raw:
        raw.send(get(f"{path}?offset=now&live={live}"))
        node.until_gauge(f'streams_live_waiters{{mode="{live.replace("-", "_")}"}}', 1)
        raw.half_close()
        raw.rest()
        node.until_gauge(f'streams_live_waiters{{mode="{live.replace("-", "_")}"}}', 0)


def test_a_body_whose_client_stopped_sending_is_not_stored(node: Listener, path: str) -> None:
    whole = post(path, b"two")
    for cut in (len(whole) - 1, len(whole) - 3):
        with node.connect() as raw:
            raw.send(whole[:cut])
            raw.half_close()
            raw.rest()
    assert content(node, path) == b"one"


def test_a_client_that_does_not_read_is_cut_off(node: Listener, path: str) -> None:
    for _again in range(100):
        node.ask(post(path, b"x" * BODY_MAX))
    with node.connect(receive_buffer=4096) as raw:
        raw.send(get(path + "?max_bytes=8000000") * 20)
        node.until_gauge("streams_stalled_connections", 1)
        node.until_gauge("streams_stalled_connections", 0)
        assert len(raw.rest()) < 20 * 100 * BODY_MAX  # what the kernel held for it, and then the end


def test_a_client_that_reads_slowly_gets_everything(node: Listener, path: str) -> None:
    for _again in range(50):
        node.ask(post(path, b"x" * BODY_MAX))
    with node.connect(receive_buffer=4096) as raw:
        raw.send(get(path + "?max_bytes=8000000"))
        assert len(raw.answer().body) == 3 + 50 * BODY_MAX


READERS, APPENDS, EACH = 60, 40, 250_000


def test_followers_that_do_not_read_cost_no_memory_and_miss_nothing(tmp_path: Path) -> None:
    """What they have not taken lies in the log and not in buffers, where it would be 600 MB."""
    with listening(tmp_path, no_auth=True, hot_tail_bytes_max="2MiB") as node, ExitStack() as opened:
        path = "/v1/stream/followed"
        assert node.ask(put(path)).status == 201
        readers = [opened.enter_context(node.connect(receive_buffer=4096)) for _ in range(READERS)]
        for raw in readers:
            raw.send(get(path + "?offset=-1&live=sse"))
        node.until_gauge('streams_live_waiters{mode="sse"}', READERS)
        before = node.gauge("process_resident_memory_bytes")
        for number in range(APPENDS):
            assert node.ask(post(path, b"%06d" % number + b"x" * (EACH - 6))).status == 204
        assert node.gauge("process_resident_memory_bytes") - before < 150_000_000
        assert node.gauge("streams_live_tail_bytes") <= 2 << 20
        assert node.ask(post(path, b"", headers=b"stream-closed: true\r\n")).status == 204
        events = readers[-1].answer().body
        assert [int(number) for number in re.findall(rb"(\d{6})x", events)] == list(range(APPENDS))
        assert b'"streamClosed":true' in events
        assert len(events) > APPENDS * EACH


# --- other nodes ----------------------------------------------------------------------------------------------------


def test_connections_have_a_cap(tmp_path: Path) -> None:
    with listening(tmp_path, no_auth=True, connections_max=4, live_waiters_max=2) as node:
        held = [node.connect() for _ in range(4)]
        for raw in held:
            raw.send(get("/health"))
            assert raw.answer().status == 200
        with node.connect() as raw:
            answer = raw.answer()
            assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "unavailable", "5")
            assert raw.rest() == b""
        held.pop().__exit__(None, None, None)
        assert answered(node)
        for raw in held:
            raw.__exit__(None, None, None)


def answered(node: Listener) -> bool:
    """Whether there is room again: the node may need a moment to see that a client has left."""
    for _again in range(200):
        with node.connect() as raw:
            raw.send_what_goes(get("/health"))
            if raw.answer().status == 200:
                return True
    return False


def test_live_readers_have_a_cap(tmp_path: Path) -> None:
    with listening(tmp_path, no_auth=True, live_waiters_max=2) as node:
        node.ask(put("/v1/stream/a", b"x"))
        with node.connect() as one, node.connect() as other:
            for raw in (one, other):
                raw.send(get("/v1/stream/a?offset=-1&live=sse"))
                raw.until(b"upToDate")
            for live in ("sse", "long-poll"):
                answer = node.ask(get(f"/v1/stream/a?offset=-1&live={live}"))
                assert (answer.status, answer.headers["retry-after"]) == (503, "5")
            assert node.ask(get("/v1/stream/a")).body == b"x"


def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    with listening(tmp_path, no_auth=True, keep_alive_ms=300) as node, node.connect() as raw:
        raw.send(get("/health"))
        assert raw.answer().status == 200
        assert raw.hung_up()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listener]:
    """With a key, and with a port of its own for operators."""
    with listening(tmp_path_factory.mktemp("guarded"), operator=True, api_key=KEY) as listener:
        yield listener


BEARER = f"authorization: Bearer {KEY}\r\n".encode()


def test_without_the_key_nothing_is_told_but_health_and_preflight(guarded: Listener) -> None:
    for request in (get("/v1/stream/a"), put("/v1/stream/a"), get("/shop"), get("/v1/streams"), post("/shop/a", b"x"),
                    get("/v1/traces"), get("/v1/stream/a/touch/meta"),
                    get("/v1/stream/a", b"authorization: Bearer wrong-key-wrong-key\r\n"),
                    get("/v1/stream/a", BEARER + BEARER), get("/v1/stream/a?key=" + KEY)):  # fmt: skip
        answer = guarded.ask(request)
        assert (answer.status, answer.code, answer.headers["www-authenticate"]) == (401, "unauthorized", "Bearer"), (
            request
        )
    for path in ("/health", "/healthz", "/livez", "/readyz"):
        assert guarded.ask(get(path)).status == 200
    assert guarded.ask(get("/v1/stream/a", method="OPTIONS")).status == 204


def test_with_the_key_reads_are_for_the_client_alone(guarded: Listener) -> None:
    assert guarded.ask(put("/v1/stream/private", b"x", headers=BEARER)).status == 201
    answer = guarded.ask(get("/v1/stream/private", BEARER))
    assert answer.headers["cache-control"].startswith("private,")


def test_operators_have_a_port_of_their_own(guarded: Listener) -> None:
    assert guarded.ask(get("/metrics", BEARER)).status == 404
    assert guarded.ask(get("/v1/traces", BEARER)).status == 501
    assert guarded.ask(get("/metrics"), operator=True).status == 401
    assert b"streams_connections" in guarded.ask(get("/metrics", BEARER), operator=True).body
    assert guarded.ask(get("/docs")).status == 404
    assert guarded.ask(get("/docs"), operator=True).status == 200
    assert guarded.ask(get("/openapi.json"), operator=True).status == 401
    for request in (get("/v1/stream/private", BEARER), put("/v1/stream/b", b"x", headers=BEARER), get("/shop", BEARER),
                    put("/shop", headers=BEARER), get("/v1/streams", BEARER),
                    get("/shop/streams", BEARER), get("/v1/traces", BEARER),
                    get("/v1/stream/private/touch/meta", BEARER)):  # fmt: skip
        assert guarded.ask(request, operator=True).status == 404, request


# --- the corpus, over the wire --------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", corpus(), ids=lambda case: case.why.split(".")[0])
def test_a_kept_case_over_the_wire(node: Listener, case: Case) -> None:
    """The same promises where the parser has a word: an answer in shape, or the end; and the node is still there."""
    body = b"".join(case.parts)
    lines = [(b"connection", b"close"), *case.lines]
    names = {name for name, _ in lines}
    lines += [(name, value) for name, value in ((b"host", b"node.test"), (b"content-length", b"%d" % len(body)))
              if name not in names]  # fmt: skip
    first = case.method.encode("latin-1") + b" " + case.target + b" HTTP/1.1"
    with node.connect() as raw:
        raw.send_what_goes(b"\r\n".join([first, *(name + b": " + value for name, value in lines)]) + b"\r\n\r\n" + body)
        well_shaped(raw, method=case.method)
    assert node.ask(get("/health")).status == 200


def well_shaped(raw: Raw, *, method: str) -> None:
    try:
        answer = raw.answer(head_only=method == "HEAD")
    except AssertionError:  # no answer, or the head of an event stream
        return
    assert answer.status < 500 or answer.status in {501, 503}
    assert answer.headers["x-content-type-options"] == "nosniff"
    if answer.status >= 400 and method != "HEAD":
        assert set(json.loads(answer.body)) == {"error"}


def test_random_bytes_do_no_harm(node: Listener, path: str) -> None:
    for at in range(300):
        request = bytearray(random.choice([post(path + "-noise", b"x"), get(path), chunked(path + "-noise", b"x")]))
        for _again in range(random.randint(1, 5)):
            request[random.randrange(len(request))] = random.randrange(256)
        with node.connect() as raw:
            raw.send(random.randbytes(random.randint(1, 400)) if at % 3 == 0 else bytes(request))
            raw.half_close()
    assert content(node, path) == b"one"
    assert node.ask(get("/readyz")).status == 200
