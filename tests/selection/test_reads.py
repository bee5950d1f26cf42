"""Keyed, timed and filtered reads against a plain list, page by page, wherever the entries lie."""

import json
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from tests.selection.world import KEYS, PATH, Entry, World, worlds

Predicate = Callable[[dict[str, Any]], bool]


def values(found: dict[str, Any], name: str) -> list[Any]:
    value = found.get(name)
    return [one for one in (value if isinstance(value, list) else [value]) if one is not None]


def is_(name: str, *wanted: Any) -> Predicate:
    return lambda found: any(one in wanted and not isinstance(one, bool) for one in values(found, name))


def is_true(found: dict[str, Any]) -> bool:
    return any(one is True or one == "true" for one in values(found, "ok"))


FILTERS: dict[str, Predicate] = {
    "service:api": is_("service", "api"),
    'service:"quo\\"te"': is_("service", 'quo"te'),
    "service:sla/sh": is_("service", "sla/sh"),
    'service:"back\\\\slash"': is_("service", "back\\slash"),
    "service:ünï": is_("service", "ünï"),
    'service:""': is_("service", ""),
    "low:API": is_("service", "api"),
    "service:nobody": lambda _: False,
    "n:2": is_("n", 2, "2"),
    "n:>=2": is_("n", 2, "2", 3),
    "ok:true": is_true,
    "has:n": lambda found: bool(values(found, "n")),
    "-service:web": lambda found: not is_("service", "web")(found),
    "service:api OR service:sla/sh": is_("service", "api", "sla/sh"),
    "(service:api OR n:3) NOT ok:true": lambda found: (
        (is_("service", "api")(found) or is_("n", 3)(found)) and not is_true(found)
    ),
    "service:other service:web": lambda found: is_("service", "other")(found) and is_("service", "web")(found),
}


async def walk(world: World, query: str, wanted: list[Entry], *, path: str = PATH, begin: str = "offset=-1") -> int:
    """Page after page: exactly these entries, each once; returns how many pages."""
    shown: list[bytes] = []
    raw = "format=raw" in query
    for pages in range(1, 10_000):
        reply = await world.get(f"{begin}&{query}", path)
        assert reply.status == 200, reply.body
        headers = reply.headers
        expected = wanted[len(shown) :]
        if raw:
            body = b""
            while len(body) < len(reply.body):
                body += expected[0].text
                shown.append(expected.pop(0).text)
            assert body == reply.body
        else:
            found = json.loads(reply.body)
            assert found == [one.record for one in expected[: len(found)]]
            assert reply.body == b"[%b]" % b",".join(one.text for one in expected[: len(found)])
            shown += [one.text for one in expected[: len(found)]]
        assert ("stream-up-to-date" in headers) == (headers["stream-next-offset"] == headers["stream-end-offset"])
        if "stream-up-to-date" in headers:
            assert len(shown) == len(wanted)
            return pages
        assert headers["stream-next-offset"] != begin.removeprefix("offset=")
        begin = f"offset={headers['stream-next-offset']}"
    raise AssertionError("no end")


async def check(world: World, chance: random.Random) -> None:
    entries = world.entries
    size = chance.choice(("", "&max_bytes=1", "&max_bytes=300", "&max_bytes=5000"))
    for one_key in filter(None, KEYS):
        keyed = [one for one in entries if one.key == one_key]
        await walk(world, f"key={quote(one_key, safe='')}{size}", keyed)
        await walk(world, f"{size}&format=raw", keyed, path=f"{PATH}/pk/{quote(one_key, safe='')}")
    await walk(world, "key=none-has-it", [])
    for text, matches in FILTERS.items():
        key = chance.choice(KEYS)
        wanted = [one for one in entries if matches(one.record) and (key is None or one.key == key)]
        extra = f"{size}&key={quote(key or '', safe='')}{chance.choice(('', '&format=raw'))}"
        await walk(world, f"filter={quote(text)}{extra}", wanted)
    for us in {one.us for one in chance.sample(entries, 5)} | {0, entries[-1].us + 1}:
        for moment in (us - 1, us, us + 1):
            key = chance.choice(KEYS)
            wanted = [one for one in entries if one.us >= moment and (key is None or one.key == key)]
            begin = f"since={max(0, moment) * 1000}&key={quote(key or '', safe='')}"
            await walk(world, f"key={quote(key or '', safe='')}", wanted, begin=begin.partition("&")[0])


@pytest.mark.parametrize("scan_bytes", [1024, 100 << 20])
@pytest.mark.parametrize("own_bytes", [2000, 1 << 20])
def test_reads_of_some_entries_are_the_plain_list_at_every_stage(
    tmp_path: Path, scan_bytes: int, own_bytes: int
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - to run it again
    chance = random.Random(seed)

    async def main() -> None:
        settings: dict[str, Any] = {"filter_scan_bytes_max": scan_bytes, "own_segment_bytes": own_bytes}
        async with worlds(tmp_path / "world", flush_ms_max=3_600_000, **settings) as (world, anew):
            await world.create()
            await world.append(chance, 40)
            await check(world, chance)
            for _ in range(3):
                await world.seal()
                await check(world, chance)
                await world.append(chance, 15)
                await check(world, chance)
            await world.evict()
            await check(world, chance)
            await world.seal()
            await anew()
            await check(world, chance)
            await world.append(chance, 10)
            await check(world, chance)

    anyio.run(main)


def run(folder: Path, test: Callable[[World], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        async with worlds(folder / "world", **settings) as (world, _):
            await test(world)

    anyio.run(main)
