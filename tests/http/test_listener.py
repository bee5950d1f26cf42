"""What only a socket shows of a request: bodies that stop, chunks that lie, heads that do not end."""

import json

import pytest

from tests.http.listener import BODY_MAX, BODY_MS, HEAD_MAX, HEAD_MS, Listener, chunked, content, get, post

# --- bodies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [
        b"content-length: 10\r\n\r\nhalf",
        b"content-length: 10\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n5\r\nab",
        b"transfer-encoding: chunked\r\n\r\n5\r\nabcde\r\n",
        b"transfer-encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n",
        b"transfer-encoding: chunked\r\n\r\n",
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_body_that_ends_early_stores_nothing(node: Listener, path: str, method: str, request_: bytes) -> None:
    target = path if method == "POST" else path + "-new"
    with node.connect() as raw:
        raw.send(get(target, b"content-type: text/plain\r\n" + request_, method)[:-2])
    assert node.ask(post(path, b",two")).status == 204
    assert content(node, path) == b"one,two"
    assert node.ask(get(path + "-new")).status == 404


@pytest.mark.parametrize(
    "body",
    [b"zz\r\nabc\r\n0\r\n\r\n", b"3\r\nabcd\r\n0\r\n\r\n", b"-1\r\na\r\n0\r\n\r\n", b"FFFFFFFFFFFFFFFFF\r\na",
     b"3xyz\r\n", b" 3\r\nabc\r\n0\r\n\r\n", b"0x3\r\nabc\r\n0\r\n\r\n", b"\r\n\r\n",
     b"3;ext=\x00\r\nabc\r\n0\r\n\r\n"],
)  # fmt: skip
def test_a_chunk_of_a_wrong_size_is_refused_and_the_connection_ends(node: Listener, path: str, body: bytes) -> None:
    with node.connect() as raw:
        raw.send(chunked(path, end=body))
        rest = raw.rest()
    assert rest == b"" or rest.startswith(b"HTTP/1.1 400 ")
    assert content(node, path) == b"one"


def test_chunks_of_any_cut_are_one_append(node: Listener, path: str) -> None:
    with node.connect() as raw:
        for byte in chunked(path, b",", b"t", b"wo", end=b"0\r\nx-trailer: y\r\n\r\n"):
            raw.send(bytes((byte,)))
        assert raw.answer().status == 204
        raw.send(get(path))
        assert raw.answer().body == b"one,two"


def test_a_declared_length_above_the_limit_is_refused_without_the_body(node: Listener, path: str) -> None:
    with node.connect() as raw:
        raw.send(get(path, b"content-type: text/plain\r\ncontent-length: %d\r\n" % (BODY_MAX + 1), "POST"))
        answer = raw.answer()
    assert (answer.status, answer.code) == (413, "payload_too_large")


@pytest.mark.parametrize("chunks", [1, 3, 30])
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_body_above_the_limit_by_chunks_is_refused(node: Listener, path: str, method: str, chunks: int) -> None:
    target = path if method == "POST" else path + "-new"
    with node.connect() as raw:
        raw.send_what_goes(chunked(target, *[b"x" * (BODY_MAX // chunks + 1)] * chunks, method=method))
        answer = raw.answer()
    assert (answer.status, answer.code) == (413, "payload_too_large")
    assert content(node, path) == b"one"
    assert node.ask(get(path + "-new")).status == 404


@pytest.mark.parametrize("kind", ["declared", "chunked"])
def test_a_body_of_exactly_the_limit_is_taken(node: Listener, path: str, kind: str) -> None:
    body = b"x" * BODY_MAX
    answer = node.ask(post(path, body) if kind == "declared" else chunked(path, body[:7], body[7:]))
    assert answer.status == 204
    assert content(node, path) == b"one" + body


@pytest.mark.parametrize(
    "begun",
    [b"content-length: 10\r\n\r\n", b"content-length: 10\r\n\r\nhalf", b"content-length: 19000\r\n\r\n" + b"x" * 18_000,
     b"transfer-encoding: chunked\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n5\r\nab"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_body_that_does_not_come_is_not_waited_for(node: Listener, path: str, method: str, begun: bytes) -> None:
    target = path if method == "POST" else path + "-new"
    with node.connect() as raw:
        raw.send(get(target, b"content-type: text/plain\r\n" + begun, method)[:-2])
        answer = raw.answer()
        assert (answer.status, answer.code) == (408, "request_timeout")
        assert raw.rest() == b""
    assert content(node, path) == b"one"
    assert node.ask(get(path + "-new")).status == 404


def test_a_slow_body_that_goes_on_is_taken(node: Listener, path: str) -> None:
    """The limit is on the pause, not on the whole: an upload may take as long as it moves."""
    with node.connect() as raw:
        raw.send(get(path, b"content-type: text/plain\r\ncontent-length: 8\r\n", "POST"))
        for byte in b",slowly!":
            assert not raw.readable(BODY_MS / 1000 / 4)
            raw.send(bytes((byte,)))
        assert raw.answer().status == 204
    assert content(node, path) == b"one,slowly!"


# --- heads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [b"GET /health HTTP/1.1\r\nx: " + b"a" * HEAD_MAX, b"GET /" + b"a" * (HEAD_MAX + 50_000),
     b"GET /health HTTP/1.1\r\n" + b"x: y\r\n" * 3000,
     b"GET /health HTTP/1.1\r\nhost: a\r\n" + b"x" * HEAD_MAX + b": y"],
)  # fmt: skip
@pytest.mark.parametrize("end", [b"\r\n\r\n", b""])
def test_a_head_above_the_limit_is_refused(node: Listener, head: bytes, end: bytes) -> None:
    with node.connect() as raw:
        raw.send_what_goes(head + end)
        answer = raw.answer()
        assert (answer.status, answer.code) == (431, "request_header_fields_too_large")
        assert answer.headers["connection"] == "close"
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_head_below_the_limit_is_taken_however_it_comes(node: Listener) -> None:
    request = get("/health", b"x: " + b"a" * (HEAD_MAX - 200) + b"\r\n")
    assert node.ask(request).status == 200
    with node.connect() as raw:
        for at in range(0, len(request), 100):
            raw.send(request[at : at + 100])
        assert raw.answer().status == 200


@pytest.mark.parametrize("begun", [b"GET /", b"GET /health HTTP/1.1\r\n", b"GET /health HTTP/1.1\r\nhost: a\r\nx: "])
@pytest.mark.parametrize("before", [0, 2])
def test_a_head_that_does_not_end_is_not_waited_for(node: Listener, begun: bytes, before: int) -> None:
    """Byte by byte it takes no longer; neither on a connection that has been used before."""
    with node.connect() as raw:
        for _again in range(before):
            raw.send(get("/health"))
            assert raw.answer().status == 200
        raw.send(begun)
        while not raw.readable(HEAD_MS / 1000 / 10):
            raw.send_what_goes(b"a")
        answer = raw.answer()
        assert (answer.status, answer.code) == (408, "request_timeout")


def test_a_connection_that_says_nothing_is_closed(node: Listener) -> None:
    with node.connect() as raw:
        assert raw.rest() == b""


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /health HTTP/9.9\r\n\r\n",
        b"GET /health HTTP/2.0\r\nhost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /health HTTP/1.1\r\nhost : a\r\n\r\n",
        b"GET /health HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET /health HTTP/1.1\r\nx: a\r\n folded\r\n\r\n",
        b"GET /health HTTP/1.1\r\nx: \x00\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\xff: a\r\n\r\n",
        b"GET /h\xc3\xa9alth HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /v1/stream/a\x00b HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET health HTTP/1.1\r\nhost: a\r\n\r\n",
        b"FOO /health HTTP/1.1\r\nhost: a\r\n\r\n",
        b"POST /v1/stream/x HTTP/1.1\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        b"POST /v1/stream/x HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/stream/x HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/stream/x HTTP/1.1\r\ncontent-length: 1e3\r\n\r\n",
        b"POST /v1/stream/x HTTP/1.1\r\ncontent-length: 99999999999999999999999\r\n\r\n",
        b"POST /v1/stream/x HTTP/1.1\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"POST /v1/stream/x HTTP/1.1\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/stream/x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_and_the_connection_ends(node: Listener, request_: bytes) -> None:
    """Two readers of one connection must never see different requests in it, so nothing here is guessed."""
    with node.connect() as raw:
        raw.send(request_ + get("/v1/stream/smuggled"))
        rest = raw.rest()
    assert rest.count(b"HTTP/1.1 ") <= 1, rest
    assert rest == b"" or rest.startswith(b"HTTP/1.1 400 "), rest
    if rest:
        head, _, body = rest.partition(b"\r\n\r\n")
        assert b"\r\nconnection: close" in head
        assert json.loads(body)["error"]["code"] == "bad_request"


def test_a_request_of_the_oldest_kind_has_one_answer_and_the_end(node: Listener) -> None:
    with node.connect() as raw:
        raw.send(b"GET /health\r\n\r\n" + get("/v1/stream/smuggled"))
        answer = raw.answer()
        assert (answer.status, answer.headers["connection"]) in [(200, "close"), (400, "close")]
        assert raw.rest() == b""


def test_a_target_with_a_host_is_its_path(node: Listener, path: str) -> None:
    assert node.ask(get(f"http://other.example{path}?offset=-1")).body == b"one"


def test_an_upgrade_is_not_offered_and_not_an_error(node: Listener, path: str) -> None:
    upgrade = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\nsec-websocket-version: 13\r\n"
    assert node.ask(get(path, upgrade)).body == b"one"
    assert node.ask(get(path, b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\n")).body == b"one"


def test_blanks_around_a_value_are_no_part_of_it(node: Listener, path: str) -> None:
    """As HTTP has it; so that a writer that pads is not another producer, and its repetition not an append."""
    kind = b"content-type: \t text/plain \t\r\n"

    def padded(*lines: bytes, body: bytes = b"two") -> bytes:
        length = b"content-length:\t %d \r\n" % len(body)
        return get(path, kind + length + b"".join(line + b"\r\n" for line in lines), "POST") + body

    triple = (b"producer-id:\t p \t", b"producer-epoch:  0 ", b"producer-seq:0\t")
    assert node.ask(padded(*triple)).status == 200
    assert node.ask(padded(b"producer-id: p", b"producer-epoch: 0", b"producer-seq: 0")).status == 204
    assert node.ask(padded(b"stream-seq:  b ")).status == 204
    assert node.ask(padded(b"stream-seq: b")).status == 409
    etag = node.ask(get(path)).headers["etag"]
    assert node.ask(get(path, b"if-none-match: \t" + etag.encode() + b" \t\r\n")).status == 304
    assert node.ask(padded(b"stream-closed: \tTRUE ", body=b"")).headers["stream-closed"] == "true"
    assert content(node, path) == b"onetwotwo"


def test_trailers_are_no_headers(node: Listener, path: str) -> None:
    """They come behind what was judged: a proxy has not seen them as headers, and neither does the node."""
    said = b"stream-closed: true\r\nstream-seq: z\r\nproducer-id: p\r\ncontent-type: image/png\r\nx: y\r\n"
    for pause in (False, True):
        request = chunked(path, b"two", end=b"0\r\n" + said + b"\r\n")
        with node.connect() as raw:
            raw.send(request[:-40])
            if pause:
                assert not raw.readable(0.05)
            raw.send(request[-40:] + get(path))
            answer = raw.answer()
            assert (answer.status, "stream-closed" in answer.headers) == (204, False)
            assert "stream-closed" not in raw.answer().headers
    assert node.ask(post(path, b"three", headers=b"stream-seq: a\r\n")).status == 204
    assert content(node, path) == b"onetwotwothree"


@pytest.mark.parametrize(
    "end", [b"0\r\nx: " + b"y" * HEAD_MAX, b"0\r\n" + b"x: y\r\n" * HEAD_MAX, b"3;" + b"x" * HEAD_MAX]
)
@pytest.mark.parametrize("at_once", [True, False])
def test_what_goes_on_behind_a_body_is_bounded(node: Listener, path: str, end: bytes, *, at_once: bool) -> None:
    request = chunked(path, b"two", end=b"")
    with node.connect() as raw:
        if at_once:
            raw.send_what_goes(request + end)
        else:
            raw.send(request)
            for start in range(0, len(end), 1000):
                raw.send_what_goes(end[start : start + 1000])
        raw.send_what_goes(b"z" * 2 * HEAD_MAX)
        answer = raw.answer()
        assert answer.status in {400, 408, 431}
    assert content(node, path) == b"one"


def test_a_request_without_a_host_is_refused(node: Listener) -> None:
    answer = node.ask(b"GET /health HTTP/1.1\r\naccept: */*\r\n\r\n")
    assert (answer.status, answer.headers["connection"]) == (400, "close")
    assert b"`host`" in answer.body
