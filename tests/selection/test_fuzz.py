"""Any text as a filter, a key or a time: an answer or a refusal, soon, and never a fault."""

import asyncio
import json
from collections.abc import Iterator
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams_node.testing.inprocess import InProcess, in_process
from tests.http.wire import Reply, ask
from tests.selection.world import JSON, PATH, SEARCH

ODD = (b'{"n":1}', b"null", b'"\\ud800"', b"[[[]]]", b'{"n":1e999}', b'{"service":"\\ud800"}', b"1" * 5000,
       b'{"n":' + b"9" * 5000 + b"}", b"[" * 90 + b"]" * 90,
       b'{"at":"2026-01-01","n":[1,[2,null]],"ok":"TRUE "}')  # fmt: skip
words = st.sampled_from(
    ["service", "n", "ok", "at", "low", "has", ":", "(", ")", "AND", "OR", "NOT", "-", ">=", "<", "=", '"', "\\", " ",
     "1", "1e999", "2026-01-01", "true", "ü", "\ud7ff", "*", "nobody", "9" * 2000]
)  # fmt: skip
likely = st.lists(words, max_size=14).map(" ".join) | st.lists(words, max_size=14).map("".join)
texts = (likely | st.text(max_size=40)).map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=30)


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, InProcess]]:
    with asyncio.Runner() as runner:
        context = in_process(tmp_path_factory.mktemp("node") / "node", long_poll_ms_max=100)

        async def begin() -> InProcess:
            node = await context.__aenter__()
            await ask(node, "PUT", PATH, JSON)
            await ask(node, "PUT", "/v1/stream/odd", JSON)
            for entry in ODD:  # what one parser refuses another takes
                await ask(node, "POST", "/v1/stream/odd", JSON, b"[%b]" % entry)
            for path in (PATH, "/v1/stream/odd"):
                body = {"search": SEARCH} if path != PATH else {"schema": {"type": "object"}, "search": SEARCH}
                await ask(node, "POST", f"{path}/_schema", JSON, json.dumps(body).encode())
            for entry in ODD:
                await ask(node, "POST", PATH, JSON, entry)
            return node

        node = runner.run(begin())
        yield runner, node
        runner.run(context.__aexit__(None, None, None))


@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filter_=texts | st.none(), key=texts | st.none(), since=texts | st.none(), rest=st.sampled_from(
    ["", "&format=raw", "&offset=-1", "&offset=-1&live=long-poll&timeout=0", "&max_bytes=1"]))  # fmt: skip
def test_any_selection_is_answered_or_refused(
    loop: tuple[asyncio.Runner, InProcess], filter_: bytes | None, key: bytes | None, since: bytes | None, rest: str
) -> None:
    runner, node = loop
    given_as = {"filter": filter_, "key": key, "since": since}
    query = "&".join(f"{name}={quote_from_bytes(text)}" for name, text in given_as.items() if text is not None) + rest
    reply = runner.run(ask(node, "GET", f"{PATH}?{query}"))
    checked(reply)
    if key:
        checked(runner.run(ask(node, "GET", f"{PATH}/pk/{quote_from_bytes(key, safe='')}?{rest[1:]}")))


def checked(reply: Reply) -> None:
    assert reply.status in {200, 204, 400}, reply
    if reply.status == 400:
        assert json.loads(reply.body)["error"]["code"] == "bad_request"
    if reply.status == 200 and reply.headers["content-type"] == "application/json":
        assert "stream-next-offset" in reply.headers
