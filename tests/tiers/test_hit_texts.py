"""The records of hits: those of any entries, wherever they lie, and whatever happens to their objects meanwhile."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streams_node.ingest.state import StreamState
from streams_node.read.cold import ColdReader
from streams_node.searching import sources
from streams_node.searching.sources import Texts, texts_of
from streams_node.testing.inprocess import InProcess
from streams_node.wal.lookup import Name
from tests.tiers.bucket import memory_bucket
from tests.tiers.node import append, create, evict, publish, tiered, tiers_of
from tests.tiers.test_races import S, T, merge

PATIENCE_S = 60.0


async def state_of(node: InProcess) -> StreamState:
    return await node.context.ledger.readable(Name("_default", "s"))


async def texts(node: InProcess, seqs: list[int], known: Texts | None = None) -> dict[int, bytes]:
    parts = node.context.database, tiers_of(node).reader
    fetch = texts_of if known is None else known.of
    return await fetch(parts, await state_of(node), seqs, time.monotonic() + PATIENCE_S)


async def grown(node: InProcess, entries: list[str], random: Random, count: int) -> None:
    """Some more entries of both streams, of very different sizes."""
    for _ in range(count):
        some = [f"{len(entries) + at}-{'x' * random.choice((0, 9, 400, 3000))}" for at in range(random.randint(1, 9))]
        await append(node, S, *some)
        entries += some
        await append(node, T, *some[: random.randint(1, 2)])


@pytest.mark.parametrize("seed", range(3))
def test_texts_are_those_that_were_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """In the log, in packs, in segments, while small objects become larger ones."""
    random, entries, read_on = Random(seed), list[str](), list[int]()
    readable = sources._readable

    async def counted(parts: Any, state: Any, group: Any, *more: Any) -> dict[int, bytes]:
        read_on.extend(group)
        return await readable(parts, state, group, *more)

    monkeypatch.setattr(sources, "_readable", counted)

    async def run() -> None:
        async with tiered(tmp_path, memory_bucket(), own_segment_bytes=20_000) as node:
            await create(node, S)
            await create(node, T)
            known = Texts()
            for step in range(8):
                await grown(node, entries, random, random.choice((1, 6)))
                if step % 3:
                    await publish(node)
                if step % 4 == 2:
                    await evict(node)
                for memory in (None, known):
                    some = [random.randrange(len(entries)) for _ in range(random.choice((1, 5, 60)))]
                    found = await texts(node, some, memory)
                    assert found == {seq: f'"{entries[seq]}"'.encode() for seq in some}
            await publish(node)
            await texts(node, [0])  # by now it is known that the log has nothing
            read_on.clear()
            assert len(await texts(node, list(range(len(entries))))) == len(entries)
            assert read_on == [], "what is sealed is looked up in its objects at once"

    asyncio.run(run())


def test_texts_come_out_of_several_row_groups_of_one_object(tmp_path: Path) -> None:
    entries = [f"{number}-{'x' * (number % 90 * 200)}" for number in range(400)]

    async def run() -> None:
        async with tiered(tmp_path, memory_bucket(), flush_bytes=8 << 20, flush_bytes_max=8 << 20) as node:
            await create(node, S)
            await append(node, S, *entries)
            await publish(node)
            known = Texts()
            await texts(node, [0])
            for some in ([399, 0], list(range(0, 400, 7)), list(range(400))):
                found = await texts(node, some, known)
                assert found == {seq: f'"{entries[seq]}"'.encode() for seq in some}
            assert known.groups.decoded > 2

    asyncio.run(run())


@pytest.mark.parametrize("sealed", [True, False])
def test_texts_are_read_as_long_as_there_is_room(tmp_path: Path, *, sealed: bool) -> None:
    entries = [f"{number}-{'x' * 10_000}" for number in range(500)]
    room, at_once = 200_000, 4

    async def run() -> None:
        async with tiered(tmp_path, memory_bucket(), flush_bytes=8 << 20, flush_bytes_max=8 << 20) as node:
            await create(node, S)
            await append(node, S, *entries)
            if sealed:
                await publish(node)
                await texts(node, [0])
            parts, state = (node.context.database, tiers_of(node).reader), await state_of(node)
            for some in (range(500), range(0, 500, 70)):  # neighbours, and each by itself
                found = await texts_of(parts, state, some, time.monotonic() + PATIENCE_S, bytes_max=room)
                assert found == {seq: f'"{entries[seq]}"'.encode() for seq in found}
                assert min(room, 10_000 * len(some)) <= sum(map(len, found.values())) <= room + 11_000 * at_once
            assert await texts_of(parts, state, range(500), time.monotonic() + PATIENCE_S, bytes_max=0) == {}

    asyncio.run(run())


async def end_neighbour(node: InProcess) -> None:
    reply = await node.request("DELETE", T)
    assert reply.status == 204
    await publish(node)


@pytest.mark.parametrize("act", [merge, evict, end_neighbour], ids=lambda act: act.__name__)
def test_texts_are_found_when_their_objects_are_replaced_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[InProcess], Awaitable[object]]
) -> None:
    """Between the look at where they are and the look into that."""
    entries, random = list[str](), Random(7)
    places_of = ColdReader.places_of

    async def run() -> None:
        async with tiered(tmp_path, memory_bucket()) as node:
            await create(node, S)
            await create(node, T)
            for _ in range(2):
                await grown(node, entries, random, 2)
                await publish(node)
            await texts(node, [0])
            acted: list[int] = []

            async def then_act(cold: ColdReader, stream: int, seqs: Any) -> Any:
                places = await places_of(cold, stream, seqs)
                if not acted:
                    acted.append(len(places))
                    await act(node)
                return places

            monkeypatch.setattr(ColdReader, "places_of", then_act)
            wanted = list(range(len(entries)))
            assert await texts(node, wanted) == {seq: f'"{entries[seq]}"'.encode() for seq in wanted}
            assert acted
            assert acted[0] > 0

    asyncio.run(run())
