"""A node whose streams have entries in the bucket and in the log, and what has to hold of them whatever comes in."""

import asyncio
import json
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from streams_node.testing.inprocess import Answer, InProcess
from tests.schema.messages import V1, append, create, read, update
from tests.tiers.bucket import memory_bucket
from tests.tiers.node import publish, tiered

T = TypeVar("T")
SEALED_AT_ONCE = 150
SEALED = ({"a": "x"}, {"a": "y@z"})
FRESH = {"a": "in the log"}
QUIET = {"flush_ms_max": 3_600_000, "flush_bytes": 64 << 20, "flush_bytes_max": 64 << 20, "long_poll_ms_max": 100,
         "read_page_bytes": 1 << 20}  # fmt: skip


class Field:
    """One node; each example has a stream of its own."""

    def __init__(self, runner: asyncio.Runner, node: InProcess) -> None:
        self.node = node
        self.cases = 0  # bodies, queries and requests that were drawn, sent and judged
        self._runner = runner
        self._serial = count()
        self._sown: list[str] = []

    def run(self, work: Awaitable[T]) -> T:
        async def whole() -> T:
            async with asyncio.timeout(60):  # or else something hangs
                return await work

        return self._runner.run(whole())

    async def fresh(self) -> str:
        """The path of a new stream."""
        path = f"/v1/stream/f{next(self._serial)}"
        await create(self.node, path)
        return path

    async def sown(self) -> str:
        """The path of a stream with a schema, two entries in the bucket, and one in the log."""
        if not self._sown:
            self._sown = [await self.fresh() for _ in range(SEALED_AT_ONCE)]
            for path in self._sown:
                assert (await update(self.node, {"schema": V1}, path)).status == 200
                assert (await append(self.node, [*SEALED], path)).status == 204
            await self.publish()
        path = self._sown.pop()
        assert (await append(self.node, [FRESH], path)).status == 204
        return path

    async def publish(self) -> None:
        """All of it is in the bucket, and nothing in the log."""
        await publish(self.node)

    async def get(self, target: str) -> Answer:
        return await self.node.request("GET", target)


@contextmanager
def fields(folder: Path) -> Iterator[Field]:
    with asyncio.Runner() as runner:
        opened = tiered(folder / "data", memory_bucket(), **QUIET)
        node = runner.run(opened.__aenter__())
        try:
            yield Field(runner, node)
        finally:
            runner.run(opened.__aexit__(None, None, None))


def checked(answer: Answer, *others: int) -> Answer:
    """An answer, or a refusal that says what is wrong."""
    assert answer.status in {200, 204, 400, *others}, answer
    if answer.status >= 400:
        error = json.loads(answer.body)["error"]
        assert isinstance(error["code"], str)
        assert 0 < len(error["message"]) < 1000
    return answer


async def whole(field: Field, path: str, registry: bytes, profile: bytes, texts: list[bytes]) -> None:
    """A stream is what was said of it last, and holds what was taken; and it goes on."""
    assert (await field.get(f"{path}/_schema")).body == registry
    assert (await field.get(f"{path}/_profile")).body == profile
    raw = await read(field.node, "?format=raw", path)
    assert (raw.status, raw.body) == (200, b"".join(texts))
    checked(await read(field.node, path=path))


async def goes_on(field: Field, path: str, texts: list[bytes], entry: Any) -> None:
    """One more entry is taken and there, or refused and not."""
    answer = checked(await append(field.node, [entry], path))
    if answer.status == 204:
        texts.append(json.dumps(entry).encode())
    raw = await read(field.node, "?format=raw", path)
    assert (raw.status, raw.body) == (200, b"".join(texts))
