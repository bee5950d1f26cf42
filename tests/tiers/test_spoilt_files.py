"""A file is lost, or changed, between its making and its upload: it is made anew, and nothing of it is published."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streams_node.errors import ObjectDamaged, PreconditionFailed
from streams_node.manifest import Chain
from streams_node.manifest.verify import verify
from streams_node.objects import RetryingStore, WriteId, checksum_of
from streams_node.objects.counts import RequestCounts
from streams_node.objects.folder.store import FolderStore
from streams_node.objects.keys import ObjectId, pack_key
from streams_node.objects.threads import Threads
from streams_node.placement.made import Made, Rewrite
from streams_node.testing.inprocess import InProcess
from streams_node.uploader import stage as uploader_stage
from streams_node.uploader.place import Placer
from tests.http.wire import ask
from tests.tiers.bucket import Bucket, folder_bucket, memory_bucket
from tests.tiers.node import append, create, evict, objects, publish, tiered, tiers_of, until, walk

S, T = "/v1/stream/s", "/v1/stream/t"
Harm = Callable[[Path], None]


def flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])


def remove(path: Path) -> None:
    path.unlink()


def unreadable(path: Path) -> None:
    """A folder can be opened as little as a file on a bad block can be read."""
    path.unlink()
    path.mkdir()


def bucket_of(kind: str, folder: Path) -> Bucket:
    return memory_bucket() if kind == "memory" else folder_bucket(folder / "bucket")


@pytest.mark.parametrize(
    ("files", "harm"),
    [("*.parquet", flip), ("*.parquet", remove), ("*.parquet", unreadable), ("*.ends", flip), ("*.ends", remove)],
)
@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_what_was_sealed_is_sealed_anew(tmp_path: Path, kind: str, files: str, harm: Harm) -> None:
    bucket = bucket_of(kind, tmp_path)

    async def run() -> None:
        async with tiered(tmp_path / "data", bucket, own_segment_bytes=500) as node:
            await create(node, S)
            await create(node, T)
            await append(node, S, 0)
            await publish(node)
            with bucket.away():
                await append(node, S, *range(1, 300))
                await append(node, T, "small")
                segmenter = tiers_of(node).segmenter
                assert segmenter is not None
                segmenter.demand()
                await until(lambda: tiers_of(node).outbox.waiting, "it is sealed, and waits")
                spoilt = list((tmp_path / "data" / "sealing").glob(files))
                assert spoilt
                for path in spoilt:
                    harm(path)
            await all_is_well(node, bucket, tmp_path)
            assert tiers_of(node).uploader.failures > 0  # type: ignore[union-attr]
            assert await walk(node, S) == list(range(300))
            assert await walk(node, T) == ["small"]

    asyncio.run(run())


def test_a_file_that_changed_behind_a_put_whose_answer_was_lost_is_not_tried_for_ever(tmp_path: Path) -> None:
    file, made = tmp_path / "a.parquet", "ab" * 16
    file.write_bytes(b"as it was made")
    key = pack_key(ObjectId(made))
    facts: Any = SimpleNamespace(made=made, stream=None, sha256=checksum_of(file), key=lambda: key)
    store = RetryingStore(FolderStore.open(tmp_path / "bucket"), RequestCounts())
    store.put(key, file, write_id=WriteId(made))  # it arrived, and nobody was told
    flip(file)

    async def run() -> None:
        threads = Threads(1, "test")
        placer, sealed = Placer(store, threads, 1), [Made(facts, file)]
        with pytest.raises(PreconditionFailed) as failed:
            await placer.place(sealed)
        with pytest.raises(ObjectDamaged, match="was changed before it was uploaded"):
            await placer.refuse_spoilt(sealed, None, failed.value)
        await threads.close()

    asyncio.run(run())


@pytest.mark.parametrize("harm", [flip, remove, unreadable])
def test_what_was_merged_is_merged_anew(tmp_path: Path, harm: Harm, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, spoilt = memory_bucket(), list[Path]()
    place = uploader_stage.Uploader._placed

    async def spoil(self: uploader_stage.Uploader, rewrites: list[Rewrite]) -> bool:
        for rewrite in rewrites:
            if not spoilt:
                spoilt.append(rewrite.outputs[0].file)
                harm(spoilt[0])
        return await place(self, rewrites)

    monkeypatch.setattr(uploader_stage.Uploader, "_placed", spoil)

    async def run() -> None:
        async with tiered(tmp_path / "data", bucket) as node:
            await create(node, S)
            for number in range(6):
                await append(node, S, number)
                await publish(node)
            await until(lambda: _merged(node), "packs are merged")
            assert spoilt
            assert tiers_of(node).compactor.counts.refused >= 1  # type: ignore[union-attr]
            await all_is_well(node, bucket, tmp_path)
            assert await walk(node, S) == list(range(6))

    asyncio.run(run())


async def _merged(node: InProcess) -> bool:
    return any(level > 0 for _, _, level in await objects(node))


async def all_is_well(node: InProcess, bucket: Bucket, folder: Path) -> None:
    """All is published and released, and the bucket holds what the catalogue says, byte for byte."""
    await publish(node)
    assert (await ask(node, "GET", "/readyz")).status == 200
    assert not tiers_of(node).pressure.bytes
    await evict(node)
    look = folder / "look"
    look.mkdir()

    def problems() -> list[object]:
        return [finding for finding in verify(Chain(bucket.direct()), look) if finding.problem]

    assert await asyncio.to_thread(problems) == []
