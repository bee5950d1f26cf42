"""The data folder at a start: one process at a time, no layout from the future, nothing damaged taken for new."""

import asyncio
import hashlib
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import sql
from tests.support.node_process import NodeDied, NodeProcess
from tests.support.wire import Wire

PATH = "/v1/stream/s"
TEXT = {"content-type": "text/plain"}
ENTRY = b"kept\n"
PAGE = 4096


async def write_one(node: NodeProcess) -> None:
    async with Wire((await node.ready()).port) as wire:
        assert (await wire.request("PUT", PATH, TEXT)).status in {200, 201}
        assert (await wire.request("POST", PATH, TEXT, ENTRY)).status == 204


async def read_all(node: NodeProcess) -> bytes:
    async with Wire((await node.ready()).port) as wire:
        return (await wire.request("GET", f"{PATH}?offset=-1")).body


async def refused(data: Path) -> str:
    """Start a node that must not start: exit code 1, soon, and one line that says why."""
    with NodeProcess(data) as node:
        began = node.log.stat().st_size
        with pytest.raises(NodeDied):
            await node.ready()
        assert node.process.wait() == 1
        said = node.log.read_text()[began:].strip()
    assert said.startswith("streams-node: ")
    assert "\n" not in said, "more than the one line for the operator"
    assert str(data) in said, said
    return said


def contents(data: Path) -> dict[str, str]:
    """Every file of the folder but the lock and SQLite's scratch index, by its hash."""
    files = (path for path in sorted(data.iterdir()) if path.is_file() and path.name not in {"LOCK", "streams.db-shm"})
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.stat().st_size}


@pytest.fixture(name="used")
def _used(tmp_path: Path) -> Path:
    """A folder with one entry, properly closed."""
    data = tmp_path / "data"

    async def use() -> None:
        with NodeProcess(data) as node:
            await write_one(node)
            node.terminate()
            assert await node.ended() == 0

    asyncio.run(use())
    return data


def test_a_second_process_is_refused_and_a_killed_one_frees_the_folder(tmp_path: Path) -> None:
    data = tmp_path / "data"

    async def scenario() -> None:
        with NodeProcess(data) as first:
            await write_one(first)
            for _ in range(2):
                said = await refused(data)
                assert f"in use by process {first.pid}" in said
                assert "--data" in said
            assert await read_all(first) == ENTRY
            first.kill()
            first.process.wait()
        with NodeProcess(data) as second:
            assert await read_all(second) == ENTRY
            assert f"in use by process {second.pid}" in await refused(data)

    asyncio.run(scenario())


def test_a_layout_from_the_future_is_refused_and_left_alone(used: Path) -> None:
    newest = sql.migrations()[-1].number
    with closing(sqlite3.connect(used / "streams.db", isolation_level=None)) as db:
        db.execute(f"PRAGMA user_version = {newest + 1}")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    before = contents(used)
    said = asyncio.run(refused(used))
    assert f"layout {newest + 1}" in said
    assert f"knows {newest}" in said
    assert contents(used) == before


def _cut(used: Path, size: int) -> None:
    with (used / "streams.db").open("r+b") as file:
        file.truncate(size)


def _overwrite(used: Path, at: int, data: bytes) -> None:
    with (used / "streams.db").open("r+b") as file:
        file.seek(at)
        file.write(data)


def _garbage(used: Path) -> None:
    (used / "streams.db").write_bytes(b"this is no database\n" * 1000)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "garbage": _garbage,
    "half": lambda used: _cut(used, (used / "streams.db").stat().st_size // 2 // PAGE * PAGE),
    "one page": lambda used: _cut(used, PAGE),
    "within a page": lambda used: _cut(used, 1000),
    "header gone": lambda used: _overwrite(used, 0, bytes(100)),
    "schema gone": lambda used: _overwrite(used, 100, bytes(PAGE - 100)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_database_is_refused_and_left_alone(used: Path, damage: str) -> None:
    DAMAGES[damage](used)
    before = contents(used)
    asyncio.run(refused(used))
    assert contents(used) == before


def test_a_database_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Without a layout number it would be taken for new, and get our tables."""
    data = tmp_path / "data"
    data.mkdir()
    with closing(sqlite3.connect(data / "streams.db")) as db:
        db.executescript((Path(__file__).parent / "foreign.sql").read_text("utf-8"))
    before = contents(data)
    assert "streams.db" in asyncio.run(refused(data))
    assert contents(data) == before


def test_an_emptied_database_is_refused(used: Path) -> None:
    """A node that has written there before finds nothing: that is a loss to be told of, and no first start."""
    _cut(used, 0)
    before = contents(used)
    asyncio.run(refused(used))
    assert contents(used) == before


@pytest.mark.parametrize("what", ["torn", "garbage"])
def test_the_end_of_the_wal_file_may_be_torn(tmp_path: Path, what: str) -> None:
    """As a power failure leaves it: frames that were never synced are dropped, the ones before them count."""
    data = tmp_path / "data"

    async def scenario() -> None:
        with NodeProcess(data) as node:
            await write_one(node)
            node.kill()
            node.process.wait()
        wal = data / "streams.db-wal"
        frames = struct.unpack_from("=I", (data / "streams.db-shm").read_bytes(), 16)[0]
        with wal.open("r+b") as file:
            file.seek(32 + frames * (24 + PAGE))
            file.write(b"\x17" * 5000 if what == "garbage" else file.read(0) + bytes(13))
        with NodeProcess(data) as node:
            assert await read_all(node) == ENTRY
            async with Wire(node.port) as wire:
                assert (await wire.request("POST", PATH, TEXT, ENTRY)).status == 204
            assert await read_all(node) == ENTRY * 2

    asyncio.run(scenario())


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("a file, not a folder")
    asyncio.run(refused(data))


def test_a_node_starts_where_there_is_no_room_to_prepare(used: Path) -> None:
    """The -wal file is given its length beforehand, to save time and nothing else."""
    limited = ("sh", "-c", 'ulimit -f 2048; exec "$@"', "sh")  # a MiB a file, in blocks of 512 bytes

    async def scenario() -> None:
        with NodeProcess(used, before=limited) as node:
            assert await read_all(node) == ENTRY
            await write_one(node)
            assert (used / "streams.db-wal").stat().st_size < 1 << 20
            node.terminate()
            assert await node.ended() == 0
        with NodeProcess(used) as node:
            assert await read_all(node) == ENTRY * 2

    asyncio.run(scenario())
