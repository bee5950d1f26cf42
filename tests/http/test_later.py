"""What the protocols describe and this version does not have is refused as that, and nothing changes."""

import json
from collections.abc import Callable

import pytest

from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess

JSON = {"content-type": "application/json"}
STATES = "the profile `state-protocol`"
TRACES = "traces of OpenTelemetry"
PARTS = [
    ("touch/meta", STATES),
    ("touch/wait", STATES),
    ("touch/templates/activate", STATES),
    ("_otlp/v1/traces", TRACES),
]
ADDRESSES = [("/v1/traces", TRACES), ("/v1/observe/request", "requests put together of events and traces")]


def refusal(what: str, part_of: str) -> bytes:
    message = f"`{what}` is not there yet: it belongs to {part_of}, which this version does not have"
    return json.dumps({"error": {"code": "not_implemented", "message": message}}, separators=(",", ":")).encode()


@pytest.mark.parametrize(("sub", "part_of"), PARTS)
@pytest.mark.parametrize("surface", ["/v1/stream/s", "/v1/stream/some/s", "/some/s"])
def test_parts_of_streams_that_a_later_version_has(
    with_node: Callable[..., None], surface: str, sub: str, part_of: str
) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await node.request("PUT", "/some")
        await node.request("PUT", surface, JSON, b"[1]")
        for method in ("GET", "POST", "DELETE"):
            answer = await node.request(method, f"{surface}/{sub}?x=1", JSON, b"{" if method == "POST" else b"")
            assert (answer.status, answer.body) == (501, refusal(sub, part_of))
            assert answer.headers["content-type"] == "application/json"
        assert (await node.request("HEAD", f"{surface}/{sub}")).status == 501
        assert (await node.request("OPTIONS", f"{surface}/{sub}")).status == 204
        assert (await node.request("PUT", f"{surface}/{sub}", JSON)).status == 400  # no stream can have this name
        assert (await node.request("GET", surface)).body == b"[1]"

    with_node(test)


@pytest.mark.parametrize(("path", "part_of"), ADDRESSES)
def test_addresses_that_a_later_version_has(with_node: Callable[..., None], path: str, part_of: str) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        for method in ("GET", "POST", "PUT"):
            answer = await node.request(method, path, JSON, b"\xff" if method == "POST" else b"")
            assert (answer.status, answer.body) == (501, refusal(path, part_of))

    with_node(test)
