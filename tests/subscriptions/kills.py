"""A node that is killed again and again, with writers, a receiver and workers that go on over its lives."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.support.node_process import NodeDied, NodeProcess
from tests.support.wire import Answer, Lost, Refused, Wire

# Named moments in the code of subscriptions, and at which pass of them a node dies.
POINTS = {"subscription.decided": 12, "webhook.answered": 6}
JSON = {"content-type": "application/json"}
STREAMS = [f"{bucket}/x{number}" for bucket in ("events", "tenants") for number in range(4)]
PULL, HOOK = "pull", "hook"
_LOSS = (Lost, Refused)
_CRASH_S = 15.0
# Heads are written often, so that what memory forgets is found in every way.
SETTINGS = {"heads_flush_rows": 20, "heads_flush_ms": 50, "webhooks_per_second_max": 1000}


@dataclass
class Truth:
    """What clients know for certain."""

    tails: dict[str, str] = field(default_factory=dict)  # ends that appends were answered with
    acked: dict[str, str] = field(default_factory=dict)  # acknowledgements that were answered
    claims: dict[int, str] = field(default_factory=dict)  # who got which generation
    deaths: int = 0


class Killed:
    """One data folder, and everybody who uses it."""

    def __init__(self, folder: Path, seed: str, hook: str) -> None:
        self._data = folder / "data"
        self._random = Random(seed)
        self._hook = hook
        self.truth = Truth()
        self._made = False

    async def live(self, crash_at: str | None) -> bool:
        """One life: until the node has killed itself at a moment, or is killed; whether it was the moment."""
        with NodeProcess(self._data, crash_at=crash_at, settings=SETTINGS) as node:
            try:
                await node.ready()
            except NodeDied:  # before it took requests: what it found to do was the moment
                self.truth.deaths += 1
                return True
            await self._look_back(node.port)
            tasks = [asyncio.create_task(self._write(node.port)) for _ in range(2)]
            tasks += [asyncio.create_task(self._work(node.port, f"w{number}")) for number in range(3)]
            try:
                if crash_at is None:
                    await asyncio.sleep(self._random.uniform(0.05, 0.6))  # any moment is as good
                    node.kill()
                await node.ended(_CRASH_S)
                self.truth.deaths += 1
                return True
            except TimeoutError:
                return False
            finally:
                for task in tasks:
                    task.cancel()
                for result in await asyncio.gather(*tasks, return_exceptions=True):
                    if isinstance(result, BaseException) and not isinstance(result, (asyncio.CancelledError, *_LOSS)):
                        raise result

    async def settle(self) -> None:
        """A last life, in which everything is acknowledged in the end."""
        with NodeProcess(self._data, settings=SETTINGS) as node:
            await node.ready()
            await self._look_back(node.port)
            working = asyncio.create_task(self._work(node.port, "last"))
            try:
                async with asyncio.timeout(60), Wire(node.port) as wire:
                    for id_ in (PULL, HOOK):
                        while await self._behind(wire, id_):  # noqa: ASYNC110 - it shows in answers only
                            await asyncio.sleep(0.02)
            finally:
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)
            node.terminate()
            assert await node.ended() == 0

    # --- who uses it ---

    async def _look_back(self, port: int) -> None:
        """Make what is to be there; and what was answered is still so."""
        async with Wire(port) as wire:
            if not self._made:
                await ask(wire, "PUT", "wake/pool", [])
                pull = {"type": "pull-wake", "wake_stream": "wake/pool", "lease_ttl_ms": 1000}
                for id_, wanted in ((PULL, pull), (HOOK, {"type": "webhook", "webhook": {"url": self._hook}})):
                    answer = await ask(wire, "PUT", f"__ds/subscriptions/{id_}", {**wanted, "pattern": "*/*"})
                    assert answer.status in {200, 201}, answer.body
                self._made = True
            acked = await self._shown(wire, PULL)
            for path, offset in self.truth.acked.items():
                assert acked.get(path, "") >= offset, f"{path} was acknowledged up to {offset}"

    async def _write(self, port: int) -> None:
        async with Wire(port) as wire:
            while True:
                path = self._random.choice(STREAMS)
                answer = await ask(wire, "POST", path, [self._random.random()])
                if answer.status == 404:
                    answer = await ask(wire, "PUT", path, [1])
                if answer.status < 300:
                    offset = answer.headers["stream-next-offset"]
                    self.truth.tails[path] = max(self.truth.tails.get(path, ""), offset)

    async def _work(self, port: int, worker: str) -> None:
        async with Wire(port) as wire:
            while True:
                answer = await ask(wire, "POST", f"__ds/subscriptions/{PULL}/claim", {"worker": worker})
                if answer.status == 200:
                    await self._process(wire, worker, json.loads(answer.body))
                else:
                    await asyncio.sleep(0.005)

    async def _process(self, wire: Wire, worker: str, claim: dict[str, Any]) -> None:
        """Work on a wake; now and then too long, or not to its end."""
        generation = claim["generation"]
        assert self.truth.claims.setdefault(generation, worker) == worker, f"generation {generation} has two holders"
        chance = self._random.random()
        if chance < 0.1:
            return
        if chance < 0.2:
            await asyncio.sleep(1.1)
        acks = {each["path"]: each["tail_offset"] for each in claim["streams"] if each["has_pending"]}
        said = {
            "wake_id": claim["wake_id"], "generation": generation, "done": chance < 0.8,
            "acks": [{"stream": path, "offset": offset} for path, offset in acks.items()],
        }  # fmt: skip
        bearer = {"authorization": f"Bearer {claim['token']}"}
        answer = await ask(wire, "POST", f"__ds/subscriptions/{PULL}/ack", said, bearer)
        if chance < 0.1 or answer.status != 200:
            assert answer.status in {200, 409, 503, 408}, answer.body
            return
        if not said["done"]:  # otherwise the next claim's answer may be read before this one
            assert max(self.truth.claims) == generation, "a holder was not fenced although there is a later wake"
        for path, offset in acks.items():
            self.truth.acked[path] = max(self.truth.acked.get(path, ""), offset)

    async def _shown(self, wire: Wire, id_: str) -> dict[str, str]:
        answer = await ask(wire, "GET", f"__ds/subscriptions/{id_}")
        assert answer.status == 200, answer.body
        return {each["path"]: each["acked_offset"] for each in json.loads(answer.body)["streams"]}

    async def _behind(self, wire: Wire, id_: str) -> list[str]:
        acked = await self._shown(wire, id_)
        return [path for path, tail in self.truth.tails.items() if acked.get(path, "") < tail]


async def ask(
    wire: Wire, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
) -> Answer:
    raw = b"" if body is None else json.dumps(body).encode()
    return await wire.request(method, f"/v1/stream/{path}", {**JSON, **(headers or {})}, raw)
