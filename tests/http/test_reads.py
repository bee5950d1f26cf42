"""What a page says belongs to one moment, whatever is written meanwhile."""

import asyncio
from collections.abc import Callable

import pytest

from streams_node.protocol.offsets import encode
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess
from tests.http.wire import ask

WithNode = Callable[..., None]
TEXT = {"content-type": "text/plain"}
PATH = "/v1/stream/a"


@pytest.mark.parametrize("query", ["", "?offset=-1&live=long-poll", "?max_bytes=7"])
def test_a_page_that_reaches_the_end_names_that_end(with_node: WithNode, query: str) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", PATH, TEXT, b"x")
        for _again in range(20):
            reads = [ask(node, "GET", PATH + query) for _ in range(3)]
            replies = await asyncio.gather(*reads, *(ask(node, "POST", PATH, TEXT, b"y") for _ in range(3)))
            for reply in replies[:3]:
                headers = reply.headers
                reached = headers["stream-next-offset"] == headers["stream-end-offset"]
                assert reached == ("stream-up-to-date" in headers)
                assert headers["stream-next-offset"] == encode(0, len(reply.body))

    with_node(test)


def test_a_page_is_cut_to_what_was_asked_for_and_holds_one_entry_at_least(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", PATH, {"content-type": "application/json"}, b'[1,"twenty bytes are few",3,4]')
        for bytes_max, body in (
            (1, b"[1]"),
            (2, b"[1]"),
            (23, b"[1]"),
            (24, b'[1,"twenty bytes are few"]'),
            (26, None),
        ):
            reply = await ask(node, "GET", f"{PATH}?max_bytes={bytes_max}")
            assert reply.body == (body or b'[1,"twenty bytes are few",3]'), bytes_max
        second = await ask(node, "GET", f"{PATH}?max_bytes=1&offset={encode(0, 1)}")
        assert second.body == b'["twenty bytes are few"]'

    with_node(test)


def test_a_page_is_never_larger_than_the_node_allows(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", PATH, TEXT)
        for _again in range(30):
            await ask(node, "POST", PATH, TEXT, b"x" * 100)
        assert len((await ask(node, "GET", PATH)).body) == 1000
        assert len((await ask(node, "GET", f"{PATH}?max_bytes=999999999")).body) == 2000

    with_node(test, read_page_bytes=1024, read_page_bytes_max=2048)


def test_a_large_entry_comes_whole_whatever_the_page(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        body = bytes(range(256)) * 200
        await ask(node, "PUT", PATH, None, body)
        await ask(node, "POST", PATH, {"content-type": "application/octet-stream"}, b"end")
        for bytes_max in (1, 4096, len(body)):
            reply = await ask(node, "GET", f"{PATH}?max_bytes={bytes_max}")
            assert (reply.body, reply.headers["stream-next-offset"]) == (body, encode(0, 1))
        assert (await ask(node, "GET", f"{PATH}?max_bytes={len(body) + 3}")).body == body + b"end"

    with_node(test, log_row_bytes_max=4096)
