"""What a node finds that should not be there, or not like this: a clear message with the way out, nothing overwritten.

Starts are asked of `serve` as an operator calls it: it must end with status 1 and say why in its last line.
"""

import asyncio
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streams_node.objects.s3 import S3Address, S3Keys
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess
from tests.http.wire import ask
from tests.store import servers
from tests.store.servers import BUCKET, KEYS, READER
from tests.tiers.bucket import folder_bucket, memory_bucket
from tests.tiers.node import (
    append,
    create,
    error_of,
    evict,
    page,
    publish,
    tiered,
    tiers_of,
    until,
    walk,
)

S, T = "/v1/stream/s", "/v1/stream/t"
_START_S = 60.0
Change = Callable[[Path], None]


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder `data` with its bucket `data/objects`: packs, segments, generations and snapshots."""
    folder = tmp_path_factory.mktemp("lived")

    async def run() -> None:
        settings = {"own_segment_bytes": 60, "snapshot_generations": 2, "compaction_packs": 1000}
        async with tiered(folder / "data", folder_bucket(folder / "data" / "objects"), **settings) as node:
            await create(node, S)
            await create(node, T)
            for number in range(4):
                await append(node, S, *range(number * 50, number * 50 + 50))
                await append(node, T, number)
                await publish(node)
            snapshots = folder / "data" / "objects" / "catalogue" / "snapshots"
            await until(lambda: len(list(snapshots.glob("*/*"))) > 2, "a snapshot is made")

    asyncio.run(run())
    return folder


@pytest.fixture
def place(lived: Path, tmp_path: Path) -> Path:
    """A copy of it, with times and owners."""
    shutil.copytree(lived / "data", tmp_path / "data", copy_function=shutil.copy2)
    return tmp_path


def serve(place: Path, *flags: str, **settings: object) -> tuple[int, str]:
    """Exit status and the last line; a node that starts is ended, and its status is 0."""
    environment = {name: each for name, each in os.environ.items() if not name.startswith(("STREAMS_", "AWS_"))}
    environment |= {f"STREAMS_{name.upper()}": str(each) for name, each in settings.items()}
    command = [str(Path(sys.executable).with_name("streams-node")), "serve", "--data", str(place / "data")]
    command += ["--port", "0", "--no-auth", *flags]
    with subprocess.Popen(
        command, env=environment, cwd=place, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        line, lines = "", []
        try:
            for line in process.stdout:
                lines.append(line)
                if re.search(r"\bready\b", line):
                    process.terminate()
            status = process.wait(_START_S)
        finally:
            process.kill()
    return status, line.strip() if status else "".join(lines)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refused(place: Path, *flags: str, **settings: object) -> str:
    """The reason why it does not start. Nothing in the bucket is changed by the attempt."""
    before = everything(place / "data" / "objects") if (place / "data" / "objects").is_dir() else {}
    status, said = serve(place, *flags, **settings)
    assert status == 1, said
    after = everything(place / "data" / "objects") if (place / "data" / "objects").is_dir() else {}
    assert {name: data for name, data in after.items() if not name.startswith(".store/")} == {
        name: data for name, data in before.items() if not name.startswith(".store/")
    }
    return said


def newest(place: Path, what: str) -> Path:
    return max((place / "data" / "objects").glob(what))


def rewrite(path: Path, content: bytes) -> None:
    """As another tool would: the note of the folder store, which has its checksum, goes."""
    root = next(parent for parent in path.parents if (parent / ".store").is_dir())
    path.unlink()
    path.write_bytes(content)
    for note in (root / ".store" / "notes").rglob("*"):
        if note.is_file() and path.name in note.name:
            note.unlink()


def unpacked(path: Path) -> list[dict[str, Any]]:
    lines = pa.CompressedInputStream(io.BytesIO(path.read_bytes()), "zstd").read().splitlines()
    return [json.loads(line) for line in lines]


def packed(lines: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    return bytes(sink.getvalue())


def test_a_folder_that_is_as_it_was_left_starts(place: Path) -> None:
    status, said = serve(place)
    assert status == 0, said


# --- the bucket -----------------------------------------------------------------------------------------------------


def test_foreign_objects_are_left_alone(place: Path) -> None:
    objects = place / "data" / "objects"
    strangers = ["README.txt", "packs/notes.txt", "segments/x/y.parquet", "catalogue/generations/latest"]
    for name in strangers:
        (objects / name).parent.mkdir(parents=True, exist_ok=True)
        (objects / name).write_text("somebody else's")

    async def run() -> None:
        async with tiered(place / "data", folder_bucket(objects)) as node:
            await append(node, S, "more")
            await publish(node)
            assert await walk(node, S) == [*range(200), "more"]

    asyncio.run(run())
    assert [(objects / name).read_text() for name in strangers] == ["somebody else's"] * len(strangers)


def _newer_owner(place: Path) -> None:
    path = place / "data" / "objects" / "owner"
    rewrite(path, json.dumps(json.loads(path.read_bytes()) | {"format": 2, "more": 1}).encode())


def _broken_owner(place: Path) -> None:
    rewrite(place / "data" / "objects" / "owner", b"nobody")


def _foreign_owner(place: Path) -> None:
    path = place / "data" / "objects" / "owner"
    rewrite(path, json.dumps(json.loads(path.read_bytes()) | {"node": "f" * 32, "fence": 7}).encode())


def _no_generations(place: Path) -> None:
    shutil.rmtree(place / "data" / "objects" / "catalogue" / "generations")


def _emptied(place: Path) -> None:
    shutil.rmtree(place / "data" / "objects")


def _newer_layout(place: Path) -> None:
    (place / "data" / "objects" / ".store" / "format").write_text("2\n")


def _no_folder(place: Path) -> None:
    """A file where the folder should be."""
    _emptied(place)
    (place / "data" / "objects").write_text("a file")


REFUSALS: list[tuple[Change, list[str]]] = [
    (_newer_owner, ["owner record", "newer version", "format 2"]),
    (_broken_owner, ["owner record", "cannot be read", "put it back from a copy", "--bootstrap-from-store"]),
    (_no_generations, ["generation", "not in", "any more", "object_store_folder", "restore it from a copy"]),
    (_emptied, ["no owner record any more", "put it back from a copy"]),
    (_newer_layout, ["objects", "newer"]),
    (_no_folder, ["objects"]),
]


@pytest.mark.parametrize(("change", "words"), REFUSALS, ids=lambda each: getattr(each, "__name__", ""))
def test_a_bucket_that_is_not_as_it_should_be_is_a_reason_not_to_start(
    place: Path, change: Change, words: list[str]
) -> None:
    change(place)
    said = refused(place)
    assert said.startswith("streams-node: ")
    assert [word for word in words if word not in said] == [], said


def test_a_bucket_that_was_taken_over_is_served_from_and_not_written_to(place: Path) -> None:
    """The node is fenced: reads go on, writes say why."""
    _foreign_owner(place)
    objects = place / "data" / "objects"
    before = everything(objects / "catalogue")

    async def run() -> None:
        async with tiered(place / "data", folder_bucket(objects)) as node:
            await until(lambda: "fenced" in node.context.ledger.refusals, "it is fenced")
            reply = await ask(node, "POST", S, {"content-type": "application/json"}, b"[1]")
            assert (reply.status, error_of(reply)["code"]) == (503, "unavailable")
            for words in ("another node has taken the bucket over", "read it here", "remove this data folder"):
                assert words in error_of(reply)["message"]
            for path in (f"{S}/_flush", "/__ursula/flush-cold/_default/s"):  # it will never be: nobody waits for it
                assert (await ask(node, "POST", path)).status == 503
            ready = await ask(node, "GET", "/readyz")
            assert ready.status == 503
            assert b"fenced" in ready.body
            assert b"streams_fenced 1.0" in (await ask(node, "GET", "/metrics")).body
            assert await walk(node, S) == list(range(200))

    asyncio.run(run())
    assert everything(objects / "catalogue") == before


def test_a_flush_that_waits_is_told_that_the_bucket_was_taken_over(place: Path) -> None:
    """And what was acknowledged before stays, and is read, also after a restart."""
    objects = place / "data" / "objects"

    async def run() -> None:
        async with tiered(place / "data", folder_bucket(objects), flush_ms_max=600_000) as node:
            await append(node, S, "acknowledged")
            _foreign_owner(place)
            reply = await ask(node, "POST", f"{S}/_flush")
            assert (reply.status, error_of(reply)["code"]) == (503, "unavailable")
            assert await walk(node, S) == [*range(200), "acknowledged"]
        async with tiered(place / "data", folder_bucket(objects)) as node:
            assert await walk(node, S) == [*range(200), "acknowledged"]

    asyncio.run(run())


def test_a_bucket_that_is_emptied_under_a_node_is_not_begun_anew(place: Path) -> None:
    """Nothing is published, so nothing leaves the log; what is cached is served; what is lost is named."""
    bucket = memory_bucket()

    async def run() -> None:
        async with tiered(place / "fresh", bucket) as node:
            await create(node, S)
            await append(node, S, 1)
            await publish(node)
            store: Any = bucket.open_bare()
            store._objects.clear()
            await append(node, S, 2)
            flush = await _flushed(node)
            assert flush == (202, False)
            uploader = tiers_of(node).uploader
            assert uploader is not None
            assert "no owner record any more" in str(uploader.problem)
            assert all(key.startswith(("packs/", "segments/")) for key in bucket.all_keys())
            assert await walk(node, S) == [1, 2]
            await evict(node)
            reply = await page(node, S)
            assert (reply.status, error_of(reply)["code"]) == (500, "object_missing")

    asyncio.run(run())


async def _flushed(node: InProcess) -> tuple[int, bool]:
    node.context.settings.__dict__["request_ms_max"] = 1000
    reply = await ask(node, "POST", S + "/_flush")
    return reply.status, json.loads(reply.body)["flushed"]


def test_a_data_folder_without_its_name_in_the_bucket_is_not_let_in(place: Path) -> None:
    """Another node's bucket, and an empty folder: nothing of it is touched."""
    shutil.move(place / "data" / "objects", place / "bucket")
    shutil.rmtree(place / "data")
    before = everything(place / "bucket")
    status, said = serve(place, object_store_folder=place / "bucket")
    assert (status, "holds the catalogue of node" in said, "--bootstrap-from-store" in said) == (1, True, True), said
    assert _without_store(everything(place / "bucket")) == _without_store(before)


def _without_store(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if not name.startswith(".store/")}


def test_a_data_folder_that_is_older_than_the_bucket_is_refused(place: Path) -> None:
    """It was restored from a copy: its next entries would get the places of others."""
    shutil.copytree(place / "data", place / "copy")

    async def run() -> None:
        async with tiered(place / "data", folder_bucket(place / "data" / "objects")) as node:
            await append(node, S, "later")
            await publish(node)

    asyncio.run(run())
    shutil.rmtree(place / "copy" / "objects")
    shutil.copytree(place / "data" / "objects", place / "copy" / "objects")
    shutil.rmtree(place / "data")
    (place / "copy").rename(place / "data")
    said = refused(place)
    assert "older copy" in said
    assert "--bootstrap-from-store" in said


# --- what is in it --------------------------------------------------------------------------------------------------


def _flip(path: Path) -> None:
    data = path.read_bytes()
    rewrite(path, data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])


def _bootstrap(place: Path, *flags: str) -> tuple[int, str]:
    """Begin another data folder from this one's bucket."""
    if (place / "data" / "objects").is_dir():
        shutil.move(place / "data" / "objects", place / "bucket")
        shutil.rmtree(place / "data")
    return serve(place, "--bootstrap-from-store", *flags, object_store_folder=place / "bucket")


def test_an_empty_folder_begins_with_the_bucket(place: Path) -> None:
    status, said = _bootstrap(place)
    assert status == 0, said
    assert re.search(r"began from the object store.*streams=2", said)
    assert "subscriptions are not in the object store" in said
    assert (serve(place, object_store_folder=place / "bucket"))[0] == 0


def test_a_refused_start_leaves_a_folder_that_can_still_begin_with_the_bucket(place: Path) -> None:
    """As its message says: with the flag, on the same folder. One that has been in use stays as it is."""
    shutil.move(place / "data" / "objects", place / "bucket")
    shutil.rmtree(place / "data")
    status, said = serve(place, object_store_folder=place / "bucket")
    assert (status, "start with --bootstrap-from-store" in said) == (1, True), said
    status, said = serve(place, "--bootstrap-from-store", object_store_folder=place / "bucket")
    assert status == 0, said
    assert re.search(r"began from the object store.*streams=2", said)
    status, said = serve(place, "--bootstrap-from-store", object_store_folder=place / "bucket")
    assert (status, "nothing is taken from the object store" in said) == (0, True), said


def _without_snapshots(place: Path) -> None:
    shutil.rmtree(place / "data" / "objects" / "catalogue" / "snapshots")


def _damaged_generation(place: Path) -> None:
    _without_snapshots(place)
    _flip(sorted((place / "data" / "objects" / "catalogue" / "generations").iterdir())[1])


def _newer_generation(place: Path) -> None:
    path = newest(place, "catalogue/generations/*")
    head, *rest = unpacked(path)
    rewrite(path, packed([head | {"format": 2}, *rest]))


def test_a_damaged_generation_is_named_and_left_out_only_on_demand(place: Path) -> None:
    _damaged_generation(place)
    status, said = _bootstrap(place)
    assert status == 1
    assert "generation 2" in said
    assert "--bootstrap-accept-loss" in said, said
    status, said = _bootstrap(place, "--bootstrap-accept-loss")
    assert status == 0, said
    assert "left out" in said


def test_a_damaged_snapshot_costs_nothing_while_there_is_another_way(place: Path) -> None:
    _flip(newest(place, "catalogue/snapshots/*/*"))
    status, said = _bootstrap(place)
    assert status == 0, said


def test_a_catalogue_of_a_newer_version_is_refused(place: Path) -> None:
    _newer_generation(place)
    status, said = _bootstrap(place, "--bootstrap-accept-loss")
    assert status == 1
    assert "newer version" in said
    assert "format 2" in said


@pytest.mark.parametrize("kind", ["packs", "segments"])
def test_a_damaged_object_is_named_and_stops_no_other_stream(place: Path, kind: str) -> None:
    objects = place / "data" / "objects"
    mine, other = (T, S) if kind == "packs" else (S, T)
    for path in set(objects.glob(f"{kind}/**/*.parquet")):
        _flip(path)

    async def run() -> None:
        async with tiered(place / "data", folder_bucket(objects)) as node:
            reply = await page(node, mine)
            assert reply.status == 500, (reply, sorted(objects.rglob("*.parquet")))
            assert error_of(reply)["code"] == "object_damaged"
            assert error_of(reply)["object"] in {path.stem.rpartition("-")[2] for path in objects.rglob("*.parquet")}
            assert await walk(node, other)
            await append(node, mine, "goes on")
            await publish(node)

    asyncio.run(run())


# --- the folder store, and s3 ---------------------------------------------------------------------------------------


def test_a_store_folder_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    """On a disk where nobody may make it: that holds for root, too."""
    status, said = serve(tmp_path, object_store_folder="/proc/objects")
    assert status == 1
    assert "/proc/objects" in said


def test_a_memory_store_on_a_used_folder_is_refused(place: Path) -> None:
    said = refused(place, object_store="memory")
    assert "object_store=memory keeps nothing over a restart" in said
    assert "empty folder" in said


def _s3(address: S3Address, keys: S3Keys = KEYS, **other: object) -> dict[str, object]:
    settings: dict[str, object] = {
        "object_store": "s3", "s3_bucket": address.bucket, "s3_prefix": f"bad-input/{os.getpid()}",
        "s3_endpoint": address.endpoint, "s3_region": address.region, "s3_path_style": "true",
        "s3_access_key_id": keys.access_key_id, "s3_secret_access_key": keys.secret_access_key,
        "object_store_attempts_max": 1,
    }  # fmt: skip
    return settings | other


@pytest.mark.parametrize(
    ("keys", "other", "words"),
    [
        (S3Keys("testkey", "a-mistake"), {}, ["s3_secret_access_key"]),
        (S3Keys("nobody", "a-mistake"), {}, ["s3_access_key_id"]),
        (READER, {}, ["lack s3:PutObject"]),
        (READER, {"s3_bucket": "there-is-none"}, ["there-is-none"]),
        (KEYS, {"s3_endpoint": "http://127.0.0.1:9"}, ["127.0.0.1:9"]),
        (KEYS, {"s3_bucket": "Not_A_Bucket!"}, ["Not_A_Bucket!", "s3_bucket"]),
    ],
    ids=["wrong secret", "unknown key", "no right to write", "no such bucket", "nobody there", "impossible name"],
)
def test_s3_settings_that_are_wrong_are_named(
    tmp_path: Path, seaweedfs: S3Address, keys: S3Keys, other: dict[str, object], words: list[str]
) -> None:
    status, said = serve(tmp_path, **_s3(seaweedfs, keys, **other))
    assert status == 1
    assert said.startswith("streams-node: ")
    assert [word for word in words if word not in said] == [], said
    assert keys.secret_access_key not in said


def test_a_store_that_overwrites_is_refused_at_the_start(tmp_path: Path) -> None:
    with servers.rclone(tmp_path) as address:
        status, said = serve(tmp_path, **_s3(address))
    assert status == 1
    assert "ignores If-None-Match" in said
    assert list((tmp_path / "data" / BUCKET).rglob("owner")) == []


# --- clocks ---------------------------------------------------------------------------------------------------------


def test_a_clock_that_jumps_back_stops_nothing(tmp_path: Path) -> None:
    """Times stay monotonic, and flushes, the age of the backlog and expiry go on."""
    clock = FakeClock()

    async def run() -> None:
        settings = {"flush_ms_max": 1000, "expiry_sweep_ms": 50, "upload_lag_ms_max": 60_000}
        async with tiered(tmp_path, memory_bucket(), clock=clock, upkeep=True, **settings) as node:
            await create(node, S)
            await append(node, S, 1)
            clock.advance(-3600)
            await append(node, S, 2)
            await create(node, T, {"content-type": "application/json", "stream-ttl": "5"}, b"[1]")
            assert (await ask(node, "GET", "/readyz")).status == 200
            await asyncio.sleep(0.3)
            clock.advance(2)  # by the new time, something is old enough
            await until(lambda: tiers_of(node).pressure.bytes == 0, "it is flushed without being asked")
            await publish(node)
            await evict(node)
            assert await walk(node, S) == [1, 2]
            times = await node.context.database.readers.run(
                lambda db: db.execute("SELECT min_ts, max_ts FROM objects").fetchall()
            )
            assert all(first <= last for first, last in times)
            clock.advance(10)
            await until(lambda: _gone(node, T), "what has expired is gone")

    asyncio.run(run())


async def _gone(node: InProcess, path: str) -> bool:
    return (await ask(node, "HEAD", path)).status == 404
