"""A node and the driver that it starts: from the first entry to the last, with every answer compared with a scan."""

import os
import shutil
from pathlib import Path

import pytest

from tests.spark.whole import Whole, below, declared, event, kill, whole

pytestmark = [
    pytest.mark.xdist_group("spark"),  # one JVM at a time
    pytest.mark.timeout(300),  # seconds where nobody else works
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc"),
]
ENTRIES = 6000
KILLS = int(os.environ.get("INDEX_KILLS", "1"))  # of each kind: more by hand


def test_a_stream_is_indexed_answers_restarts_changes_its_mind_and_goes(tmp_path: Path, own: Path) -> None:
    with whole(tmp_path) as it:
        it.create(declared())
        it.append([event(number) for number in range(ENTRIES)])
        it.flush()
        it.covered()
        it.check()
        generation = it.status()["desired_index_plan_generation"]

        # A restart forgets nothing, and builds nothing again.
        before = sorted(it.indexes())
        it.node.stop()
        assert below(own) == {}
        it.node.start()
        assert it.is_covered()
        assert sorted(it.indexes()) == before
        it.check()

        # Another configuration: the former one serves until the new one covers as much.
        it.ask("POST", f"{it.path}/_schema", json={"search": declared(more=("trace",))["search"]})
        status = it.status()
        assert status["desired_index_plan_generation"] == generation + 1
        it.check()
        it.covered()
        assert it.read(filter="trace:t000123") == [it.entries[123]]
        it.check()

        # The end of a node takes its driver with it, whatever that is doing.
        it.append([event(number) for number in range(ENTRIES, ENTRIES + 2000)])
        it.until(lambda: "java" in below(own).values(), "Java runs")
        it.node.kill()
        it.until(lambda: below(own) == {}, "no process is left")
        it.node.start()
        it.flush()
        it.covered()
        it.check()
        it.covered_once()

        # From the bucket alone it finds them again, and takes those of a deleted stream away.
        it.told()
        it.node.stop()
        built = {path.name for path in it.indexes()}
        shutil.rmtree(tmp_path / "data")
        it.node.options = (*it.node.options, "--bootstrap-from-store")
        it.node.start()
        assert it.is_covered()
        it.check()
        assert {path.name for path in it.indexes()} == built
        it.ask("DELETE", it.path)
        it.until(lambda: it.indexes() == [], "the objects of its indexes are collected")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a node's drivers are known by: their folder of temporary files."""
    folder = tmp_path / "t"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def test_what_a_killed_driver_java_or_worker_was_at_is_done_once(tmp_path: Path, own: Path) -> None:
    with whole(tmp_path) as it:
        it.create(declared())
        killed = []
        for kind in ("worker", "java", "driver") * KILLS:
            it.append([event(len(it.entries) + number) for number in range(ENTRIES)])
            it.flush()
            killed.append(in_the_middle(it, own, kind))
            it.covered()
            it.covered_once()
            it.check()
        assert len(killed) == 3 * KILLS
        assert it.overview()["failed"] == []
        it.node.stop()
        assert below(own) == {}


def in_the_middle(it: Whole, own: Path, kind: str) -> int:
    """Kill one of a kind while a claim is under way; the newest, of several."""
    found = list[int]()

    def there() -> bool:
        found[:] = sorted(process for process, what in below(own).items() if what == kind)
        return bool(found) and (bool(it.overview()["claims"]) or it.is_covered())

    it.until(there, f"{kind} is at work")
    kill(found[-1])
    return found[-1]
