"""A stream's change number: it grows with every change that can be seen, and never stands for two states."""

import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from streams_node.ingest.append import AppendRequest, decide
from streams_node.ingest.declare import declare
from streams_node.ingest.retain import retain
from streams_node.meaning import Facts, Standing
from streams_node.schema.registry import evolved, parse_update
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess, in_process
from streams_node.wal.lookup import Name
from tests.schema.messages import JSON, append, create, update
from tests.selection.world import worlds

PATH = "/v1/stream/s"
Tag = tuple[int, int, int]


async def tag(node: InProcess) -> Tag:
    """As an answer would name what it shows."""
    ledger = node.context.ledger
    state = await ledger.readable(Name("_default", "s"))
    await ledger.settle(state)
    return state.id, ledger.epochs.base, state.change


async def declare_search(node: InProcess, number: int) -> None:
    field = {"kind": "integer", "bindings": [{"version": 1, "jsonPointer": f"/n{number}"}], "exact": True}
    search = {"primaryTimestampField": "at", "fields": {"at": {**field, "kind": "date"}, "n": field}}
    assert (await update(node, {"search": search})).status == 200


async def route(node: InProcess, number: int) -> None:
    assert (await update(node, {"routingKey": {"jsonPointer": f"/{number}", "required": False}})).status == 200


async def add(node: InProcess, number: int) -> None:
    assert (await append(node, [number] * random.Random(number).randint(1, 3))).status == 204


async def let_go(node: InProcess, number: int) -> None:
    state = await node.context.ledger.readable(Name("_default", "s"))
    if state.earliest_seq == state.tail.seq:
        await add(node, number)
    await retain(node.context.ledger, state, state.earliest_seq + 1)


async def forget(node: InProcess) -> None:
    """States are loaded anew, as after they made room for others."""
    committer = node.context.ledger.committer
    committer.flush_heads()
    await committer.settled()
    node.context.ledger.states.clear()


CHANGES: list[Callable[[InProcess, int], Awaitable[None]]] = [add, add, add, declare_search, route, let_go]


async def look(node: InProcess, *_: Any) -> None:
    for query in ("_schema", "_profile"):
        assert (await node.request("GET", f"{PATH}/{query}")).status == 200
    assert (await node.request("GET", f"{PATH}?offset=now")).status == 200
    assert (await node.request("HEAD", PATH)).status == 200


async def refused(node: InProcess, *_: Any) -> None:
    assert (await update(node, {"schema": 7})).status == 400
    assert (await node.request("POST", PATH, JSON, b"{")).status == 400


async def same(node: InProcess, *_: Any) -> None:
    """Declared as it is."""
    assert (await node.request("POST", f"{PATH}/_profile", JSON, b'{"profile":{"kind":"generic"}}')).status == 200


def test_it_grows_with_each_change_and_with_nothing_else(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - to run it again
    chance = random.Random(seed)

    async def main() -> None:
        seen: list[Tag] = []
        async with worlds(tmp_path / "world", flush_ms_max=3_600_000) as (world, anew):

            async def live(steps: int) -> None:
                for at in range(steps):
                    await chance.choice(CHANGES)(world.node, at + 1000 * len(seen))
                    seen.append(await tag(world.node))
                    assert seen[-1] > seen[-2]
                    for idle in (look, refused, same):
                        await idle(world.node)
                    assert await tag(world.node) == seen[-1]
                    if chance.random() < 0.3:
                        await forget(world.node)
                    assert await tag(world.node) == seen[-1]
                assert len(set(seen)) == len(seen)

            await create(world.node)
            assert (await update(world.node, {"schema": True})).status == 200
            await add(world.node, 1)
            seen.append(await tag(world.node))
            await live(20)
            await world.seal()
            assert await tag(world.node) == seen[-1]
            before = seen[-1]
            await live(10)  # is lost
            await anew()
            state = await world.node.context.ledger.readable(Name("_default", "s"))
            assert state.change <= before[2]
            seen.append(await tag(world.node))
            assert len(set(seen)) == len(seen)
            await live(10)
            last = await tag(world.node)
            assert (await world.node.request("DELETE", PATH)).status == 204
            await create(world.node)
            assert (await tag(world.node)) > last

    anyio.run(main)


def routed(before: Standing, facts: Facts) -> Standing:
    update = parse_update(b'{"routingKey":{"jsonPointer":"/a","required":false}}')
    return before._replace(registry=evolved(before.registry, update, facts.end))


def test_it_is_of_what_is_stored(tmp_path: Path) -> None:
    async def main() -> None:
        async with worlds(tmp_path / "world") as (world, _):
            node = world.node
            await create(node)
            before = await tag(node)
            ledger = node.context.ledger
            state = await ledger.readable(Name("_default", "s"))
            seen: list[int] = []
            batches = [decide(ledger, state, AppendRequest(b"[1]", "application/json")).batch]
            seen.append(state.change)
            batches.append((await declare(ledger, state.name, routed)).batch)  # goes on at once, as it is decided
            seen.append(state.change)
            for batch in batches:
                assert batch is not None
                await batch.settling
            assert (seen[0], state.change) == (before[2], before[2] + 2)
            assert seen[1] < before[2] + 2

    anyio.run(main)


def test_a_restart_leaves_it_as_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        last: Tag | None = None
        for at in range(3):
            async with in_process(tmp_path / "node", clock=FakeClock()) as node:
                if last is None:
                    await create(node)
                    assert (await update(node, {"schema": True})).status == 200
                else:
                    assert await tag(node) == last
                await add(node, at)
                await route(node, at)
                last = await tag(node)

    anyio.run(main)
