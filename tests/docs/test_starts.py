"""What a start says, and how it fails: at once, with a sentence that names the thing, and status 1."""

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_node.wal.folder import DATABASE

PROGRAM = str(Path(sys.executable).with_name("streams-node"))
START_S = 30.0


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as held:
        yield held.getsockname()[1]


def refused(*flags: str, folder: Path) -> str:
    """The last line of a node that does not start."""
    command = [PROGRAM, "serve", "--data", str(folder / "data"), "--no-auth", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False, env=environment())
    assert done.returncode == 1, done.stderr
    assert " ready " not in done.stderr
    return done.stderr.splitlines()[-1]


def test_a_port_that_is_taken(tmp_path: Path, taken_port: int) -> None:
    assert f"127.0.0.1:{taken_port} cannot be listened on" in refused("--port", str(taken_port), folder=tmp_path)


def test_an_operator_port_that_is_taken(tmp_path: Path, taken_port: int) -> None:
    said = refused("--port", "0", "--operator-port", str(taken_port), folder=tmp_path)
    assert f"127.0.0.1:{taken_port} cannot be listened on" in said
    with sqlite3.connect(tmp_path / "data" / DATABASE) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()


def test_a_database_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / DATABASE).write_text("this is no database, however long one reads in it\n" * 100)
    assert "file is not a database" in refused("--port", "0", folder=tmp_path)


def test_a_database_of_a_newer_version(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    database = sqlite3.connect(tmp_path / "data" / DATABASE)
    database.execute("PRAGMA user_version = 99")
    database.close()
    assert "run the newer version" in refused("--port", "0", folder=tmp_path)


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    assert "cannot be used" in refused("--port", "0", folder=tmp_path)


def test_a_folder_that_another_node_holds(tmp_path: Path) -> None:
    with running(tmp_path) as (process, _):
        assert f"in use by process {process.pid}" in refused("--port", "0", folder=tmp_path)


def test_a_node_says_where_it_listens_once_it_does(tmp_path: Path) -> None:
    with running(tmp_path, "--operator-port", "0") as (process, ready):
        addresses = re.findall(r"url=http://127\.0\.0\.1:(\d+)", ready)
        assert len(set(addresses) - {"0"}) == 2
        for port in addresses:
            socket.create_connection(("127.0.0.1", int(port)), timeout=5).close()
        process.send_signal(signal.SIGINT)
        assert process.wait(START_S) == 0


class running:  # noqa: N801 - a block in which a node runs
    """A node on a free port, and its line that says so."""

    def __init__(self, folder: Path, *flags: str) -> None:
        command = [PROGRAM, "serve", "--data", str(folder / "data"), "--no-auth", "--port", "0", *flags]
        self._log = folder / "node.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment())

    def __enter__(self) -> tuple[subprocess.Popen[bytes], str]:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            line = next((line for line in self._log.read_text().splitlines() if " ready " in line), None)
            if line is not None:
                return self._process, line
            time.sleep(0.02)
        self.__exit__()
        pytest.fail(self._log.read_text())

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("STREAMS_")}
