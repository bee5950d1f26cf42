"""The command line: exact requests, results on stdout, talk on stderr, and exit codes that scripts can rely on."""

import base64
import io
import json
import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

import streams_node
from streams_node.cli import main
from streams_node.cli.pages import json_elements, pages_of_events
from streams_node.config import Settings, describe, flag_of

OFFSET = {"Stream-Next-Offset": "A1"}
END = {"Stream-Next-Offset": "A1", "Stream-Up-To-Date": "true"}
JSON = {"Content-Type": "application/json"}
TEXT = {"Content-Type": "text/plain"}


class Request(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""


@dataclass
class FakeNode:
    """A server that answers with the replies it was given, in their order, and remembers what it was asked."""

    url: str = ""
    replies: deque[Reply] = field(default_factory=deque)
    requests: list[Request] = field(default_factory=list)

    def will(self, *replies: Reply) -> None:
        self.replies.extend(replies)

    @property
    def asked(self) -> list[tuple[str, str]]:
        return [(request.method, request.path) for request in self.requests]


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNode]:
    fake = FakeNode()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            address = urlsplit(self.path)
            query = {name: value for name, (value,) in parse_qs(address.query, keep_blank_values=True).items()}
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            fake.requests.append(Request(self.command, address.path, query, dict(self.headers), body))
            reply = fake.replies.popleft()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815 the library looks for these names

        @override
        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, name="fake-node")
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_port}"
    for variable in [name for name in os.environ if name.startswith("STREAMS_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("STREAMS_URL", fake.url)
    yield fake
    server.shutdown()
    thread.join()
    server.server_close()
    assert not fake.replies, "a command asked less than the test expected"


@dataclass
class Outcome:
    code: int
    stdout: str
    stderr: str

    @property
    def objects(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.stdout.splitlines()]


@pytest.fixture
def cli(capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Outcome]:
    def run(*tokens: str) -> Outcome:
        code = main(tokens)
        captured = capsysbinary.readouterr()
        return Outcome(code, captured.out.decode(), captured.err.decode())

    return run


Cli = Callable[..., Outcome]


def stdin_of(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


# --- serve and config -----------------------------------------------------------------------------------------------


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Settings with which a node was started; no node runs."""
    started: list[Settings] = []

    def serve(settings: Settings) -> int:
        started.append(settings)
        return 7

    app = ModuleType("streams_node.app")
    app.serve = serve  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "streams_node.app", app)
    for variable in [name for name in os.environ if name.startswith("STREAMS_")]:
        monkeypatch.delenv(variable)
    return started


def test_serve_starts_a_node_with_its_flags_and_returns_its_exit_code(cli: Cli, served: list[Settings]) -> None:
    flags = "--data d --host 127.0.0.1 --port 4438 --operator-port 4439 --object-store memory --no-auth"
    outcome = cli("serve", *flags.split())
    assert outcome.code == 7
    (settings,) = served
    assert settings == Settings(
        data=Path("d"), host="127.0.0.1", port=4438, operator_port=4439, object_store="memory", no_auth=True
    )


def test_serve_has_a_flag_for_every_setting(cli: Cli, served: list[Settings]) -> None:
    for row in describe():
        outcome = cli("serve", f"{flag_of(row.name)}=false" if row.default == "false" else f"{flag_of(row.name)}=\x00")
        assert outcome.code == 2
        assert "unknown" not in outcome.stderr.lower()
        assert "problem" in outcome.stderr
    assert served == []


def test_serve_reads_the_environment_and_a_file_below_the_flags(
    cli: Cli, served: list[Settings], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "node.toml").write_text('port = 1\nread_page_bytes = "2MiB"\nno_auth = true\n')
    monkeypatch.setenv("STREAMS_PORT", "2")
    monkeypatch.setenv("STREAMS_COMMIT_ROWS_MAX", "99")
    cli("serve", "--config", str(tmp_path / "node.toml"), "--port", "3")
    (settings,) = served
    assert (settings.port, settings.commit_rows_max, settings.read_page_bytes) == (3, 99, 2 * 1024**2)


def test_serve_lists_all_problems_on_stderr_and_exits_with_2(cli: Cli, served: list[Settings]) -> None:
    outcome = cli("serve", "--port", "x", "--append-body-bytes-max", "-5")
    assert (outcome.code, outcome.stdout, served) == (2, "", [])
    assert "3 problems" in outcome.stderr
    for name in ("port: ", "append_body_bytes_max: ", "api_key: "):
        assert name in outcome.stderr


def test_config_check_says_valid_or_every_problem_and_loads_no_server(cli: Cli, served: list[Settings]) -> None:
    assert cli("config", "check", "--no-auth", "--json").objects == [{"valid": True, "problems": []}]
    outcome = cli("config", "check", "--no-auth", "--port", "x", "--json")
    assert outcome.code == 2
    problem = {"source": "--port", "name": "port", "problem": "not a whole number: 'x'"}
    assert outcome.objects == [{"valid": False, "problems": [problem]}]
    assert served == []


def test_config_show_masks_secrets_and_says_where_values_come_from(
    cli: Cli, served: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMS_API_KEY", "topsecret-topsecret")
    outcome = cli("config", "show", "--port", "5", "--json")
    rows = {row["name"]: row for row in outcome.objects}
    assert rows["port"] == {"name": "port", "value": 5, "source": "--port"}
    assert rows["api_key"] == {"name": "api_key", "value": "***", "source": "STREAMS_API_KEY"}
    assert "port = 5  (--port)" in cli("config", "show", "--port", "5").stdout
    assert "topsecret" not in outcome.stdout
    assert served == []


@pytest.mark.parametrize("tokens", [["serve", "--bogus"], ["serve", "extra"], ["nonsense"], ["stream", "append"]])
def test_usage_error_is_explained_on_stderr_and_exits_with_2(cli: Cli, tokens: list[str]) -> None:
    outcome = cli(*tokens)
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr


def test_serve_imports_neither_http_client_nor_terminal_library() -> None:
    # Stops at a settings problem, which is after everything that `serve` itself imports.
    code = (
        "import sys; from streams_node.cli import main; assert main(['serve', '--port', 'x']) == 2;"
        "print({'httpx', 'rich', 'litestar', 'structlog'} & sys.modules.keys())"
    )
    root = Path(streams_node.__file__).parents[1]
    outcome = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=root)
    assert outcome.stdout == "set()\n"


def test_version_is_printed(cli: Cli) -> None:
    assert cli("--version").stdout.strip() == streams_node.__version__


# --- create, append, close, rm --------------------------------------------------------------------------------------


def test_create_sends_what_was_asked_for_and_says_if_the_stream_is_new(cli: Cli, node: FakeNode) -> None:
    node.will(Reply(201, OFFSET), Reply(200, {**OFFSET, "Stream-Closed": "true"}))
    wish = ["--content-type", "application/json", "--ttl", "60", "--closed", "--json"]
    assert cli("stream", "create", "shop/orders", *wish).objects == [
        {"stream": "shop/orders", "created": True, "next_offset": "A1", "closed": False}
    ]
    assert cli("stream", "create", "shop/orders", "--expires-at", "2030-01-01T00:00:00Z").stdout == (
        "shop/orders: exists already; next offset A1\n"
    )
    first, second = node.requests
    assert (first.method, first.path) == ("PUT", "/v1/stream/shop/orders")
    assert first.headers["Content-Type"] == "application/json"
    assert (first.headers["Stream-TTL"], first.headers["Stream-Closed"]) == ("60", "true")
    assert second.headers["Stream-Expires-At"] == "2030-01-01T00:00:00Z"
    assert not {"Stream-TTL", "Stream-Closed", "Content-Type"} & second.headers.keys()


def test_name_is_quoted_so_that_it_is_one_name(cli: Cli, node: FakeNode) -> None:
    node.will(Reply(201, OFFSET))
    cli("stream", "create", "b/ü %2F?#&")
    assert node.asked == [("PUT", "/v1/stream/b/%C3%BC%20%252F%3F%23%26")]


@pytest.mark.parametrize("name", ["a/..", ".", "a//b", "/a", "a/", ""])
def test_name_that_a_client_would_resolve_to_another_is_never_sent(cli: Cli, node: FakeNode, name: str) -> None:
    outcome = cli("stream", "rm", name, "--yes")
    assert outcome.code == 2
    assert node.requests == []


def test_append_sends_stdin_with_the_type_of_the_stream(
    cli: Cli, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin_of(monkeypatch, b'[{"a":1}]\n')
    node.will(Reply(200, JSON), Reply(204, OFFSET))
    assert cli("stream", "append", "s").stdout == "s: 1 append stored; next offset A1\n"
    assert node.asked == [("HEAD", "/v1/stream/s"), ("POST", "/v1/stream/s")]
    assert (node.requests[1].body, node.requests[1].headers["Content-Type"]) == (b'[{"a":1}]\n', "application/json")


def test_append_takes_a_file_or_text_instead_and_a_type(cli: Cli, node: FakeNode, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"\x00\xff")
    node.will(Reply(204, OFFSET), Reply(204, OFFSET), Reply(204, OFFSET))
    cli("stream", "append", "s", str(tmp_path / "body"), "--content-type", "image/png")
    cli("stream", "append", "s", "--file", str(tmp_path / "body"), "--content-type", "image/png")
    cli("stream", "append", "s", "--data", "-hi", "--content-type", "text/plain")
    assert [request.body for request in node.requests] == [b"\x00\xff", b"\x00\xff", b"-hi"]
    assert node.requests[0].headers["Content-Type"] == "image/png"


@pytest.mark.parametrize("source", [["-"], ["--file", "-"], []])
def test_append_by_lines_is_one_append_a_line_without_its_end(
    cli: Cli, node: FakeNode, monkeypatch: pytest.MonkeyPatch, source: list[str]
) -> None:
    stdin_of(monkeypatch, b"one\n\ntwo\r\nthree")
    node.will(Reply(204, OFFSET), Reply(204, OFFSET), Reply(204, {"Stream-Next-Offset": "A3"}))
    outcome = cli("stream", "append", "s", *source, "--lines", "--content-type", "text/plain", "--json")
    assert [request.body for request in node.requests] == [b"one", b"two", b"three"]
    assert [each["next_offset"] for each in outcome.objects] == ["A1", "A1", "A3"]


def test_append_that_is_refused_half_way_says_so_after_what_was_stored(cli: Cli, node: FakeNode) -> None:
    refusal = json.dumps({"error": {"code": "stream_closed", "message": "closed at A1"}}).encode()
    node.will(Reply(204, OFFSET), Reply(409, body=refusal))
    outcome = cli("stream", "append", "s", "--data", "1\n2\n3", "--lines", "--content-type", "text/plain", "--json")
    assert outcome.code == 1
    assert outcome.objects[0]["next_offset"] == "A1"
    assert outcome.objects[1] == {"error": {"code": "stream_closed", "message": "closed at A1", "status": 409}}


def test_append_of_an_unreadable_file_or_of_two_sources_is_a_usage_error(cli: Cli, node: FakeNode) -> None:
    assert cli("stream", "append", "s", "/nowhere/at/all", "--content-type", "a/b").code == 2
    assert cli("stream", "append", "s", "file", "--data", "x").code == 2
    assert node.requests == []


def test_close_sends_no_body_and_reports_the_final_offset(cli: Cli, node: FakeNode) -> None:
    node.will(Reply(204, {**OFFSET, "Stream-Closed": "true"}))
    assert cli("stream", "close", "s", "--json").objects == [{"stream": "s", "next_offset": "A1", "closed": True}]
    (request,) = node.requests
    assert (request.method, request.body, request.headers["Stream-Closed"]) == ("POST", b"", "true")


def test_rm_deletes_only_with_yes(cli: Cli, node: FakeNode) -> None:
    outcome = cli("stream", "rm", "s")
    assert (outcome.code, node.requests) == (2, [])
    assert "--yes" in outcome.stderr
    node.will(Reply(204))
    assert cli("stream", "rm", "s", "--yes").code == 0
    assert node.asked == [("DELETE", "/v1/stream/s")]


# --- read -----------------------------------------------------------------------------------------------------------


def test_read_follows_pages_to_the_end_and_prints_a_json_message_a_line(cli: Cli, node: FakeNode) -> None:
    node.will(Reply(200, {**JSON, **OFFSET}, b'[{"a": 1.00},\n "x"]'), Reply(200, {**JSON, **END}, b"[2]"))
    assert cli("stream", "read", "s").stdout == '{"a": 1.00}\n"x"\n2\n'
    assert [request.query for request in node.requests] == [{"offset": "-1"}, {"offset": "A1"}]


def test_read_starts_at_an_offset_and_asks_for_pages_of_a_size(cli: Cli, node: FakeNode) -> None:
    node.will(Reply(200, {**TEXT, **END}, "ü".encode()))
    assert cli("stream", "read", "s", "--offset", "-1", "--max-bytes", "10").stdout == "ü"
    assert node.requests[0].query == {"offset": "-1", "max_bytes": "10"}


def test_read_of_one_page_says_where_to_go_on(cli: Cli, node: FakeNode) -> None:
    node.will(Reply(200, {**TEXT, **OFFSET}, b"x"))
    outcome = cli("stream", "read", "s", "--no-follow-pages")
    assert (outcome.stdout, outcome.stderr) == ("x", "next offset A1\n")


def test_read_ends_at_an_offset_that_does_not_move(cli: Cli, node: FakeNode) -> None:
    node.will(Reply(200, {**TEXT, **OFFSET}, b""))
    assert cli("stream", "read", "s", "--offset", "A1").code == 0


@pytest.mark.parametrize(
    ("content_type", "body", "content"),
    [
        ("application/json", b'[1,{"a":"b"}]', {"messages": [1, {"a": "b"}]}),
        ("application/json; charset=utf-8", b"[]", {"messages": []}),
        ("text/plain", b"hi", {"text": "hi"}),
        ("text/plain", b"\xff", {"base64": "/w=="}),
        ("image/png", b"\x00", {"base64": "AA=="}),
    ],
)
def test_read_as_json_is_one_object_a_page(
    cli: Cli, node: FakeNode, content_type: str, body: bytes, content: dict[str, object]
) -> None:
    node.will(Reply(200, {"Content-Type": content_type, "Stream-Closed": "true", **END}, body))
    (page,) = cli("stream", "read", "s", "--json").objects
    expected = {"stream": "s", "next_offset": "A1", "up_to_date": True, "closed": True, "content_type": content_type}
    assert page == {**expected, **content}


# --- tail -----------------------------------------------------------------------------------------------------------


def test_tail_polls_from_now_with_cursor_until_the_stream_is_closed(cli: Cli, node: FakeNode) -> None:
    node.will(
        Reply(204, {**END, "Stream-Cursor": "7"}),
        Reply(200, {**JSON, "Stream-Next-Offset": "A2", "Stream-Cursor": "8"}, b"[1]"),
        Reply(204, {"Stream-Next-Offset": "A2", "Stream-Closed": "true"}),
    )
    assert cli("stream", "tail", "s").stdout == "1\n"
    assert [request.query for request in node.requests] == [
        {"offset": "now", "live": "long-poll"},
        {"offset": "A1", "live": "long-poll", "cursor": "7"},
        {"offset": "A2", "live": "long-poll", "cursor": "8"},
    ]


def test_tail_that_breaks_off_says_where_to_go_on(cli: Cli, node: FakeNode) -> None:
    node.will(Reply(200, {**TEXT, **OFFSET}, b"x"), Reply(503))
    outcome = cli("stream", "tail", "s", "--offset", "-1")
    assert (outcome.code, outcome.stdout) == (1, "x")
    assert "--offset A1" in outcome.stderr


def events(*parts: str) -> bytes:
    return "".join(parts).encode()


def control(offset: str, **facts: bool) -> str:
    return f"event: control\ndata:{json.dumps({'streamNextOffset': offset, **facts})}\n\n"


def test_tail_by_events_resumes_a_recycled_answer_where_it_ended(cli: Cli, node: FakeNode) -> None:
    stream = {"Content-Type": "text/event-stream"}
    node.will(
        Reply(200, JSON),
        Reply(200, stream, events(": hello\n\n", "event: data\ndata:[1,\ndata:2]\n\n", control("A1"))),
        Reply(200, stream, events(control("A1"), "event: data\ndata:[3]\n\n", control("A2", streamClosed=True))),
    )
    assert cli("stream", "tail", "s", "--sse").stdout == "1\n2\n3\n"
    assert [request.query for request in node.requests[1:]] == [
        {"offset": "now", "live": "sse"},
        {"offset": "A1", "live": "sse"},
    ]


def test_tail_by_events_decodes_bytes_and_keeps_separators_that_are_data(cli: Cli, node: FakeNode) -> None:
    encoded = {"Content-Type": "text/event-stream", "Stream-SSE-Data-Encoding": "base64"}
    data = base64.b64encode("a\u2028b\n".encode()).decode()
    node.will(
        Reply(200, {"Content-Type": "application/octet-stream"}),
        Reply(200, encoded, events(f"event: data\ndata:{data}\n\n", control("A1", streamClosed=True))),
    )
    assert cli("stream", "tail", "s", "--sse").stdout == "a\u2028b\n"


def test_tail_by_events_gives_up_on_an_answer_without_events(cli: Cli, node: FakeNode) -> None:
    node.will(Reply(200, JSON), Reply(200, {"Content-Type": "text/html"}, b"<html>\n"))
    assert cli("stream", "tail", "s", "--sse").code == 3


def test_tail_by_events_that_is_refused_exits_with_1(cli: Cli, node: FakeNode) -> None:
    node.will(Reply(200, JSON), Reply(503, body=b'{"error":{"code":"too_many_waiters","message":"full"}}'))
    outcome = cli("stream", "tail", "s", "--sse")
    assert outcome.code == 1
    assert "too_many_waiters: full" in outcome.stderr


# --- ls -------------------------------------------------------------------------------------------------------------


def test_ls_lists_the_node(cli: Cli, node: FakeNode) -> None:
    row = {"name": "shop/orders", "profile": "generic", "created_at": "2030", "next_offset": "A1"}
    node.will(Reply(200, JSON, json.dumps([row]).encode()), Reply(200, JSON, json.dumps([row, row]).encode()))
    assert cli("stream", "ls").stdout == "shop/orders\tgeneric\t2030\tA1\n"
    assert cli("stream", "ls", "--limit", "2", "--after", "10", "--json").objects == [row, row]
    assert [(request.path, request.query) for request in node.requests] == [
        ("/v1/streams", {}),
        ("/v1/streams", {"limit": "2", "offset": "10"}),
    ]


def test_ls_lists_a_bucket_by_prefix_and_says_where_to_go_on(cli: Cli, node: FakeNode) -> None:
    row = {"stream_id": "user-1", "status": "Open", "content_type": "text/plain", "tail_offset": 42}
    page = {"bucket_id": "shop", "streams": [row], "next_cursor": "user-1", "has_more": True}
    node.will(Reply(200, JSON, json.dumps(page).encode()))
    outcome = cli("stream", "ls", "--bucket", "shop", "--prefix", "user-", "--limit", "1", "--after", "u")
    assert (outcome.stdout, outcome.stderr) == ("user-1\tOpen\ttext/plain\t42\n", "more: --after user-1\n")
    (request,) = node.requests
    assert (request.path, request.query) == ("/shop/streams", {"prefix": "user-", "limit": "1", "after": "u"})


def test_names_and_messages_of_others_can_not_command_the_terminal(cli: Cli, node: FakeNode) -> None:
    node.will(Reply(200, JSON, json.dumps([{"name": "a\x1b[2J\nb\ud800"}]).encode()))
    assert cli("stream", "ls").stdout == "a\\x1b[2J\\nb\\ud800\t\t\t\n"
    node.will(Reply(409, body=json.dumps({"error": {"code": "c", "message": "\x1b]0;x\x07"}}).encode()))
    assert cli("stream", "close", "s").stderr == "c: \\x1b]0;x\\x07\n"


@pytest.mark.parametrize("tokens", [["--prefix", "x"], ["--after", "name"], ["--limit", "x"], ["--bucket", ".."]])
def test_ls_refuses_what_it_could_not_ask_for(cli: Cli, node: FakeNode, tokens: list[str]) -> None:
    assert cli("stream", "ls", *tokens).code == 2
    assert node.requests == []


# --- failures -------------------------------------------------------------------------------------------------------


def test_refusal_prints_code_and_message_and_exits_with_1(cli: Cli, node: FakeNode) -> None:
    node.will(Reply(409, body=b'{"error":{"code":"conflict","message":"another type"}}'))
    outcome = cli("stream", "create", "s")
    assert (outcome.code, outcome.stdout, outcome.stderr) == (1, "", "conflict: another type\n")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error":"text"}', b'{"error":{}}', b"\xff"])
def test_refusal_without_a_readable_body_is_named_by_its_status(cli: Cli, node: FakeNode, body: bytes) -> None:
    node.will(Reply(502, body=body))
    outcome = cli("stream", "close", "s")
    assert (outcome.code, outcome.stderr) == (1, "http_502: Bad Gateway\n")


def test_redirect_is_not_followed_as_the_key_would_go_with_it(cli: Cli, node: FakeNode) -> None:
    node.will(Reply(307, {"Location": "http://127.0.0.1:1/"}))
    assert cli("stream", "close", "s").code == 1


def test_node_that_is_not_there_exits_with_3(cli: Cli, node: FakeNode) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # never listens, so that nobody answers there
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        outcome = cli("stream", "close", "s", "--url", url, "--json")
    assert outcome.code == 3
    (problem,) = outcome.objects
    assert problem["error"]["code"] == "unreachable"  # type: ignore[index]
    assert node.requests == []


@pytest.mark.parametrize("command", [["ls"], ["ls", "--bucket", "b"], ["read", "s"]])
def test_server_that_is_no_node_exits_with_3(cli: Cli, node: FakeNode, command: list[str]) -> None:
    node.will(Reply(200, {**JSON, **END}, b"[<html>"))
    outcome = cli("stream", *command)
    assert outcome.code == 3
    assert "strange_answer" in outcome.stderr


def test_tail_by_events_does_not_follow_a_redirect_either(cli: Cli, node: FakeNode) -> None:
    node.will(Reply(200, JSON), Reply(307, {"Location": "http://127.0.0.1:1/"}))
    assert cli("stream", "tail", "s", "--sse").code == 1


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "127.0.0.1:4437", "http://", "http://x:y"])
def test_address_that_is_none_is_a_usage_error(cli: Cli, url: str) -> None:
    assert cli("stream", "close", "s", "--url", url).code == 2


def test_key_of_flag_or_environment_is_sent_and_never_printed(
    cli: Cli, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.will(Reply(204, OFFSET), Reply(401), Reply(204, OFFSET))
    cli("stream", "close", "s")
    monkeypatch.setenv("STREAMS_API_KEY", "topsecret")
    outcome = cli("stream", "close", "s")
    cli("stream", "close", "s", "--api-key", "other")
    sent = [request.headers.get("Authorization") for request in node.requests]
    assert sent == [None, "Bearer topsecret", "Bearer other"]
    assert "topsecret" not in outcome.stdout + outcome.stderr


@pytest.mark.parametrize("wish", [["--content-type", "a/b\r\nX: y"], ["--ttl", "ü"], ["--api-key", "k\n"]])
def test_value_that_no_header_can_carry_is_a_usage_error_and_not_quoted(
    cli: Cli, node: FakeNode, wish: list[str]
) -> None:
    outcome = cli("stream", "create", "s", *wish)
    assert (outcome.code, node.requests) == (2, [])
    assert wish[1] not in outcome.stderr


# --- pages ----------------------------------------------------------------------------------------------------------

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.lists(JSON_VALUES), st.sampled_from([None, 2]), st.booleans())
def test_elements_of_any_json_array_come_back_each_on_one_line(
    values: list[object],
    indent: int | None,
    ascii_only: bool,  # noqa: FBT001 hypothesis passes it
) -> None:
    elements = list(json_elements(json.dumps(values, indent=indent, ensure_ascii=ascii_only)))
    assert [json.loads(element) for element in elements] == values
    assert not any("\n" in element or "\r" in element for element in elements)


@pytest.mark.parametrize(
    "array", ["[1.10, 1e2,12345678901234567890123]", " [\r\n1.10 ,1e2, 12345678901234567890123 ] "]
)
def test_numbers_keep_their_digits(array: str) -> None:
    assert list(json_elements(array)) == ["1.10", "1e2", "12345678901234567890123"]


def test_data_without_its_control_event_is_not_a_page_yet() -> None:
    lines = ("event: data", "data:[1]", "")
    assert list(pages_of_events([({"x": "y"}, line) for line in lines], "application/json")) == []


def test_the_flag_whose_value_may_be_absent_means_the_machine(cli: Cli, served: list[Settings]) -> None:
    for flag in ("--auto-tune", "--auto-tune=512"):
        assert cli("serve", flag, "--no-auth").code == 7
    assert [each.auto_tune for each in served] == ["auto", "512"]
    assert served[1].memory_limit_bytes == 512 << 20
