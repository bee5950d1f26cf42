"""Entries move from tier to tier while they are read: each race by its name."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from streams_node.cache.copies import Cache
from streams_node.manifest import Chain, Header
from streams_node.read.cold import ColdReader
from streams_node.read.pages import _View
from streams_node.testing.inprocess import InProcess
from tests.http.event_streams import events_of
from tests.http.wire import ask
from tests.tiers.bucket import folder_bucket, memory_bucket
from tests.tiers.node import (
    append,
    create,
    error_of,
    evict,
    objects,
    page,
    publish,
    tiered,
    tiers_of,
    until,
    value,
    walk,
)

S, T = "/v1/stream/s", "/v1/stream/t"
# Where a page in the making looks next: right before that, something happens.
MOMENTS: list[tuple[type, str]] = [
    (_View, "_from_log"), (_View, "_from_objects"), (ColdReader, "_locate"), (ColdReader, "_slice"),
    (Cache, "_fill"),
]  # fmt: skip
READING: ContextVar[bool] = ContextVar("READING", default=False)
Act = Callable[[InProcess], Awaitable[object]]


async def merge(node: InProcess) -> None:
    """Give the compaction something to merge, and wait until it has."""
    for number in range(3):
        await append(node, T, number)
        await publish(node)
    await until(lambda: _merged(node), "packs are merged")


async def _merged(node: InProcess) -> bool:
    return any(level > 0 for _, _, level in await objects(node))


async def end_neighbour(node: InProcess) -> None:
    assert (await ask(node, "DELETE", T)).status == 204
    await publish(node)


ACTS: dict[str, Act] = {
    "flush and release": publish, "merge": merge, "evict": evict, "delete a neighbour": end_neighbour,
}  # fmt: skip


# A merge of objects that are being fetched for the reader waits for that: it cannot come in between.
RACES = [(act, moment) for act in ACTS for moment in MOMENTS if (act, moment[1]) != ("merge", "_fill")]


@pytest.mark.parametrize(("act", "moment"), RACES, ids=lambda each: each if isinstance(each, str) else each[1])
def test_a_page_is_whole_when_entries_move_in_the_middle_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str, moment: tuple[type, str]
) -> None:
    """At each place where a read looks, once with entries in the log only, once in both, once in objects only."""
    wanted: list[int] = []

    async def run() -> None:
        async with tiered(tmp_path, memory_bucket()) as node:
            await create(node, S)
            await create(node, T)
            for stage in ("log", "both", "objects"):
                await append(node, T, stage)
                for _ in range(4):
                    wanted.append(len(wanted))
                    await append(node, S, wanted[-1])
                if stage != "log":
                    await publish(node)
                    await evict(node)
                if stage == "both":
                    wanted.append(len(wanted))
                    await append(node, S, wanted[-1])
                with monkeypatch.context() as patch:
                    once = _before(patch, *moment, lambda: ACTS[act](node))
                    assert await walk(node, S, max_bytes=5) == wanted, (stage, once)
                if act == "delete a neighbour" and once:
                    await create(node, T)

    asyncio.run(run())


def _before(patch: pytest.MonkeyPatch, room: type, name: str, act: Callable[[], Awaitable[object]]) -> list[int]:
    """The first time that this is called, something else happens first. Says when it has."""
    original: Any = getattr(room, name)
    done: list[int] = []
    READING.set(True)  # the tasks that this one starts know it, too; the stages do not

    async def instead(*arguments: Any, **named: Any) -> Any:
        if READING.get() and not done:
            done.append(1)
            await act()
        return await original(*arguments, **named)

    patch.setattr(room, name, instead)
    return done


@pytest.mark.parametrize("forked", [False, True], ids=["", "forked"])
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment[1])
def test_a_stream_that_is_deleted_while_it_is_read_is_not_found_or_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: tuple[type, str], *, forked: bool
) -> None:
    refusal = (410, "gone") if forked else (404, "not_found")

    async def run() -> None:
        async with tiered(tmp_path, memory_bucket()) as node:
            await create(node, S)
            await append(node, S, *range(50))
            if forked:
                assert (await ask(node, "PUT", "/v1/stream/fork", {"stream-forked-from": S})).status == 201
            await publish(node)
            await evict(node)

            async def end() -> None:
                assert (await ask(node, "DELETE", S)).status == 204
                await publish(node)

            done = _before(monkeypatch, *moment, end)
            reply = await page(node, S)
            assert done, "the moment has passed unseen"
            if reply.status == 200:  # it had all it needed before
                assert json.loads(reply.body) == list(range(50))
            else:
                assert (reply.status, error_of(reply)["code"]) == refusal
            assert (await page(node, S)).status == refusal[0]

    asyncio.run(run())


def test_readers_and_writers_go_on_while_everything_moves(tmp_path: Path) -> None:
    """Four readers from the start to the end, again and again; a writer; flushes, merges, evictions and deletions."""

    async def run() -> None:
        async with tiered(tmp_path, memory_bucket(), own_segment_bytes=3000, segment_entries=20) as node:
            await create(node, S)
            wanted: list[int] = []
            over = asyncio.Event()

            async def write() -> None:
                for number in range(150):
                    wanted.append(number)
                    await append(node, S, number)
                    await asyncio.sleep(0.002)
                over.set()

            async def read(bytes_max: int) -> int:
                walks = 0
                while not over.is_set():
                    least = len(wanted) - 1  # the newest one may be on its way
                    found = await walk(node, S, max_bytes=bytes_max)
                    assert found == list(range(len(found)))
                    assert len(found) >= least
                    walks += 1
                return walks

            async def move() -> None:
                for number in count():
                    path = f"/v1/stream/neighbour-{number}"
                    await create(node, path)
                    await append(node, path, number)
                    await publish(node)
                    await evict(node)
                    await ask(node, "DELETE", path)
                    if over.is_set():
                        return

            async with asyncio.TaskGroup() as group:
                group.create_task(write())
                group.create_task(move())
                readers = [group.create_task(read(size)) for size in (1, 20, 200, 10_000)]
            assert all(reader.result() for reader in readers)
            assert await walk(node, S) == wanted

    asyncio.run(run())


def shown(body: bytes) -> list[Any]:
    """The entries of an event stream."""
    return [entry for event in events_of(body) if event.kind == "data" for entry in json.loads(event.data)]


# --- live readers ---------------------------------------------------------------------------------------------------


def test_an_event_stream_goes_on_over_a_flush(tmp_path: Path) -> None:
    async def run() -> None:
        async with tiered(tmp_path, memory_bucket(), hot_tail_stream_bytes_max=0) as node:
            await create(node, S)
            await append(node, S, 0)
            reader = node.start("GET", f"{S}?offset=-1&live=sse")
            for number in range(1, 6):
                await append(node, S, number)
                await publish(node)
                await evict(node)
                await append(node, S, -number)
            body = await reader.until(b"-5")
            await reader.hang_up()
            assert shown(body) == [0, *(sign for number in range(1, 6) for sign in (number, -number))]

    asyncio.run(run())


def test_an_event_stream_that_begins_in_the_bucket_comes_to_the_log_and_waits(tmp_path: Path) -> None:
    async def run() -> None:
        async with tiered(tmp_path, memory_bucket()) as node:
            await create(node, S)
            for number in range(30):
                await append(node, S, number, "x" * 500)
                if number % 10 == 9:
                    await publish(node)
            await evict(node)
            await append(node, S, "in the log")
            reader = node.start("GET", f"{S}?offset=-1&live=sse")
            await reader.until(b"upToDate")
            await append(node, S, "the end")
            body = await reader.until(b"the end")
            await reader.hang_up()
            seen = shown(body)
            wanted: list[object] = [each for number in range(30) for each in (number, "x" * 500)]
            assert seen == [*wanted, "in the log", "the end"]

    asyncio.run(run())


def test_a_long_poll_waits_over_a_flush_and_hears_of_the_next_entry(tmp_path: Path) -> None:
    async def run() -> None:
        async with tiered(tmp_path, memory_bucket()) as node:
            await create(node, S)
            offset = await append(node, S, *range(20))
            poll = asyncio.create_task(page(node, S, offset, live="long-poll", timeout_ms=20_000))
            await until(lambda: node.context.live.readers, "it waits")
            await publish(node)
            await evict(node)
            await append(node, S, "news")
            reply = await poll
            assert (reply.status, json.loads(reply.body)) == (200, ["news"])

    asyncio.run(run())


def test_a_live_reader_that_meets_a_store_that_is_away_is_cut_off_and_comes_back(tmp_path: Path) -> None:
    """Nothing it was told is wrong: it goes on from the last offset it has."""

    async def run() -> None:
        bucket = memory_bucket()
        async with tiered(tmp_path, bucket) as node:
            await create(node, S)
            await append(node, S, *range(20))
            await publish(node)
            await evict(node)
            with bucket.away():
                reader = node.start("GET", f"{S}?offset=-1&live=sse")
                async with asyncio.timeout(10):
                    await asyncio.gather(reader.task, return_exceptions=True)
                assert not [event for event in events_of(reader.body) if event.kind == "data"]
            reader = node.start("GET", f"{S}?offset=-1&live=sse")
            body = await reader.until(b"19")
            await reader.hang_up()
            assert shown(body) == [*range(20)]

    asyncio.run(run())


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_object_stops_its_own_stream_only_and_is_named(tmp_path: Path, damage: str) -> None:
    root = tmp_path / "bucket"

    async def run() -> None:
        async with tiered(tmp_path / "data", folder_bucket(root), own_segment_bytes=100) as node:
            await create(node, S)
            await create(node, T)
            await append(node, S, *range(100))
            await append(node, T, *range(100))
            await publish(node)
            await evict(node)
            mine = int(await value(node, "SELECT id FROM streams WHERE name = 's'"))
            (file,) = [path for path in root.glob("segments/*/*.parquet") if int(path.parent.name) == mine]
            whole = file.read_bytes()
            _harm(file, whole, damage)
            made = file.stem.rpartition("-")[2]
            reply = await page(node, S)
            said = error_of(reply)
            assert (reply.status, said["code"]) == (500, "object_missing" if damage == "remove" else "object_damaged")
            assert made in said["message"]
            assert "put it back from a copy of the bucket" in said["message"]
            assert await walk(node, T) == list(range(100))
            await append(node, S, "what comes is stored")
            await append(node, T, "and here")
            await publish(node)
            assert (await page(node, S)).status == 500
            assert json.loads((await page(node, S, "now")).body) == []
            assert (await walk(node, T))[-1] == "and here"
            assert (await ask(node, "HEAD", S)).status == 200

    asyncio.run(run())


def _harm(file: Path, whole: bytes, damage: str) -> None:
    half = len(whole) // 2
    match damage:
        case "flip":
            file.write_bytes(whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :])
        case "cut":
            file.write_bytes(whole[:half])
        case _:
            file.unlink()


# --- generations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_seal", [False, True], ids=["of names only", "of a seal"])
def test_a_generation_of_an_earlier_life_that_arrives_late_is_taken_up(tmp_path: Path, *, with_seal: bool) -> None:
    """The process was killed while its request was on its way; it arrives when the next one runs already."""
    bucket = memory_bucket()

    async def first() -> tuple[Header, bytes]:
        """A life that sends a generation, and dies before it arrives."""
        sent: list[tuple[Header, bytes]] = []
        async with tiered(tmp_path, bucket) as node:
            await create(node, S)
            await append(node, S, 1)
            await publish(node)
            await append(node, S, 2, 3)

            def lose(_: Chain, header: Header, data: bytes) -> str:
                sent.append((header, data))
                raise RuntimeError("no answer")

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Chain, "commit", lose)
                if with_seal:
                    assert tiers_of(node).segmenter is not None
                    tiers_of(node).segmenter.demand()  # type: ignore[union-attr]
                else:
                    await create(node, T)
                await until(lambda: sent, "a generation is sent")
                await tiers_of(node).stop()
        return sent[0]

    async def second(late: tuple[Header, bytes]) -> None:
        async with tiered(tmp_path, bucket) as node:
            direct = bucket.direct()
            await append(node, S, 4)
            assert tiers_of(node).generation == late[0].generation - 1
            Chain(direct).commit(*late)
            await append(node, S, 5)
            await publish(node)
            assert await walk(node, S) == [1, 2, 3, 4, 5]
            await evict(node)
            assert await walk(node, S) == [1, 2, 3, 4, 5]
            assert tiers_of(node).generation > late[0].generation
            assert int(await value(node, "SELECT sum(entries) FROM objects WHERE dead_us IS NULL")) == 5

    late = asyncio.run(first())
    asyncio.run(second(late))


def test_a_round_that_fails_after_its_generation_is_not_published_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that cannot be removed is no reason to begin again."""

    unlink = Path.unlink

    def refuse(path: Path, *, missing_ok: bool = False) -> None:
        if path.parent.name == "sealing":
            raise PermissionError(f"{path} is to stay")
        unlink(path, missing_ok=missing_ok)

    async def run() -> None:
        async with tiered(tmp_path / "data", folder_bucket(tmp_path / "bucket")) as node:
            await create(node, S)
            await publish(node)
            with monkeypatch.context() as patch:
                patch.setattr(Path, "unlink", refuse)
                await append(node, S, 1)
                await publish(node)
            await append(node, S, 2)
            await publish(node)
            assert await walk(node, S) == [1, 2]
            assert tiers_of(node).uploader.failures == 0  # type: ignore[union-attr]

    asyncio.run(run())
