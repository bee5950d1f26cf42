"""Copies of objects on disk: whole and right before anybody sees them, one fetch each, within their room."""

import asyncio
import errno
import hashlib
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio
import pytest

from streams_node.cache import Cache, Limits, fetch, turns
from streams_node.cache.shelf import Copy, Shelf
from streams_node.errors import ObjectDamaged, ObjectMissing, Overloaded, ShortHere, StoreUnavailable
from streams_node.objects.counts import Owner
from streams_node.objects.keys import Key
from streams_node.objects.protocol import Checksum, ETag, Fetched, Stored
from streams_node.placement.made import ObjectFacts

RANGE = 1000
Test = Callable[[Cache, "Bucket"], Awaitable[None]]


class Bucket:
    """A store that counts, waits and lies when told."""

    def __init__(self) -> None:
        self.objects: dict[Key, bytes] = {}
        self.asked: list[tuple[int, int]] = []
        self.spoilt = 0  # so many answers have a flipped bit
        self.away = False
        self.open = threading.Event()
        self.open.set()
        self.waiting = self.most = 0  # requests at this moment, and at the busiest
        self._lock = threading.Lock()

    def get(
        self,
        key: Key,
        start: int = 0,
        end: int | None = None,
        *,
        expected: Checksum | None = None,  # noqa: ARG002 - parts have none
        owner: Owner = None,  # noqa: ARG002 - not counted here
    ) -> Fetched:
        with self._lock:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
        assert self.open.wait(10)
        with self._lock:
            self.waiting -= 1
        if self.away:
            raise StoreUnavailable("away")
        if key not in self.objects:
            raise ObjectMissing(key)
        data = self.objects[key][start:end]
        self.asked.append((start, start + len(data)))
        if self.spoilt:
            self.spoilt -= 1
            data = bytes([data[0] ^ 1]) + data[1:]
        return Fetched(data, Stored(ETag(""), len(self.objects[key]), None, None))

    def put(self, number: int, size: int) -> ObjectFacts:
        data = bytes([number % 256]) * size
        facts = facts_of(number, data)
        self.objects[facts.key()] = data
        return facts


def facts_of(number: int, data: bytes) -> ObjectFacts:
    return ObjectFacts(
        made=f"{number:032x}", kind="segment", level=0, stream=1, first_seq=0, end_seq=1, min_stream=1, max_stream=1,
        streams=1, entries=1, bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), payload_bytes=1, min_ts=0,
        max_ts=0, first_row=1, last_row=1,
    )  # fmt: skip


def run(
    folder: Path, *tests: Test, bytes_max: int = 10_000, waiting_max: int = 64, local: Path | None = None
) -> Bucket:
    """Each test has a process of its own, so to speak; folder and bucket stay."""
    folder.mkdir(exist_ok=True)
    bucket = Bucket()

    async def main(test: Test) -> None:
        cache = await Cache.open(folder, bucket, Limits(bytes_max, 4, waiting_max), local=local)
        try:
            await test(cache, bucket)
        finally:
            await cache.close()

    for test in tests:
        anyio.run(main, test)
    return bucket


async def content(cache: Cache, facts: ObjectFacts) -> bytes:
    async with cache.held(facts) as path:
        return path.read_bytes()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(autouse=True)
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "RANGE_BYTES", RANGE)


def test_the_longest_unused_leave_first_and_what_is_read_stays() -> None:
    shelf = Shelf(30)
    copies = [Copy(str(at), Path(str(at)), 10, verified=True) for at in range(4)]
    for copy in copies[:3]:
        assert shelf.put(copy) == []
    shelf.use("0")
    copies[1].pins = 1
    assert shelf.put(copies[3]) == [copies[2]]
    assert shelf.promise(10) == [copies[0]]
    assert shelf.promise(20) == [copies[3]]
    assert (shelf.bytes, len(shelf), copies[3].kept, copies[1].kept) == (10, 1, False, True)


def test_an_object_is_fetched_in_ranges_and_kept(tmp_path: Path) -> None:
    async def test(cache: Cache, bucket: Bucket) -> None:
        facts = bucket.put(1, 2 * RANGE + 1)
        for _ in range(3):
            assert await content(cache, facts) == bucket.objects[facts.key()]
        assert sorted(bucket.asked) == [(0, RANGE), (RANGE, 2 * RANGE), (2 * RANGE, 2 * RANGE + 1)]
        assert (cache.counts.fills, cache.counts.hits, cache.bytes) == (1, 2, facts.bytes)
        assert cache.counts.filled_bytes == facts.bytes

    run(tmp_path / "cache", test)
    assert files(tmp_path / "cache") == [f"{1:032x}-1.parquet"]


def test_one_fetch_serves_everybody_who_waits(tmp_path: Path) -> None:
    async def test(cache: Cache, bucket: Bucket) -> None:
        facts = bucket.put(1, 10)
        bucket.open.clear()
        readers = [asyncio.create_task(content(cache, facts)) for _ in range(9)]
        await asyncio.sleep(0.01)
        for reader in readers[:5]:
            reader.cancel()
        bucket.open.set()
        results = await asyncio.gather(*readers, return_exceptions=True)
        assert results[5:] == [bucket.objects[facts.key()]] * 4
        assert len(bucket.asked) == 1
        cache._limits = Limits(0, 4)
        cache._shelf._bytes_max = 0
        assert await content(cache, facts)  # nobody is left to hold it
        assert cache.bytes == 0

    run(tmp_path / "cache", test)


def test_the_room_is_kept_and_files_that_are_read_are_unlinked_afterwards(tmp_path: Path) -> None:
    async def test(cache: Cache, bucket: Bucket) -> None:
        facts = [bucket.put(at, 900) for at in range(6)]
        async with cache.held(facts[0]) as first:
            for one in facts[1:]:
                await content(cache, one)
            await cache.drop(facts[0].made)
            assert first.read_bytes() == bucket.objects[facts[0].key()]
            assert await content(cache, facts[0])  # another file, beside the one that is read
            assert first.exists()
        assert cache.bytes <= 2000
        assert cache.counts.evictions >= 4

    run(tmp_path / "cache", test, bytes_max=2000)
    assert len(files(tmp_path / "cache")) <= 2


def test_damage_on_the_way_is_cured_and_damage_in_the_store_names_the_object(tmp_path: Path) -> None:
    async def test(cache: Cache, bucket: Bucket) -> None:
        facts = bucket.put(1, RANGE + 1)
        bucket.spoilt = 1
        assert await content(cache, facts) == bucket.objects[facts.key()]
        bad = bucket.put(2, RANGE + 1)
        bucket.objects[bad.key()] = b"x" * (RANGE + 1)
        with pytest.raises(ObjectDamaged, match=bad.made):
            await content(cache, bad)
        short = bucket.put(3, 100)
        bucket.objects[short.key()] = b"x" * 99
        with pytest.raises(ObjectDamaged, match="99 bytes, not 100"):
            await content(cache, short)

    run(tmp_path / "cache", test)
    assert files(tmp_path / "cache") == [f"{1:032x}-1.parquet"]


def test_a_failed_fetch_leaves_nothing_and_the_next_one_begins_anew(tmp_path: Path) -> None:
    async def test(cache: Cache, bucket: Bucket) -> None:
        facts = bucket.put(1, 5 * RANGE)
        bucket.away = True
        with pytest.raises(StoreUnavailable):
            await content(cache, facts)
        bucket.away = False
        gone = bucket.put(2, 5 * RANGE)
        del bucket.objects[gone.key()]
        with pytest.raises(ObjectMissing):
            await content(cache, gone)
        assert (cache.fetching, cache.bytes) == (0, 0)
        assert await content(cache, facts) == bucket.objects[facts.key()]

    run(tmp_path / "cache", test)


def test_a_start_finds_whole_copies_and_proves_them_at_their_first_use(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    kept: list[ObjectFacts] = []

    async def before(cache: Cache, bucket: Bucket) -> None:
        kept.extend(bucket.put(at, 500) for at in (1, 2, 3))
        for facts in kept:
            await content(cache, facts)

    async def after(cache: Cache, bucket: Bucket) -> None:
        assert (cache.objects, cache.bytes) == (3, 1000)  # one was cut to nothing
        assert await content(cache, kept[0]) == bucket.objects[kept[0].key()]
        assert len(bucket.asked) == 3
        for facts in kept[1:]:
            assert await content(cache, facts) == bucket.objects[facts.key()]
        assert (len(bucket.asked), cache.counts.damaged) == (5, 2)

    def harm() -> None:
        (folder / f"{2:032x}-2.parquet").write_bytes(b"\x02" * 499 + b"x")
        (folder / f"{3:032x}-3.parquet").write_bytes(b"")
        (folder / f"{4:032x}-9.part").write_bytes(b"half")
        (folder / "somebody's").write_bytes(b"else")

    async def between(_: Cache, __: Bucket) -> None:
        harm()

    # The last one opens the folder anew: a cache that is open looks at no file that it does not know.
    run(folder, before, between, after)
    names = files(folder)
    assert "somebody's" in names
    assert not [name for name in names if name.endswith(".part")]
    assert len(names) == 4


def test_an_uploaded_file_is_taken_by_rename(tmp_path: Path) -> None:
    async def test(cache: Cache, bucket: Bucket) -> None:
        facts = bucket.put(1, 500)
        file = tmp_path / "sealed"
        file.write_bytes(bucket.objects[facts.key()])
        assert await cache.adopt(facts.made, file)
        assert not file.exists()
        assert await content(cache, facts) == bucket.objects[facts.key()]
        assert bucket.asked == []
        assert not await cache.adopt(facts.made, file)

    run(tmp_path / "cache", test)


def test_beside_a_folder_store_a_copy_is_a_link_and_is_proven_all_the_same(tmp_path: Path) -> None:
    objects = tmp_path / "objects"

    async def test(cache: Cache, bucket: Bucket) -> None:
        good, bad, away = (bucket.put(at, 500) for at in (1, 2, 3))
        for facts in (good, bad):
            file = objects / facts.key()
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(bucket.objects[facts.key()] if facts is good else b"x" * 500)
        async with cache.held(good) as path:
            assert path.stat().st_ino == (objects / good.key()).stat().st_ino
        with pytest.raises(ObjectDamaged, match=bad.made):
            await content(cache, bad)
        assert bucket.asked == []
        assert await content(cache, away) == bucket.objects[away.key()]

    run(tmp_path / "cache", test, local=objects)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_takes_nothing_is_no_readers_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    folder, spare = tmp_path / "cache", tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spare))
    create = fetch.create

    def refused(path: Path) -> None:
        if path.parent == folder:
            raise OSError(number, os.strerror(number))
        create(path)

    monkeypatch.setattr(fetch, "create", refused)

    async def test(cache: Cache, bucket: Bucket) -> None:
        facts = bucket.put(1, 500)
        async with cache.held(facts) as path:
            assert path.parent == spare
            assert path.read_bytes() == bucket.objects[facts.key()]
        assert (cache.bytes, cache.counts.homeless) == (0, 1)

    run(folder, test)
    assert files(spare) == files(folder) == []


def test_a_full_disk_gets_half_of_the_copies_back_before_a_reader_does_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, full = fetch.create, [False]

    def refused(path: Path) -> None:
        if full[0] and len(files(path.parent)) > 3:
            raise OSError(errno.ENOSPC, "no space")
        create(path)

    monkeypatch.setattr(fetch, "create", refused)

    async def test(cache: Cache, bucket: Bucket) -> None:
        facts = [bucket.put(at, 500) for at in range(5)]
        for one in facts[:4]:
            await content(cache, one)
        full[0] = True
        gone: list[str] = []
        cache.on_gone = gone.append
        assert await content(cache, facts[4]) == bucket.objects[facts[4].key()]
        assert sorted(gone) == sorted(one.made for one in facts[:3])  # whoever has them open keeps their room
        assert (cache.objects, cache.counts.homeless) == (2, 0)
        assert [cache.has(one.made) for one in facts] == [False, False, False, True, True]

    run(tmp_path / "cache", test)


def test_a_copy_of_an_earlier_start_is_not_damaged_by_a_lack_of_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fill(cache: Cache, bucket: Bucket) -> None:
        await content(cache, bucket.put(1, 500))

    run(tmp_path / "cache", fill)
    damage = fetch.damage

    def refused(*_: object) -> str | None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def test(cache: Cache, bucket: Bucket) -> None:
        facts = bucket.put(1, 500)
        monkeypatch.setattr(fetch, "damage", refused)
        with pytest.raises(ShortHere, match=facts.made):
            await content(cache, facts)
        monkeypatch.setattr(fetch, "damage", damage)
        assert await content(cache, facts) == bucket.objects[facts.key()]
        assert (cache.counts.damaged, cache.counts.fills) == (0, 0)

    run(tmp_path / "cache", test)


def test_too_many_objects_under_way_refuse_and_read_ahead_gives_way(tmp_path: Path) -> None:
    async def test(cache: Cache, bucket: Bucket) -> None:
        facts = [bucket.put(at, 500) for at in range(4)]
        bucket.open.clear()
        cache.ahead(facts[0])
        cache.ahead(facts[0])
        readers = [asyncio.create_task(content(cache, one)) for one in facts[1:3]]
        await asyncio.sleep(0)
        cache.ahead(facts[3])
        assert cache.fetching == 3
        with pytest.raises(Overloaded):
            await content(cache, facts[3])
        bucket.open.set()
        await asyncio.gather(*readers)
        assert await content(cache, facts[0])
        assert len(bucket.asked) == 3

    run(tmp_path / "cache", test, waiting_max=3)


def test_a_stage_asks_for_one_part_at_a_time_until_a_reader_wants_the_object_too(tmp_path: Path) -> None:
    async def test(cache: Cache, bucket: Bucket) -> None:
        facts = bucket.put(1, 8 * RANGE)
        bucket.open.clear()

        async def leisurely() -> bytes:
            async with cache.held(facts, at_leisure=True) as path:
                return path.read_bytes()

        stage = asyncio.create_task(leisurely())
        await until(lambda: bucket.waiting == 1)
        reader = asyncio.create_task(content(cache, facts))
        await until(lambda: bucket.waiting == 4)
        bucket.open.set()
        assert await stage == await reader == bucket.objects[facts.key()]
        assert bucket.most == 4

        other = bucket.put(2, 8 * RANGE)
        bucket.most = 0
        async with cache.held(other, at_leisure=True):
            assert bucket.most == 1

    run(tmp_path, test, bytes_max=100_000)


def test_turns_that_stand_still_are_passed_on_up_to_a_number_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "STILL_S", 0.0)

    async def main() -> None:
        ends = asyncio.Event()
        begun: list[int] = []
        places = turns.Turns(2, 3)

        async def one(number: int) -> None:
            async with places.one():
                begun.append(number)
                await ends.wait()

        tasks = [asyncio.create_task(one(number)) for number in range(9)]
        await until(lambda: len(begun) == 5 and places.still == 3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert begun == [0, 1, 2, 3, 4]
        ends.set()
        await asyncio.gather(*tasks)
        assert (len(begun), places.still) == (9, 0)
        async with places.one(), places.one():
            pass

    asyncio.run(main())


def test_a_turn_in_which_something_comes_is_kept() -> None:
    async def main() -> None:
        places = turns.Turns(1, 1)
        async with places.one() as turn:
            for _ in range(50):
                turn.moved()
                await asyncio.sleep(0)
            assert places.still == 0

    asyncio.run(main())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - what threads do rings no bell here
            await asyncio.sleep(0.001)


def test_ranges_cover_every_byte_once() -> None:
    def covered(size: int) -> Sequence[int]:
        return [at for start, end in fetch.ranges(size) for at in range(start, end)]

    for size in (1, RANGE - 1, RANGE, RANGE + 1, 3 * RANGE):
        assert covered(size) == list(range(size))
