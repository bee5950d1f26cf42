"""Pages of streams against plain lists, while their entries move from the log to the bucket and about in it."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from streams_node.errors import StoreError, Unavailable
from streams_node.objects.faults import Fault
from tests.read.layers import Layers, layers

KINDS = ("application/json", "text/plain", "application/json", "image/png", "application/json")
SIZES = (1, 2, 7, 24, 63, 64, 65, 130, 400)
READERS = 4
MOVES = 300


@pytest.mark.parametrize("round_index", range(4))
def test_every_page_is_the_plain_list_whatever_is_moved_under_it(tmp_path: Path, round_index: int) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - to run it again
    seen = anyio.run(_everything_at_once, tmp_path, seed, round_index)
    print(dict(seen))  # noqa: T201 - how much of what was mixed in


async def _everything_at_once(folder: Path, seed: int, round_index: int) -> Counter[str]:
    chance = random.Random(seed)
    small = {"decoded_bytes_max": 1 << 20, "directory_bytes_max": 1 << 20} if round_index % 2 else {}
    async with layers(folder, seed=seed, cache_bytes=(3000, 1 << 20)[round_index % 2], **small) as world:
        for kind in KINDS:
            await world.create(kind)
        seen: Counter[str] = Counter()
        if round_index >= 2:
            world.faults.chances = {Fault.BUSY: 0.05, Fault.CORRUPT: 0.05, Fault.TRUNCATED: 0.05}
        over = asyncio.Event()
        readers = [asyncio.create_task(_read(world, random.Random(seed + at), seen, over)) for at in range(READERS)]
        await _move(world, chance, seen)
        over.set()
        await asyncio.gather(*readers)
        world.faults.chances, world.faults.away = {}, False
        world.cold._damaged.clear()  # what was damaged on the way is tried again after some seconds
        for which in range(len(KINDS)):
            await world.walk(which, chance.choice((50, 500, 5000)), raw=chance.random() < 0.5)
        assert seen["pages"] > MOVES // 2
        return seen


async def _move(world: Layers, chance: random.Random, seen: Counter[str]) -> None:
    moves: dict[str, tuple[int, Callable[[], Awaitable[None]]]] = {
        "append": (30, lambda: _append(world, chance)),
        "seal": (6, lambda: world.seal(own_bytes=chance.choice((1, 300, 10**6)))),
        "release": (8, lambda: world.release(chance.choice((1, 5, None)))),
        "merge": (5, lambda: _merge(world, chance)),
        "collect": (3, world.collect),
        "evict": (2, world.evict),
        "forget": (1, world.forget_directories),
        "damage": (2, lambda: _damage(world, chance)),
        "away": (1, lambda: _away(world, chance)),
    }
    names = list(moves)
    for _ in range(MOVES):
        name = chance.choices(names, [moves[name][0] for name in names])[0]
        seen[name] += 1
        await moves[name][1]()
        await asyncio.sleep(chance.choice((0, 0, 0.001)))


async def _append(world: Layers, chance: random.Random) -> None:
    which = chance.randrange(len(KINDS))
    start = len(world.entries[which])
    await world.append(which, [_entry(which, start + at, chance.choice(SIZES)) for at in range(chance.randrange(1, 6))])


async def _merge(world: Layers, chance: random.Random) -> None:
    if len(world.living) > 1:
        inputs = chance.sample(world.living, chance.randrange(2, min(6, len(world.living)) + 1))
        await world.merge(inputs, split=chance.random() < 0.5, segments=chance.random() < 0.3)


async def _damage(world: Layers, chance: random.Random) -> None:
    world.damage_copies(chance)


async def _away(world: Layers, chance: random.Random) -> None:
    world.faults.away = True
    await asyncio.sleep(chance.choice((0, 0.01)))
    world.faults.away = False


async def _read(world: Layers, chance: random.Random, seen: Counter[str], over: asyncio.Event) -> None:
    """One client: here and there, then some pages in order, of any size."""
    which, at = 0, 0
    while not over.is_set():
        tail = world.streams[which].tail.seq
        if at >= tail or chance.random() < 0.2:
            which = chance.randrange(len(KINDS))
            at = chance.choice((0, chance.randint(0, world.streams[which].tail.seq)))
        try:
            page = await world.check(which, at, chance.choice((1, 20, 100, 1000, 10**6)), raw=chance.random() < 0.3)
        except Unavailable:
            seen["unavailable"] += 1
            await asyncio.sleep(0.001)
        except StoreError as failure:
            if not world.faults.chances:  # a request whose every answer was damaged on the way
                raise
            seen[failure.code] += 1
        else:
            at = page.end
            seen["pages"] += 1
        await asyncio.sleep(0)


def _entry(which: int, seq: int, size: int) -> bytes:
    """Bytes that say whose they are; a JSON value of the same size."""
    if size == 1:
        return str(seq % 10).encode()
    mark = f"{which}.{seq},".encode()
    return b'"' + (mark * (size // len(mark) + 1))[: size - 2] + b'"' if size > 2 else b'""'
