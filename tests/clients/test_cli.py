"""The command line as a client of a real node: what a shell sees."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import Node, started

PROGRAM = str(Path(sys.executable).with_name("streams-node"))
KEY = "an-invented-key-0123456789"


@dataclass(frozen=True)
class Outcome:
    status: int
    stdout: bytes
    stderr: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def one(self) -> dict[str, Any]:
        (only,) = self.objects
        return only


Run = Callable[..., Outcome]


@pytest.fixture
def cli(node: Node) -> Run:
    """`streams-node stream …` of a shell that knows the node by STREAMS_URL."""

    def run(*arguments: str, send: bytes = b"", **variables: str) -> Outcome:
        done = subprocess.run(
            [PROGRAM, "stream", *arguments],
            input=send,
            capture_output=True,
            env=environment(**{"STREAMS_URL": node.url, **variables}),
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr.decode())

    return run


@pytest.fixture
def name(node: Node) -> str:
    return node.stream("cli").rpartition("/")[2]


@pytest.fixture
def tails(node: Node) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """`stream tail` in the background; what still runs in the end is ended."""
    running: list[subprocess.Popen[bytes]] = []

    def tail(*arguments: str) -> subprocess.Popen[bytes]:
        command = [PROGRAM, "stream", "tail", *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(STREAMS_URL=node.url)
        )
        running.append(process)
        return process

    yield tail
    for process in running:
        process.kill()
        process.communicate()


def test_a_stream_from_its_creation_to_its_end(cli: Run, name: str) -> None:
    created = cli("create", name, "--content-type", "application/json", "--json").one
    assert created | {"next_offset": ""} == {"stream": name, "created": True, "next_offset": "", "closed": False}
    assert cli("create", name, "--content-type", "application/json", "--json").one["created"] is False

    appended = cli("append", name, "--data", '{"n": 1}', "--json").one
    assert appended["next_offset"] > created["next_offset"]
    cli("append", name, send=b"[2, 3]")

    read = cli("read", name, "--json").one
    assert read["messages"] == [{"n": 1}, 2, 3]
    assert (read["up_to_date"], read["closed"]) == (True, False)
    assert cli("read", name).stdout == b'{"n": 1}\n2\n3\n'
    assert cli("read", name, "--offset", appended["next_offset"]).stdout == b"2\n3\n"

    assert cli("close", name, "--json").one["closed"] is True
    refused = cli("append", name, "--data", "4", "--json")
    assert (refused.status, refused.one["error"]["code"]) == (1, "stream_closed")

    assert cli("rm", name).status == 2, "needs --yes"
    assert cli("rm", name, "--yes", "--json").one == {"stream": name, "deleted": True}
    gone = cli("read", name, "--json")
    assert (gone.status, gone.one["error"]["code"], gone.one["error"]["status"]) == (1, "not_found", 404)


def test_a_file_goes_in_and_comes_out_byte_for_byte(cli: Run, name: str, tmp_path: Path) -> None:
    content = os.urandom(3_000_000)  # one entry, larger than a page
    (tmp_path / "in").write_bytes(content)
    cli("create", name)
    cli("append", name, str(tmp_path / "in"))
    assert cli("read", name).stdout == content


def test_lines_of_stdin_become_appends(cli: Run, name: str) -> None:
    cli("create", name, "--content-type", "application/json")
    outcome = cli("append", name, "--lines", "--json", send=b'{"n":1}\n\n{"n":2}\n')
    assert len(outcome.objects) == 2
    assert cli("read", name, "--json").one["messages"] == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("mode", [(), ("--sse",)], ids=["long-poll", "sse"])
def test_tail_prints_entries_as_they_come_and_ends_with_the_stream(
    cli: Run, name: str, tails: Callable[..., subprocess.Popen[bytes]], mode: tuple[str, ...]
) -> None:
    cli("create", name, "--content-type", "application/json")
    cli("append", name, "--data", "1")
    tail = tails(name, "--offset", "-1", *mode)
    assert tail.stdout is not None
    assert tail.stdout.readline() == b"1\n"
    cli("append", name, "--data", "2")
    assert tail.stdout.readline() == b"2\n"
    cli("close", name)
    assert tail.communicate(timeout=20)[0] == b""
    assert tail.returncode == 0


def test_streams_of_a_bucket_are_listed_in_pages(cli: Run, node: Node) -> None:
    bucket = node.stream("b").rpartition("/")[2]
    for each in ("one", "two", "zero"):
        cli("create", f"{bucket}/{each}", "--content-type", "text/plain")
    page = cli("ls", "--bucket", bucket, "--limit", "2", "--json")
    assert [row["stream_id"] for row in page.objects] == ["one", "two"]
    assert "--after two" in page.stderr
    rest = cli("ls", "--bucket", bucket, "--after", "two", "--json")
    assert [row["stream_id"] for row in rest.objects] == ["zero"]
    assert [row["stream_id"] for row in cli("ls", "--bucket", bucket, "--prefix", "t", "--json").objects] == ["two"]
    assert f"{bucket}/one" in {row["name"] for row in cli("ls", "--limit", "1000", "--json").objects}


def test_a_node_that_wants_a_key_gets_it_from_the_environment(tmp_path: Path) -> None:
    with started(tmp_path, "--api-key", KEY) as node:
        without = subprocess.run(
            [PROGRAM, "stream", "ls", "--json"],
            capture_output=True,
            env=environment(STREAMS_URL=node.url),
            check=False,
        )
        assert (without.returncode, json.loads(without.stdout)["error"]["code"]) == (1, "unauthorized")
        with_key = subprocess.run(
            [PROGRAM, "stream", "create", "s"],
            capture_output=True,
            env=environment(STREAMS_URL=node.url, STREAMS_API_KEY=KEY),
            check=False,
        )
        assert with_key.returncode == 0


def test_a_node_that_is_not_there_is_exit_status_3(cli: Run) -> None:
    nowhere = cli("ls", "--json", STREAMS_URL="http://127.0.0.1:1")
    assert (nowhere.status, nowhere.one["error"]["code"]) == (3, "unreachable")


def environment(**variables: str) -> dict[str, str]:
    """This one, with the node's variables as a test wants them."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("STREAMS_")}
    return plain | variables
