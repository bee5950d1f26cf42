"""The driver's dealings with a node. Tasks run in this process: what Spark adds is in test_job.py."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from indexers.build import Builder
from indexers.messages import Claim, StoreAt
from spark_index.driver.client import Address, NodeClient, Refused
from spark_index.driver.logs import Log
from spark_index.driver.loop import Driver, Options
from spark_index.driver.tasks import tasks_of, weight_of, windows_of
from spark_index.session import Session
from tests.spark.bucket import Bucket, entries
from tests.spark.fake_node import TOKEN, FakeNode, served
from tests.spark.work import MEANING, counted, keys_of, put, store_at

AWAY = (503, b"shutting down")
PATIENCE_S = 30.0


class Here(Session):
    """Runs tasks in the driver's own thread, and remembers what it was told."""

    def __init__(self, master: str = "local[2]") -> None:
        super().__init__(master, Path())
        self.started = 0
        self.stops = 0
        self.ran = 0
        self.cancelled = threading.Event()
        self.before: Callable[[], None] = lambda: None

    @property
    @override
    def runs(self) -> bool:
        return self.started > self.stops

    @override
    def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        if not self.runs:
            self.started += 1
        self.ran += 1
        self.before()
        return [work(item) for item in items]

    @override
    def cancel(self) -> None:
        self.cancelled.set()

    @override
    def stop(self) -> None:
        self.stops = self.started


@pytest.fixture
def node(bucket: Bucket) -> Iterator[FakeNode]:
    with served(FakeNode(store_at(bucket), [MEANING])) as node:
        yield node


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with (tmp_path / "log").open("wb") as file:
        yield Log(file.fileno())


@contextmanager
def driving(node: FakeNode, session: Session, log: Log, **options: Any) -> Iterator[Driver]:
    """A driver in a thread, which has ended in the end."""
    client = NodeClient(Address(node.url, TOKEN))
    driver = Driver(client, session, Options("d", **({"backoff_s": 0.01} | options)), log)
    thread = threading.Thread(target=driver.run)
    thread.start()
    try:
        yield driver
    finally:
        driver.stop()
        thread.join(PATIENCE_S)
        client.close()
        assert not thread.is_alive()


def test_what_is_claimed_is_built_and_committed(bucket: Bucket, node: FakeNode, log: Log, tmp_path: Path) -> None:
    first, second = {1: entries(0, 50), 2: entries(3, 9)}, {1: entries(50, 400)}
    node.give(put(bucket, first), put(bucket, second, pack=False))
    with driving(node, Here(), log):
        node.until(lambda node: bool(node.commits), "a commit", PATIENCE_S)
    assert node.covered() == sorted(("lexicon", stream, e.seq) for held in (first, second) for stream in held
                                    for e in held[stream])  # fmt: skip
    assert keys_of(bucket.store, node.objects, tmp_path) == counted(first, second)
    assert node.commits[0].failed == []


@pytest.mark.parametrize("harm", ["missing", "damaged", "other entries"])
def test_a_source_that_cannot_be_used_is_failed_and_the_others_go_on(
    bucket: Bucket, node: FakeNode, log: Log, tmp_path: Path, harm: str
) -> None:
    good = {1: entries(0, 50)}
    bad = put(bucket, {2: entries(0, 20)})
    path = bucket.folder.parent / "objects" / bad.source.key
    path.chmod(0o644)
    if harm == "missing":
        path.unlink()
    elif harm == "damaged":
        path.write_bytes(path.read_bytes()[:-20] + b"x" * 20)
    else:
        source = put(bucket, {2: entries(1, 20)}).source
        bad = type(bad)(source=source, stretches=bad.stretches)
    node.give(put(bucket, good), bad)
    with driving(node, Here(), log):
        node.until(lambda node: bool(node.commits), "a commit", PATIENCE_S)
    assert [each.made for each in node.commits[0].failed] == [bad.source.made]
    assert keys_of(bucket.store, node.objects, tmp_path) == counted(good)


def test_a_node_that_is_away_is_waited_for_and_a_commit_whose_answer_was_lost_is_sent_again(
    bucket: Bucket, node: FakeNode, log: Log
) -> None:
    node.faults = {"claim": deque([AWAY, AWAY, (429, b"")]), "commit": deque([AWAY, AWAY])}
    lost = threading.Event()

    def lose_the_answer() -> None:
        if not lost.is_set():
            lost.set()
            raise ConnectionResetError

    node.after["commit"] = lose_the_answer
    node.give(put(bucket, {1: entries(0, 50)}))
    with driving(node, Here(), log):
        node.until(lambda node: bool(node.commits) and lost.is_set(), "a commit", PATIENCE_S)
        node.until(lambda node: node.claims >= 2, "the next claim", PATIENCE_S)
    assert len(node.commits) == 1
    assert len(node.covered()) == 50
    assert not any(node.faults.values())


def test_a_long_job_keeps_its_lease(bucket: Bucket, node: FakeNode, log: Log) -> None:
    node.lease_ms = 300
    session = Here()
    session.before = lambda: node.until(lambda node: len(node.renewals) >= 4, "renewals", PATIENCE_S)
    node.give(put(bucket, {1: entries(0, 50)}))
    with driving(node, session, log):
        node.until(lambda node: bool(node.commits), "a commit", PATIENCE_S)
    assert len(node.covered()) == 50
    assert node.refused == []


def test_a_lost_lease_cancels_the_job_and_commits_nothing(bucket: Bucket, node: FakeNode, log: Log) -> None:
    node.lease_ms = 300
    session = Here()

    def lose() -> None:
        if session.ran == 1:
            with node._changed:
                node.leases.clear()
            assert session.cancelled.wait(PATIENCE_S)
            node.give(put(bucket, {1: entries(0, 50)}))
            raise RuntimeError("cancelled")

    session.before = lose
    node.give(put(bucket, {2: entries(0, 50)}))
    with driving(node, session, log):
        node.until(lambda node: bool(node.commits), "a commit of the next claim", PATIENCE_S)
    assert {cover.stream for each in node.objects for cover in each.covers} == {1}
    assert node.refused == ["renew of no lease"]


def test_a_job_that_ends_after_its_lease_commits_nothing(bucket: Bucket, node: FakeNode, log: Log) -> None:
    session = Here()

    def lose() -> None:
        with node._changed:
            node.leases.clear()

    session.before = lose
    node.give(put(bucket, {2: entries(0, 50)}))
    with driving(node, session, log):
        node.until(lambda node: "commit of no lease" in node.refused, "a refused commit", PATIENCE_S)
        node.until(lambda node: node.claims >= 2, "the next claim", PATIENCE_S)
    assert node.commits == []


@pytest.mark.parametrize("problem", ["Job aborted: the worker is gone", "java.lang.OutOfMemoryError: Java heap space"])
def test_a_job_that_fails_is_given_back_at_once_and_done_by_a_new_session(
    bucket: Bucket, node: FakeNode, log: Log, tmp_path: Path, problem: str
) -> None:
    session = Here()

    def fail() -> None:
        if session.ran <= 2:
            raise RuntimeError(problem)

    session.before = fail
    held = {1: entries(0, 50)}
    node.give(put(bucket, held))
    with driving(node, session, log):
        node.until(lambda node: len(node.commits) == 3, "two commits of nothing and one of it all", PATIENCE_S)
    assert [len(commit.objects) for commit in node.commits] == [0, 0, 1]
    assert session.started == 3
    assert keys_of(bucket.store, node.objects, tmp_path) == counted(held)


def test_a_refused_commit_is_given_back_and_the_driver_goes_on(
    bucket: Bucket, node: FakeNode, log: Log, tmp_path: Path
) -> None:
    node.faults = {"commit": deque([(409, b'{"error":{"code":"index_refused"}}')])}
    held = {1: entries(0, 50)}
    node.give(put(bucket, held))
    with driving(node, Here(), log):
        node.until(lambda node: bool(node.objects), "a commit of it all", PATIENCE_S)
    assert [len(commit.objects) for commit in node.commits][-1] == 1
    assert keys_of(bucket.store, node.objects, tmp_path) == counted(held)
    assert node.refused == []


def test_two_drivers_share_the_work(bucket: Bucket, node: FakeNode, log: Log, tmp_path: Path) -> None:
    held = [{stream: entries(0, 30)} for stream in range(1, 13)]
    both = threading.Barrier(2)
    sessions = Here(), Here()

    def meet(session: Here) -> None:
        if session.ran == 1:
            both.wait(PATIENCE_S)

    for session in sessions:
        session.before = partial(meet, session)
    for each in held:
        node.give(put(bucket, each))
    with driving(node, sessions[0], log), driving(node, sessions[1], log):
        node.until(lambda node: len(node.objects) == len(held), "all of it", PATIENCE_S)
    assert all(session.ran for session in sessions)
    assert keys_of(bucket.store, node.objects, tmp_path) == counted(*held)
    assert len(set(node.covered())) == len(node.covered()) == 12 * 30


def test_a_driver_that_dies_in_the_middle_leaves_its_work_to_the_next_one(
    bucket: Bucket, node: FakeNode, log: Log, tmp_path: Path
) -> None:
    """Before its job, and after the job has put everything: what it put is nobody's."""
    node.lease_ms = 300
    held = {1: entries(0, 50)}
    node.give(put(bucket, held))
    for after in (False, True):

        class Dying(Here):
            dies_after = after

            @override
            def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
                if self.dies_after:
                    super().run(work, items)
                raise SystemExit  # past everything that gives work back

        client = NodeClient(Address(node.url, TOKEN))
        with pytest.raises(SystemExit):
            Driver(client, Dying(), Options("dies"), log).run()
        client.close()
    assert node.commits == []
    with driving(node, Here(), log):
        node.until(lambda node: bool(node.commits), "a commit", PATIENCE_S)
    put_there = list((bucket.folder.parent / "objects" / "index").rglob("*.parquet"))
    assert (len(node.objects), len(put_there)) == (1, 2)
    assert keys_of(bucket.store, node.objects, tmp_path) == counted(held)


def test_a_session_starts_with_work_and_stops_when_idle(bucket: Bucket, node: FakeNode, log: Log) -> None:
    session = Here()
    with driving(node, session, log, idle_stop_s=0.2):
        node.until(lambda node: node.claims >= 1, "a claim", PATIENCE_S)
        assert session.started == 0
        for times in (1, 2):
            node.give(put(bucket, {times: entries(0, 50)}))
            node.until(lambda node, times=times: len(node.commits) == times, "a commit", PATIENCE_S)  # type: ignore[misc] # as above
            ends = time.monotonic() + PATIENCE_S
            while session.runs and time.monotonic() < ends:
                time.sleep(0.01)
            assert (session.started, session.stops) == (times, times)


def test_with_once_the_driver_ends_when_there_is_nothing_to_do(bucket: Bucket, node: FakeNode, log: Log) -> None:
    for stream in (1, 2):
        node.give(put(bucket, {stream: entries(0, 50)}))
    client = NodeClient(Address(node.url, TOKEN))
    Driver(client, Here(), Options("d", once=True), log).run()
    client.close()
    assert len(node.commits) == 2


def test_a_remote_master_is_refused_on_a_folder_with_the_reason(bucket: Bucket, node: FakeNode, log: Log) -> None:
    node.give(put(bucket, {1: entries(0, 50)}))
    client = NodeClient(Address(node.url, TOKEN))
    with pytest.raises(Refused, match=r"spark://far:7077 has executors on other machines.*folder of its own machine"):
        Driver(client, Here("spark://far:7077"), Options("d", once=True), log).run()
    client.close()
    assert [commit.objects for commit in node.commits] == [[]]  # given back, for a driver that can
    assert len(node.work) == 1


def test_a_wrong_token_ends_the_driver(node: FakeNode, log: Log) -> None:
    client = NodeClient(Address(node.url, "wrong"))
    with pytest.raises(Refused, match="401"):
        Driver(client, Here(), Options("d"), log).run()
    client.close()


def test_a_driver_that_is_stopped_gives_its_claim_back(bucket: Bucket, node: FakeNode, log: Log) -> None:
    session, reached = Here(), threading.Event()

    def wait() -> None:
        reached.set()
        assert session.cancelled.wait(PATIENCE_S)
        raise RuntimeError("cancelled")

    session.before = wait
    node.give(put(bucket, {1: entries(0, 50)}))
    with driving(node, session, log):
        assert reached.wait(PATIENCE_S)
    assert [commit.objects for commit in node.commits] == [[]]
    assert len(node.work) == 1


def test_an_object_that_breaks_the_builder_does_not_stop_its_neighbours(
    bucket: Bucket, node: FakeNode, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [{stream: entries(0, 30)} for stream in range(1, 5)]
    builds = [put(bucket, each) for each in held]
    bad = builds[2].source.made
    add = Builder.add

    def breaks(builder: Any, build: Any, pieces: Any) -> None:
        if build.source.made == bad:
            raise ZeroDivisionError("nobody foresaw this")
        add(builder, build, pieces)

    monkeypatch.setattr(Builder, "add", breaks)
    node.give(*builds)
    with driving(node, Here(), log):
        node.until(lambda node: bool(node.commits), "a commit", PATIENCE_S)
    assert [(each.made, each.reason) for each in node.commits[0].failed] == [(bad, "nobody foresaw this")]
    del held[2]
    assert keys_of(bucket.store, node.objects, tmp_path) == counted(*held)


# --- plans ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 1000), max_size=40), st.integers(1, 8), st.integers(1, 2000))
def test_tasks_hold_all_work_once_are_even_and_not_too_big(sizes: list[int], workers: int, weight_max: int) -> None:
    class Work:
        def __init__(self, size: int) -> None:
            self.inputs = [type("Input", (), {"bytes": size})]

    work: Any = [Work(size) for size in sizes]
    claim = Claim(claim="c", fence=1, lease_ms=1, store=StoreAt(kind="folder"), meanings=[], work=work)
    tasks = tasks_of(claim, workers, weight_max)
    assert sorted(map(id, work)) == sorted(id(each) for task in tasks for each in task.work)
    assert all(task.work for task in tasks) or not sizes
    totals = [sum(map(weight_of, task.work)) for task in tasks]
    largest = max(sizes, default=0)
    assert max(totals, default=0) - min(totals, default=0) <= largest
    assert max(totals, default=0) <= weight_max + largest
    assert len(tasks) <= max(workers, -(-sum(sizes) // weight_max) + workers - 1)


def test_no_task_is_left_alone_at_the_end(bucket: Bucket) -> None:
    """A worker would wait for the other one."""
    builds = [put(bucket, {stream: entries(0, 10)}) for stream in range(1, 13)]
    claim = Claim(claim="c", fence=1, lease_ms=1, store=store_at(bucket), meanings=[MEANING], work=list(builds))
    of_one = max(map(weight_of, builds))
    assert [len(tasks_of(claim, 2, many * of_one)) for many in (12, 6, 5, 4, 3)] == [2, 2, 4, 4, 4]


def test_entries_that_make_many_rows_of_rollups_are_cut_into_smaller_tasks(bucket: Bucket) -> None:
    """A worker holds all rows of a task."""
    summary = {"kind": "summary", "field": "n", "histogram": "log2_v1"}
    rollup = {"intervals": ["1m", "1h", "7h", "1d"], "measures": {"n": {"kind": "count"}, "s": summary}}
    registry = msgspec.Raw(msgspec.json.encode({"search": {"rollups": {"r": rollup}}}))
    meaning = msgspec.structs.replace(MEANING, registry=registry, configs={"lexicon": "l", "rollups": "r"})
    builds = [put(bucket, {stream: entries(0, 100)}) for stream in range(1, 9)]
    rolled = [
        msgspec.structs.replace(
            each, stretches=[msgspec.structs.replace(one, families=["rollups"]) for one in each.stretches]
        )
        for each in builds
    ]

    def tasks(work: list[Any]) -> int:
        claim = Claim(claim="c", fence=1, lease_ms=1, store=store_at(bucket), meanings=[meaning], work=work)
        return len(tasks_of(claim, 1, 8 * weight_of(builds[0])))

    assert windows_of(meaning) == 6
    assert windows_of(MEANING) == 0
    assert tasks(builds) == 1
    assert tasks(rolled) > 1
