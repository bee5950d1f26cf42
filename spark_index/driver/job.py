"""One task in a Python worker: fetch, build or merge, put; only what is known of the index objects goes back.

Keeps    sealed objects are read once, for all families, and believed by their sha256; index objects by size and sum.
         An object that is missing, damaged, or that the builders cannot take is `failed`, and the others go on. A store
         that does not answer fails the task, which Spark tries again.
Dies     anywhere: index objects under ids that nobody was told.
"""

import secrets
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec
import xxhash

from indexers.build import Builder, Made
from indexers.merge import merge
from indexers.messages import Build, Failed, IndexObject, Meaning, Merge
from indexers.runs import IndexDamaged
from indexers.sealed import SourceDamaged, sealed_rows
from spark_index.driver.tasks import REASON_CHARS, Outcome, Task
from spark_index.stores import shared
from streams_node.errors import ObjectMissing, StoreCorrupt, StoreError
from streams_node.objects import Checksum, Key, ObjectId, RetryingStore, WriteId
from streams_node.objects.keys import index_filter_key, index_key
from streams_node.testing.crashpoints import crash_point


def run_task(data: bytes) -> bytes:
    """A `Task` in, an `Outcome` out."""
    task = msgspec.json.decode(data, type=Task)
    with tempfile.TemporaryDirectory(prefix="streams-index-") as folder:
        worker = _Worker(shared(task.store), task.meanings, Path(folder))
        worker.build([each for each in task.work if isinstance(each, Build)])
        for each in task.work:
            if isinstance(each, Merge):
                worker.merge(each)
        return msgspec.json.encode(worker.outcome)


class _Worker:
    def __init__(self, store: RetryingStore, meanings: Sequence[Meaning], folder: Path) -> None:
        self._store = store
        self._meanings = meanings
        self._folder = folder
        self.outcome = Outcome(objects=[], merged=[], failed=[])

    def build(self, builds: list[Build]) -> None:
        """All together, or one by one if something goes wrong that no object was known for."""
        failed: list[Failed] = []
        try:
            puts = self._built(builds, failed)
        except (StoreError, MemoryError):
            raise
        except Exception as problem:  # noqa: BLE001 - one object that nobody foresaw must not stop its neighbours
            if len(builds) == 1:
                self.outcome.failed.append(_failed(builds[0].source.made, problem))
                return
            for each in builds:
                self.build([each])
            return
        self.outcome.failed.extend(failed)
        self.outcome.objects.extend(each.result() for each in puts)

    def merge(self, order: Merge) -> None:
        """One index object of several; none of one of them is not what it should be."""
        try:
            paths = {each.made: self._fetched(each) for each in order.inputs}
            made = merge(order, paths, self._folder, _new_id())
        except _InputLost as lost:
            self.outcome.failed.append(_failed(lost.made, lost.problem))
            return
        except IndexDamaged as problem:
            self.outcome.failed.append(_failed(_named(problem, order), problem))
            return
        except (StoreError, MemoryError):
            raise
        except Exception as problem:  # noqa: BLE001 - one merge that nobody foresaw must not stop all others for ever
            self.outcome.failed.extend(_failed(each.made, problem) for each in order.inputs)
            return
        crash_point("task.merged")
        self.outcome.objects.append(self._put(made))
        self.outcome.merged.append([made.object.made, *(each.made for each in order.inputs)])
        for path in paths.values():
            path.unlink(missing_ok=True)

    def _built(self, builds: list[Build], failed: list[Failed]) -> list[Future[IndexObject]]:
        """Each object is put while the next one is made: a put waits for the disk, or for the network."""
        with Builder(self._meanings, self._folder) as builder, ThreadPoolExecutor(1, "put") as putting:
            for build in builds:
                try:
                    builder.add(build, sealed_rows(self._sealed(build), build))
                    crash_point("task.read")
                except (ObjectMissing, StoreCorrupt, SourceDamaged) as problem:
                    failed.append(_failed(build.source.made, problem))
            puts = [putting.submit(self._put, made) for made in builder.finish(_new_id)]
            crash_point("task.built")
            return puts

    def _sealed(self, build: Build) -> bytes:
        return self._store.get(Key(build.source.key), expected=Checksum(build.source.sha256)).data

    def _fetched(self, each: IndexObject) -> Path:
        try:
            data = self._store.get(index_key(each.family, ObjectId(each.made))).data
        except (ObjectMissing, StoreCorrupt) as problem:
            raise _InputLost(each.made, problem) from problem
        if len(data) != each.bytes or xxhash.xxh3_128_hexdigest(data) != each.sum:
            raise _InputLost(each.made, IndexDamaged(each.made, "it is not what was committed"))
        path = self._folder / each.made
        path.write_bytes(data)
        return path

    def _put(self, made: Made) -> IndexObject:
        id_ = ObjectId(made.object.made)
        if made.filter is not None:
            self._store.put(index_filter_key(id_), made.filter, write_id=WriteId(f"{id_}-filter"))
            made.filter.unlink()
            crash_point("task.put.between")
        self._store.put(index_key(made.object.family, id_), made.path, write_id=WriteId(id_))
        crash_point("task.put")
        made.path.unlink()
        return made.object


class _InputLost(Exception):
    def __init__(self, made: str, problem: Exception) -> None:
        super().__init__(made)
        self.made = made
        self.problem = problem


def _new_id() -> str:
    return secrets.token_hex(16)


def _named(problem: IndexDamaged, order: Merge) -> str:
    """Which input it was."""
    return next((each.made for each in order.inputs if each.made == problem.name), order.inputs[0].made)


def _failed(made: str, problem: Exception) -> Failed:
    text = " ".join(str(problem).split()) or type(problem).__name__
    return Failed(made=made, reason=text[:REASON_CHARS])
