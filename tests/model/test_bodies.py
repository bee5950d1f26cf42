"""What the model takes for JSON is what the node takes: the lives draw such bodies once in ten thousand."""

import asyncio
from pathlib import Path

import pytest

from streams_node.testing.inprocess import in_process
from tests.http.wire import ask
from tests.model.world import entries_of

BODIES = (
    b"4", b"[]", b'["\xc3\xa9"]', b"\x004", b"4\x00", b"\xff\xfe4\x00", b"\xef\xbb\xbf4", b'"\xed\xa0\x80"', b"\xa1",
    b"NaN", b"-Infinity",
)  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_the_model_takes_the_bodies_that_the_node_takes(tmp_path: Path, body: bytes) -> None:
    async def status() -> int:
        async with in_process(tmp_path) as node:
            return (await ask(node, "PUT", "/v1/stream/s", {"content-type": "application/json"}, body)).status

    assert asyncio.run(status()) == (400 if entries_of(body, is_json=True) is None else 201)
