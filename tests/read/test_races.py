"""One by one: what can happen under a reader, and what it must then be told."""

import asyncio
import errno
import os
import random
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pytest

import sql
from streams_node.errors import Missing, ObjectDamaged, ObjectMissing, Overloaded, ShortHere, Unavailable
from streams_node.wal.tails import LogEnd, NotInLog, Slice
from tests.read.layers import Layers, _execute, flip, layers

JSON, TEXT = "application/json", "text/plain"
World = Callable[..., None]
ENTRIES = [[b"[%d]" % at, b'{"at":%d}' % at] for at in range(6)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Runs a coroutine with a world of its own."""

    def run(test: Callable[[Layers], Awaitable[None]], **settings: Any) -> None:
        async def main() -> None:
            async with layers(tmp_path, **settings) as one:
                await test(one)

        anyio.run(main)

    return run


def test_rows_released_between_two_looks_are_found_in_their_objects(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.append(0, [b"1", b"2"])
        await world.seal()
        await world.append(0, [b"3"])
        read = world.database.read_slice

        async def overtaken(*args: Any, **kwargs: Any) -> Slice:
            await world.release()
            return await read(*args, **kwargs)

        world.database.read_slice = overtaken  # type: ignore[method-assign]
        page = await world.check(0, 0, 1000)
        assert (page.payload, page.up_to_date) == (b"1,2,3", True)
        assert world.streams[0].cold_below == 2

    world(test)


def test_a_page_goes_from_packs_over_segments_into_the_log(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.create(TEXT)
        await world.append(1, [b"of another stream"])
        await world.sealed(0, ENTRIES[:2], own_bytes=10**6)
        await world.sealed(0, ENTRIES[2:4], own_bytes=1)
        await world.append(0, [b'"in the log"'])
        page = await world.check(0, 0, 10**6)
        assert page.up_to_date
        assert (await world.check(0, 1, 10**6, raw=True)).up_to_date
        for bytes_max in range(1, len(page.payload) + 2):
            assert await world.walk(0, bytes_max) >= 1

    world(test)


def test_a_small_stream_with_an_entry_in_each_of_many_packs_is_read_in_few_pages(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.create(JSON)
        for at in range(50):
            await world.append(0, [b"%d" % at])
            await world.append(1, [b"0"])
            await world.seal(own_bytes=10**6)
        await world.release()
        assert await world.walk(0, 10**6) <= 3
        assert await world.walk(0, 20, raw=True) >= 5

    world(test)


def test_an_object_that_a_merge_replaced_and_that_was_deleted_is_looked_up_anew(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.sealed(0, ENTRIES, own_bytes=10**6)
        at = (await world.check(0, 0, 6)).end
        before = list(world.living)
        await world.merge(before)
        await world.collect()
        assert world.living != before
        while at < 12:
            at = (await world.check(0, at, 6)).end

    world(test)


def test_an_object_that_dies_while_it_is_fetched_is_looked_up_anew(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.sealed(0, ENTRIES[:3])
        slice_once = world.cold._slice_once

        async def overtaken(*args: Any, **kwargs: Any) -> Any:
            world.cold._slice_once = slice_once  # type: ignore[method-assign]
            await world.merge(world.living)
            await world.collect()
            return await slice_once(*args, **kwargs)

        world.cold._slice_once = overtaken  # type: ignore[method-assign]
        assert (await world.check(0, 0, 10**6)).up_to_date

    world(test)


def test_a_missing_object_that_the_catalogue_names_is_an_error_that_names_it(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.create(JSON)
        await world.sealed(0, ENTRIES[:1])
        await world.sealed(1, ENTRIES[:1])
        facts = world.living[0].facts
        world.bucket.delete(facts.key())
        with pytest.raises(ObjectMissing, match=facts.made):
            await world.page(0, 0, 1000)
        await world.check(1, 0, 1000)

    world(test)


def test_a_page_that_has_something_ends_before_an_object_that_cannot_be_had(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.sealed(0, ENTRIES[:3])
        world.bucket.delete(world.living[1].facts.key())
        page = await world.check(0, 0, 10**6)
        assert (page.end, page.up_to_date) == (2, False)
        with pytest.raises(ObjectMissing):
            await world.page(0, 2, 10**6)
        assert (await world.check(0, 4, 10**6)).up_to_date

    world(test)


def test_a_damaged_copy_is_fetched_once_more_and_no_reader_notices(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.sealed(0, ENTRIES[:2])
        await world.check(0, 0, 10**6)
        before = world.gets()
        for seed, one in enumerate(world.living):
            world.cold.files.drop(one.facts.made)
            world.cold.groups.drop(one.facts.made)
            (copy,) = (world.folder / "cache").glob(f"{one.facts.made}-*")
            for at in range(40):
                flip(copy, random.Random(100 * seed + at))
        await world.walk(0, 10**6)
        damaged = world.cache.counts.damaged
        assert world.gets() - before == damaged > 0

    world(test)


def test_a_copy_that_was_cut_off_or_removed_is_fetched_once_more(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.sealed(0, ENTRIES[:1])
        made = world.living[0].facts.made
        await world.check(0, 0, 10**6)
        for harm in (lambda copy: os.truncate(copy, 99), os.unlink):
            world.cold.files.drop(made)
            world.cold.groups.drop(made)
            (copy,) = (world.folder / "cache").glob(f"{made}-*")
            harm(copy)
            await world.check(0, 0, 10**6)

    world(test)


def test_an_object_damaged_in_the_store_fails_its_own_streams_and_is_not_fetched_for_each_request(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.create(JSON)
        await world.sealed(0, ENTRIES[:1])
        await world.sealed(1, ENTRIES[:1])
        facts = world.living[0].facts
        world.damage_object(world.living[0])
        with pytest.raises(ObjectDamaged, match=facts.made) as failure:
            await world.page(0, 0, 1000)
        assert failure.value.facts == {"object": facts.made}
        before = world.gets()
        for _ in range(3):
            with pytest.raises(ObjectDamaged, match=facts.made):
                await world.page(0, 0, 1000)
        assert world.gets() == before
        await world.check(1, 0, 1000)

    world(test)


def test_a_store_that_is_away_is_503_for_what_is_not_cached_and_nothing_for_the_rest(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.create(JSON)
        await world.sealed(0, ENTRIES[:1])
        await world.sealed(1, ENTRIES[:1])
        await world.check(0, 0, 1000)
        world.faults.away = True
        with pytest.raises(Unavailable, match=world.living[1].facts.made):
            await world.page(1, 0, 1000)
        await world.check(0, 0, 1000)
        world.faults.away = False
        await world.check(1, 0, 1000)

    world(test)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_node_that_may_open_no_more_files_takes_no_object_for_damaged(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    opened, short = pa.OSFile, [True]

    def scarce(path: str) -> Any:
        if short[0]:  # as arrow says it
            raise OSError(number, f"failed to open a file: {os.strerror(number)}")
        return opened(path)

    monkeypatch.setattr(pa, "OSFile", scarce)

    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.sealed(0, ENTRIES[:1])
        with pytest.raises(ShortHere, match=os.strerror(number)):
            await world.page(0, 0, 1000)
        assert world.cache.counts.damaged == 0
        assert world.cache.has(world.living[0].facts.made)
        short[0] = False
        await world.check(0, 0, 1000)

    world(test)


def test_many_readers_of_an_object_cause_one_fetch_and_one_decoding(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.sealed(0, ENTRIES[:1])
        before = world.gets()
        await asyncio.gather(*(world.check(0, at % 2, 1000) for at in range(20)))
        assert (world.gets() - before, world.cold.groups.decoded) == (1, 1)

    world(test)


def test_a_reader_that_gives_up_leaves_the_fetch_to_those_who_still_wait(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.sealed(0, ENTRIES[:1])
        first = asyncio.create_task(world.check(0, 0, 1000))
        second = asyncio.create_task(world.check(0, 1, 1000))
        async with asyncio.timeout(5):
            while not world.cache.fetching:  # noqa: ASYNC110 - until the request is on its way
                await asyncio.sleep(0)
        first.cancel()
        await second
        assert world.gets() == 1

    world(test)


def test_evicting_everything_all_the_time_hurts_no_reader(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.sealed(0, ENTRIES)
        over = False

        async def evict() -> None:
            while not over:
                await world.evict()
                await asyncio.sleep(0)

        evicting = asyncio.create_task(evict())
        for bytes_max in (1, 7, 10**6):
            await world.walk(0, bytes_max)
        over = True
        await evicting

    world(test, cache_bytes=1)


def test_directories_are_fetched_out_of_the_packs_and_kept(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.create(JSON)
        await world.append(1, [b"0"])
        await world.sealed(0, ENTRIES, own_bytes=10**6)
        await world.forget_directories()
        await world.walk(0, 10**6)
        asked = world.gets()
        await world.walk(0, 5)
        await world.walk(1, 5)
        assert world.gets() == asked == 2 * len(ENTRIES)  # the end, then all of it
        await world.cold.kept()
        for one in world.living:
            world.cold.directories.forget(one.facts.made)
        world.faults.away = True
        await world.walk(0, 5)

    world(test)


def test_a_read_does_not_wait_for_the_writer_to_keep_a_directory(world: World) -> None:
    """The writer may be in the middle of a publish, on a disk that takes seconds for it."""

    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.sealed(0, ENTRIES, own_bytes=10**6)
        await world.forget_directories()
        over = threading.Event()
        busy = asyncio.create_task(world.database.writer.run(lambda _: over.wait()))
        try:
            async with asyncio.timeout(20):
                assert (await world.check(0, 0, 10**6)).up_to_date
        finally:
            over.set()
            await busy

    world(test)


def test_a_directory_is_read_out_of_the_end_of_a_pack_however_large_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams_node.read.cold.ENDING_BYTES", 8)

    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.sealed(0, ENTRIES[:2], own_bytes=10**6)
        for damaged in (False, True):
            await world.forget_directories()
            if damaged:
                for (copy,) in [list((world.folder / "cache").glob(f"{one.facts.made}-*")) for one in world.living]:
                    os.truncate(copy, 7)
            await world.walk(0, 10**6)

    world(test)


def test_a_directory_that_cannot_be_kept_is_no_readers_error(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.sealed(0, ENTRIES, own_bytes=10**6)
        await world.forget_directories()
        await world.database.writer.run(_execute, [("DROP TABLE directories", ())])
        await world.database.writer.run(
            _execute, [("CREATE VIEW directories AS SELECT 0 AS object, x'00' AS directory", ())]
        )
        assert (await world.check(0, 0, 10**6)).up_to_date

    world(test)


def test_a_pack_without_a_readable_directory_fails_only_what_is_found_nowhere_else(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.create(JSON)
        for which in (0, 1, 0):
            await world.append(which, [b"1"])
            if which == 0:
                await world.append(1, [b"2"])
            await world.seal(own_bytes=10**6)
        await world.release()
        await world.evict()
        await world.forget_directories()
        world.damage_object(world.living[2], at=-30)
        assert (await world.check(0, 0, 1)).end == 1
        with pytest.raises(ObjectDamaged, match=world.living[2].facts.made):
            await world.page(0, 1, 1)

    world(test)


def test_a_stream_that_died_is_missing_whatever_still_lies_about(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.create(JSON)
        await world.append(0, [b"1"])
        await world.append(1, [b"1"])
        await world.seal()
        await world.release()
        await world.merge(world.living)  # as if its entries were left out of it
        await world.database.writer.run(_execute, [("DELETE FROM objects", ()), ("DELETE FROM heads", ())])
        world.streams[1].gone = True
        for which in (0, 1):  # the first by another state than this one
            with pytest.raises(Missing, match="deleted"):
                await world.page(which, 0, 100)

    world(test)


def test_a_recovered_stream_has_an_end_and_no_row(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.sealed(0, ENTRIES[:2])
        state = world.streams[0]
        state.tail = LogEnd(0, state.tail.ordinal, state.tail.position, state.tail.seq)
        assert (await world.check(0, 0, 10**6)).up_to_date
        assert state.cold_below == state.tail.seq

    world(test)


def test_rows_of_a_stuck_stream_stay_and_are_read_from_the_log(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(TEXT)
        await world.create(TEXT)
        statement = sql.queries("placement").stick
        await world.database.writer.run(_execute, [(statement, (1, "a reason", 0))])
        for at in range(8):
            await world.append(at % 2, [b"%d" % at * 100])
        await world.seal()
        for one in [one for one in world.living if one.facts.min_stream == 1]:
            await world.database.writer.run(_execute, [(sql.queries("placement").kill_object, (1, one.facts.made))])
        await world.release()
        assert await world.walk(0, 50) == await world.walk(1, 50) == 4
        assert (world.streams[0].cold_below, world.streams[1].cold_below) == (0, 4)

    world(test)


def test_what_the_log_does_not_hold_is_said_to_the_entry(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(TEXT)
        state = world.streams[0]
        for at in range(5):  # the third takes four rows
            await world.append(0, [b"%d" % at * (200 if at == 2 else 10)])
        await world.seal()
        ends = [1, 2, 3, 3, 3, 3, 4, None]
        for first in ends:
            await world.release(1)
            for start in range(first if first is not None else 5):
                with pytest.raises(NotInLog) as missing:
                    await world.database.read_slice(state.id, state.tail, start, 1, is_json=False)
                assert missing.value.first_seq == first
            for start in range(first if first is not None else 5, 5):
                assert (await world.database.read_slice(state.id, state.tail, start, 1, is_json=False)).start == start

    world(test)


def test_a_full_queue_refuses(world: World) -> None:
    async def test(world: Layers) -> None:
        await world.create(JSON)
        await world.sealed(0, ENTRIES[:1])
        await world.check(0, 0, 100)
        goes_on = threading.Event()
        busy = [asyncio.create_task(world.cold._run(goes_on.wait, 20)) for _ in range(3)]
        try:
            await asyncio.sleep(0)
            with pytest.raises(Overloaded):
                await world.page(0, 0, 100)
        finally:
            goes_on.set()
        assert await asyncio.gather(*busy) == [True] * 3
        await world.check(0, 0, 100)

    world(test, read_queue_max=3)
