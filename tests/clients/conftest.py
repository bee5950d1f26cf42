"""Nodes as child processes, and a way to run a scenario of the TypeScript client against one.

`node` is shared by the tests of a session, which use streams of their own. `own_node` belongs to one test, and can be
stopped and started again on the same folder and port, as an operator would.
"""

import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue

import pytest

from ops.node_runtime import node_environment
from tests.conformance.node_process import HOST, free_port, stop, wait_until_ready

HERE = Path(__file__).resolve().parent
SCENARIO_TIMEOUT_S = 60.0


@dataclass
class Node:
    """A node on a folder and a port that stay the same when it is stopped and started again."""

    folder: Path
    port: int = field(default_factory=free_port)
    options: tuple[str, ...] = ("--no-auth",)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "node.log").read_text(errors="replace")

    def stream(self, name: str = "s") -> str:
        """The address of a stream that no other test knows."""
        return f"{self.url}/v1/stream/{name}-{secrets.token_hex(4)}"

    def start(self) -> None:
        command = [str(Path(sys.executable).with_name("streams-node")), "serve", "--data", str(self.folder / "data")]
        command += ["--host", HOST, "--port", str(self.port), *self.options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STREAMS_")}
        with (self.folder / "node.log").open("ab") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
            )
        wait_until_ready(self.process, self.port)

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            stop(process)

    def kill(self) -> None:
        """The end that no process can prepare for."""
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()


@contextmanager
def started(folder: Path, *options: str) -> Iterator[Node]:
    running = Node(folder, options=options or ("--no-auth",))
    try:
        running.start()
        yield running
    except BaseException:
        print(f"the node's log:\n{running.log}", file=sys.stderr)  # noqa: T201 - pytest shows it with the failure
        raise
    finally:
        running.stop()


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with started(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.fixture
def own_node(tmp_path: Path) -> Iterator[Node]:
    with started(tmp_path) as running:
        yield running


# --- the TypeScript client ------------------------------------------------------------------------------------------


class Scenario:
    """A function of scenarios.mjs, or `module.function`, in a process of its own; it says JSON, one value a line."""

    def __init__(self, name: str, *arguments: str, environment: Mapping[str, str]) -> None:
        self.name = name
        module = name if "." in name else f"scenarios.{name}"
        self._process = subprocess.Popen(
            ["node", "run.mjs", module, *arguments],
            cwd=HERE,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._said: Queue[str | None] = Queue()
        self._errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._listen, name=f"{name} stdout"),
            threading.Thread(target=self._collect, name=f"{name} stderr"),
        ]
        for thread in self._threads:
            thread.start()

    def says(self) -> object:
        """The next value; fails the test when the scenario ended without one."""
        try:
            line = self._said.get(timeout=SCENARIO_TIMEOUT_S)
        except Empty:
            pytest.fail(f"{self.name} said nothing for {SCENARIO_TIMEOUT_S} s")
        if line is None:
            pytest.fail(f"{self.name} ended early:\n{''.join(self._errors)}")
        return json.loads(line)

    def passes(self) -> None:
        """Wait for the end; its assertions are the test's."""
        status = self._process.wait(SCENARIO_TIMEOUT_S)
        self.end()
        assert status == 0, "".join(self._errors)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._said.put(line)
        self._said.put(None)

    def _collect(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            self._errors.extend(lines)


class Scenarios:
    """Starts scenarios, and ends those that a failed test left behind."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._started: list[Scenario] = []

    def __call__(self, name: str, *arguments: str) -> Scenario:
        scenario = Scenario(name, *arguments, environment=self._environment)
        self._started.append(scenario)
        return scenario

    def end(self) -> None:
        for scenario in self._started:
            scenario.end()


@pytest.fixture(scope="session")
def node_js() -> Mapping[str, str]:
    """An environment with Node.js, after the pinned client was installed."""
    environment = node_environment()
    install_client(environment)
    return environment


@pytest.fixture
def typescript(node_js: Mapping[str, str]) -> Iterator[Scenarios]:
    scenarios = Scenarios(node_js)
    yield scenarios
    scenarios.end()


def install_client(environment: Mapping[str, str]) -> None:
    """`npm ci`, once for each state of the lock. Test workers start together, so the first one holds a lock."""
    import fcntl  # noqa: PLC0415 - nothing else here is bound to one kind of system

    lock_hash = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    stamp = HERE / "node_modules" / ".installed-lock"
    with (HERE / "package.json").open() as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if stamp.is_file() and stamp.read_text() == lock_hash:
            return
        subprocess.run(["npm", "ci", "--no-progress", "--loglevel=error"], cwd=HERE, env=environment, check=True)
        stamp.write_text(lock_hash)
