"""What a client is told when sealed entries cannot be read, in every mode."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from streams_node.errors import ObjectDamaged, ObjectMissing, Overloaded, StreamsError, Unavailable
from streams_node.objects.keys import ObjectId, pack_key
from streams_node.testing.inprocess import in_process
from streams_node.wal.lookup import Name

MADE = "ab" * 16
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("mode", ["", "&live=long-poll", "&live=sse"])
@pytest.mark.parametrize(
    ("failure", "status", "code", "retry_after"),
    [
        (ObjectDamaged(MADE, "a page's checksum does not match"), 500, "object_damaged", None),
        (ObjectMissing(pack_key(ObjectId(MADE))), 500, "object_missing", None),
        (Unavailable(f"sealed object `{MADE}` is not on this node", object=MADE), 503, "unavailable", "5"),
        (Overloaded(f"too many objects are being fetched, `{MADE}` too"), 429, "overloaded", "1"),
    ],
)
def test_entries_that_cannot_be_read_are_an_error_that_names_the_object_and_no_other_streams_matter(
    tmp_path: Path, mode: str, failure: StreamsError, status: int, code: str, retry_after: str | None
) -> None:
    async def read(*_: Any, **__: Any) -> None:
        raise failure

    async def test() -> None:
        async with in_process(tmp_path / "data") as node:
            for name in ("cold", "warm"):
                await node.request("PUT", f"/v1/stream/{name}", JSON, b"[1,2]")
            node.context.tiers = SimpleNamespace(reader=SimpleNamespace(read=read), stop=node.context.tiers.stop)
            state = node.context.ledger.states.peek(Name("_default", "cold"))
            assert state is not None
            state.cold_below = 2
            answer = await node.request("GET", f"/v1/stream/cold?offset=-1{mode}")
            assert answer.status == status
            said = json.loads(answer.body)["error"]
            assert said["code"] == code
            assert MADE in said["message"]
            assert answer.headers.get("retry-after") == retry_after
            assert (await node.request("GET", "/v1/stream/warm?offset=-1")).body == b"[1,2]"

    anyio.run(test)
