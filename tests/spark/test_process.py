"""The driver's process: its folder, its log, its end. No Java is started."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexers.messages import StoreAt
from spark_index.driver.workdir import work_folder
from tests.spark.fake_node import TOKEN, FakeNode, served

PATIENCE_S = 30.0
WAITS = """
import sys
from pathlib import Path
from spark_index.driver.workdir import work_folder
with work_folder(Path(sys.argv[1])) as folder:
    (folder / "left").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""
PRINTS = """
import os, subprocess, sys, threading
from spark_index.driver.logs import capture_stderr
log = capture_stderr()
log("first", number=1)
subprocess.run(["sh", "-c", "echo from a child >&2"])
print("é\\x00", file=sys.stderr, flush=True)
for number in range(1000):
    os.write(2, b"noise\\n")
log("last", path=os)
threading.Event().wait(1)
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[FakeNode]:
    with served(FakeNode(StoreAt(kind="folder", folder=str(tmp_path)), [])) as node:
        yield node


def driver(node: FakeNode, *options: str, stdin: int = subprocess.DEVNULL, token: str = TOKEN) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "spark_index", "--node", node.url, *options]
    environment = {**os.environ, "STREAMS_TOKEN": token}
    return subprocess.Popen(command, env=environment, stdin=stdin, stderr=subprocess.PIPE, text=True)


def events(said: str) -> list[str]:
    return [json.loads(line)["event"] for line in said.splitlines()]


def test_a_signal_ends_a_driver_that_waits(node: FakeNode) -> None:
    process = driver(node)
    node.until(lambda node: node.claims >= 1, "a claim", PATIENCE_S)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=PATIENCE_S)[1]
    assert (process.returncode, events(said)) == (0, ["started", "ended"])


def test_the_end_of_its_input_ends_a_driver_and_its_folder(node: FakeNode) -> None:
    process = driver(node, stdin=subprocess.PIPE)
    node.until(lambda node: node.claims >= 1, "a claim", PATIENCE_S)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    assert process.stderr is not None
    with process.stderr as said:
        assert events(said.read()) == ["started", "parent_gone"]


def test_a_driver_that_the_node_does_not_know_says_so_and_ends(node: FakeNode) -> None:
    process = driver(node, token="wrong")
    said = process.communicate(timeout=PATIENCE_S)[1]
    assert (process.returncode, events(said)) == (2, ["started", "refused"])
    assert "wrong" not in said


def test_a_token_comes_from_a_file_or_from_the_command_line(node: FakeNode, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    for options in (["--token-file", str(tmp_path / "token")], ["--token", TOKEN]):
        process = driver(node, *options, "--once", token="wrong")
        said = process.communicate(timeout=PATIENCE_S)[1]
        assert (process.returncode, events(said)) == (0, ["started", "ended"]), options
        assert TOKEN not in said


def test_what_a_killed_driver_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    base = tmp_path / "base"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", WAITS, str(base)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    folders = [Path(each.stdout.readline().strip()) for each in both if each.stdout]
    both[0].kill()
    both[0].wait()
    with work_folder(base) as own:
        assert not folders[0].exists()
        assert (folders[1] / "left").exists()
        assert own.is_dir()
    both[1].communicate(timeout=PATIENCE_S)
    both[0].communicate(timeout=PATIENCE_S)
    assert list(base.iterdir()) == []


def test_the_log_is_lines_of_json_whoever_prints(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PRINTS], stderr=subprocess.PIPE, check=True, timeout=PATIENCE_S, cwd=tmp_path
    )
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    printed = [line["line"] for line in lines if line["event"] == "printed"]
    assert printed[:2] == ["from a child", "é\0"]
    assert printed[-1] == "more lines follow, and are left out"
    assert len(printed) <= 202
    assert {"first", "last"} <= {line["event"] for line in lines}
