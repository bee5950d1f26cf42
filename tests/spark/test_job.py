"""Tasks in Spark's workers: what a driver has them do, and what is left when a worker or a parent is killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from typing_extensions import override

from indexers.messages import Merge, StoreAt
from spark_index.driver import job
from spark_index.driver.client import Address, NodeClient
from spark_index.driver.logs import Log
from spark_index.driver.loop import Driver, Options
from spark_index.session import Session
from streams_node.objects.s3 import S3Address, S3Store
from tests.spark.bucket import Bucket, entries
from tests.spark.fake_node import TOKEN, FakeNode, served
from tests.spark.work import MEANING, counted, keys_of, put, store_at
from tests.store import servers

pytestmark = [
    pytest.mark.xdist_group("spark"),  # one JVM at a time
    pytest.mark.timeout(300),  # seconds where nobody else works
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Spark leaves sockets to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PATIENCE_S = 100.0
GONE_S = 5.0
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # what a short life of Java is best with


class Lent(Session):
    """The session of all tests: a driver does not stop it."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.master, Path())
        self._lent = session

    @override
    def run(self, work: Any, items: Any) -> list[Any]:
        return self._lent.run(work, items)

    @override
    def stop(self) -> None:
        """It stays."""


@pytest.fixture
def node(bucket: Bucket) -> Iterator[FakeNode]:
    with served(FakeNode(store_at(bucket), [MEANING])) as node:
        yield node


def drive(node: FakeNode, session: Session, tmp_path: Path) -> list[dict[str, Any]]:
    """Until there is nothing to do; returns the log."""
    client = NodeClient(Address(node.url, TOKEN))
    with (tmp_path / "log").open("wb") as file:
        Driver(client, Lent(session), Options("d", once=True, backoff_s=0.01), Log(file.fileno())).run()
    client.close()
    return [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]


def test_workers_build_and_merge_what_is_claimed(
    session: Session, bucket: Bucket, node: FakeNode, tmp_path: Path
) -> None:
    held = [{1: entries(at * 100, at * 100 + 100), at + 2: entries(0, 30)} for at in range(5)]
    node.give(*(put(bucket, each) for each in held))
    drive(node, session, tmp_path)
    assert 1 <= len(node.objects) <= 2  # as many tasks as cores
    built = list(node.objects)
    assert keys_of(bucket.store, built, tmp_path) == counted(*held)
    assert len(set(node.covered())) == len(node.covered()) == 5 * 130
    # Their merge; and one with an input that is gone, which is named.
    lost = type(built[0])(
        **{**{name: getattr(built[0], name) for name in built[0].__struct_fields__}, "made": "f" * 32}
    )
    node.give(Merge(family="lexicon", level=1, inputs=built), Merge(family="lexicon", level=1, inputs=[*built, lost]))
    drive(node, session, tmp_path)
    commit = node.commits[-1]
    assert commit.merged == [[commit.objects[0].made, *(each.made for each in built)]]
    assert [each.made for each in commit.failed] == ["f" * 32]
    assert keys_of(bucket.store, commit.objects, tmp_path) == counted(*held)


def test_a_worker_that_is_killed_in_the_middle_costs_nothing(
    session: Session, bucket: Bucket, node: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once before it has put anything, twice after it has put it all and told nobody."""
    kills = tmp_path / "kills"

    def dies(data: bytes) -> bytes:
        before = len(kills.read_text()) if kills.exists() else 0
        outcome = job.run_task(data) if before else b""
        if before < 3:
            with kills.open("a") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call] # Spark says nothing
    monkeypatch.setattr(job, "run_task", dies)
    held = {1: entries(0, 200)}
    node.give(put(bucket, held))
    drive(node, session, tmp_path)
    assert kills.read_text() == "xxx"
    assert len(node.commits) == 1
    assert len(set(node.covered())) == len(node.covered()) == 200
    assert keys_of(bucket.store, node.objects, tmp_path) == counted(held)


def test_an_object_that_ends_its_worker_each_time_is_named_and_the_others_are_built(
    session: Session, bucket: Bucket, node: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a fault in a library does, and the kernel when memory is used up: no worker can say which one it was."""
    held = [{stream: entries(0, 30)} for stream in range(1, 6)]
    builds = [put(bucket, each) for each in held]
    bad = builds[3].source.made

    def dies(data: bytes) -> bytes:
        if bad.encode() in data:
            os.kill(os.getpid(), signal.SIGKILL)
        return job.run_task(data)

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call] # Spark says nothing
    monkeypatch.setattr(job, "run_task", dies)
    node.give(*builds)
    said = drive(node, session, tmp_path)
    (commit,) = [each for each in node.commits if each.failed]
    assert [each.made for each in commit.failed] == [bad]
    assert "worker" in commit.failed[0].reason
    del held[3]
    assert keys_of(bucket.store, node.objects, tmp_path) == counted(*held)
    assert len(set(node.covered())) == len(node.covered()) == 4 * 30
    assert "failed" not in {line["event"] for line in said}


# --- processes ------------------------------------------------------------------------------------------------------

PARENT = """
import subprocess, sys, time
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
time.sleep(600)
"""
IN_PROC = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")


def marked(mark: str) -> dict[int, str]:
    """Living processes that have the mark in their environment: their ids and commands."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:80]
        except OSError:
            continue
    return found


@contextlib.contextmanager
def parented(node: FakeNode, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A process that has started a driver, and what its whole family has in its environment."""
    mark = f"of-{folder.name}-{os.getpid()}"
    (folder / "t").mkdir()
    environment = {**os.environ, "TEST_MARK": mark, "STREAMS_TOKEN": TOKEN, "TMPDIR": str(folder / "t")}
    command = [sys.executable, "-m", "spark_index", "--node", node.url, "--master", "local[2]"]
    with (folder / "log").open("wb") as log:
        parent = subprocess.Popen([sys.executable, "-c", PARENT, *command], env=environment, stderr=log)
    try:
        yield parent, mark
    finally:
        for process in marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        parent.wait()


def kill(parent: subprocess.Popen[bytes], mark: str) -> dict[int, str]:
    """Kill it, and see who is left a little later."""
    parent.kill()
    parent.wait()
    ends = time.monotonic() + GONE_S
    while (left := marked(mark)) and time.monotonic() < ends:
        time.sleep(0.05)
    return left


def java_of(mark: str) -> list[int]:
    return [process for process, command in marked(mark).items() if "/java " in command]


@IN_PROC
def test_the_program_survives_its_java_and_leaves_no_process_when_its_parent_is_killed(
    bucket: Bucket, node: FakeNode, tmp_path: Path
) -> None:
    held, more = {1: entries(0, 200)}, {2: entries(0, 100)}
    node.give(put(bucket, held))
    with parented(node, tmp_path) as (parent, mark):
        node.until(lambda node: bool(node.objects), "a commit", PATIENCE_S)
        (java,) = java_of(mark)
        os.kill(java, signal.SIGKILL)
        node.give(put(bucket, more))
        node.until(lambda node: len(node.objects) == 2, "a commit by another Java", PATIENCE_S)
        assert keys_of(bucket.store, node.objects, tmp_path) == counted(held, more)
        assert len(java_of(mark)) == 1
        assert any("pyspark" in command for command in marked(mark).values())
        assert kill(parent, mark) == {}
        assert list((tmp_path / "t").rglob("*.parquet")) == []
    events = [json.loads(line)["event"] for line in (tmp_path / "log").read_text().splitlines()]
    assert {"started", "working", "committed", "failed", "parent_gone"} <= set(events)


@IN_PROC
def test_a_java_that_is_still_starting_ends_with_the_parent_too(bucket: Bucket, node: FakeNode, tmp_path: Path) -> None:
    node.give(put(bucket, {1: entries(0, 200)}))
    with parented(node, tmp_path) as (parent, mark):
        ends = time.monotonic() + PATIENCE_S
        while not java_of(mark) and time.monotonic() < ends:
            time.sleep(0.02)
        assert java_of(mark)
        assert kill(parent, mark) == {}
    assert node.commits == []


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A standalone master and a worker of the pip package, on loopback."""
    home = Path(cloudpickle.__file__).parents[1]
    command = str(home / "bin" / "spark-class")
    port, ui, worker_ui = servers.free_ports(3)
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home), "SPARK_LOG_DIR": str(folder),
                   "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": QUICK, "PYSPARK_PYTHON": sys.executable,
                   "AWS_ACCESS_KEY_ID": servers.KEYS.access_key_id,
                   "AWS_SECRET_ACCESS_KEY": servers.KEYS.secret_access_key}  # fmt: skip
    url = f"spark://127.0.0.1:{port}"
    main = [
        "org.apache.spark.deploy.master.Master",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--webui-port",
        str(ui),
    ]
    worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g",
              "--webui-port", str(worker_ui), "--work-dir", str(folder / "work"), url]  # fmt: skip
    with (folder / "cluster.log").open("wb") as log:
        running = [
            subprocess.Popen([command, *arguments], env=environment, stdout=log, stderr=log, cwd=folder)
            for arguments in (main, worker)
        ]
    try:
        yield url
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(30)


@pytest.fixture
def moto(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Address]:
    folder = tmp_path / "moto"
    folder.mkdir()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", servers.KEYS.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", servers.KEYS.secret_access_key)
    with servers.moto(folder) as address:
        yield address


def test_a_standalone_cluster_builds_from_and_into_a_bucket(moto: S3Address, tmp_path: Path) -> None:
    work = tmp_path / "made"
    work.mkdir()
    bucket = Bucket(S3Store(moto, servers.KEYS), work)
    at = StoreAt(
        kind="s3", bucket=moto.bucket, prefix=moto.root, endpoint=moto.endpoint, region=moto.region, path_style=True
    )
    held = {1: entries(0, 200), 2: entries(0, 10)}
    with served(FakeNode(at, [MEANING])) as node, cluster(tmp_path) as master:
        node.give(put(bucket, held))
        command = [sys.executable, "-m", "spark_index", "--node", node.url, "--master", master, "--once"]
        command += ["--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1"]
        command += ["--conf", f"spark.executor.extraJavaOptions={QUICK}"]
        command += ["--conf", "spark.driver.bindAddress=127.0.0.1"]
        ended = subprocess.run(
            command, env={**os.environ, "STREAMS_TOKEN": TOKEN}, stderr=subprocess.PIPE, text=True, check=False,
            stdin=subprocess.DEVNULL, timeout=110,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
    assert len(node.commits) == 1
    assert keys_of(bucket.store, node.objects, tmp_path) == counted(held)
    assert all(json.loads(line)["event"] for line in ended.stderr.splitlines())
