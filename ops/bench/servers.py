"""Starts, freezes, thaws and ends the servers that are compared.

Owns     one process tree and one data folder per server of a cell.
Keeps    only the server that is being measured runs; the others are stopped by signal, with all their children.
         A server sees none of the caller's settings, only the ones that are written here.
Dies     the kernel kills a server when this process ends (PR_SET_PDEATHSIG), so none outlives a run.
"""

import ctypes
import http.client
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ops.bench import peers, proc
from ops.bench.errors import BenchError, CannotRunError
from ops.bench.options import ROOT
from ops.bench.wire import HOST, PREFIX

READY_SECONDS_MAX = 60.0
READY_POLL_SECONDS = 0.005
PROBE_SECONDS_MAX = 5.0
STOP_SECONDS_MAX = 15.0
QUIET_WINDOW_SECONDS = 1.0
QUIET_CORE_SHARE = 0.05
PR_SET_PDEATHSIG = 1
SERVER_ERROR = 500
LOG_LINES_SHOWN = 20
INHERITED = ("PATH", "HOME", "LANG", "TMPDIR")
SQLITE_ACK = "answers after the commit of a SQLite transaction with synchronous=FULL"
PRISMA_COMMAND = (str(peers.BUN), "run", str(peers.PRISMA_MAIN))
LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """One side of the comparison."""

    name: str
    title: str
    command: Callable[[Path, int], list[str]]
    version: Callable[[], str]
    settings: str
    durability: str
    environment: Callable[[Path, int], Mapping[str, str]] = field(default=lambda _data, _port: {})

    @property
    def ours(self) -> bool:
        return self.name == "ours"


def specs(names: tuple[str, ...], ours_command: str) -> list[ServerSpec]:
    known = {spec.name: spec for spec in (_ours(ours_command), _prisma(tuned=False), _prisma(tuned=True), _reference())}
    return [known[name] for name in names]


def ensure_ours(command: str) -> None:
    program = shlex.split(command)[0]
    if shutil.which(program) is None and shutil.which(ROOT / program) is None:
        raise CannotRunError(
            f"the node's program {program} was not found; `make install` makes it, --ours-cmd names another"
        )


def _ours(command: str) -> ServerSpec:
    words = shlex.split(command)
    return ServerSpec(
        name="ours",
        title="Streams Node",
        command=lambda data, port: [word.format(data=data, port=port) for word in words],
        version=lambda: peers.program_version([*words[:1], "--version"]),
        settings="defaults, without authentication",
        durability=f"{SQLITE_ACK}; sealed objects are copied to a folder on the same disk",
    )


def _prisma(*, tuned: bool) -> ServerSpec:
    tuning = {"DS_INGEST_FLUSH_MS": "1", "DS_INGEST_CONCURRENCY": "1024"} if tuned else {}
    return ServerSpec(
        name="prisma-tuned" if tuned else "prisma",
        title="@prisma/streams-server, tuned" if tuned else "@prisma/streams-server",
        command=lambda _data, _port: [*PRISMA_COMMAND, "--object-store", "local", "--no-auth"],
        version=peers.prisma_version,
        settings=" ".join(f"{key}={value}" for key, value in tuning.items()) or "defaults, without authentication",
        durability=f"{SQLITE_ACK}; with `--object-store local` sealed objects are copied to memory, not to a disk",
        environment=lambda data, port: {"DS_ROOT": str(data), "PORT": str(port), **tuning},
    )


def _reference() -> ServerSpec:
    return ServerSpec(
        name="reference",
        title="@durable-streams/server",
        command=lambda data, port: ["node", str(peers.REFERENCE_MAIN), str(data), str(port)],
        version=peers.reference_version,
        settings="defaults, with `dataDir`",
        durability="answers after fdatasync of the stream's file and an LMDB commit; has no object store",
    )


class Server:
    """One server process with its data folder. It is frozen except inside `awake`."""

    def __init__(self, spec: ServerSpec, folder: Path, data: Path | None = None) -> None:
        self.spec = spec
        self.data = data or folder / "data"
        self.port = 0
        self._log = folder / "log.txt"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.data.mkdir(parents=True, exist_ok=True)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def pid(self) -> int:
        if self._process is None:
            raise BenchError(f"{self.name} is not running")
        return self._process.pid

    def start(self, seconds_max: float = READY_SECONDS_MAX) -> float:
        """Start, wait for the first answer, and return how many seconds that took."""
        self.port = _free_port()
        environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
        environment |= self.spec.environment(self.data, self.port)
        began = time.monotonic()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.spec.command(self.data, self.port),
                cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 -- no thread runs when servers are started
            )  # fmt: skip
        self._wait_until_ready(seconds_max)
        return time.monotonic() - began

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Let the server run inside the block only."""
        self._ensure_alive()
        proc.signal_tree(self.pid, signal.SIGCONT)
        try:
            self._wait_until_ready()
            yield
        finally:
            self.freeze()

    def freeze(self) -> None:
        if self._process is not None and self._process.poll() is None:
            proc.signal_tree(self.pid, signal.SIGSTOP)

    def wait_until_quiet(self, seconds_max: float) -> float:
        """Wait until background work (sealing, uploading) has calmed down; return how long it took."""
        began = time.monotonic()
        while time.monotonic() - began < seconds_max:
            before = proc.tree_cpu_seconds(self.pid)
            time.sleep(QUIET_WINDOW_SECONDS)
            if proc.tree_cpu_seconds(self.pid) - before <= QUIET_CORE_SHARE * QUIET_WINDOW_SECONDS:
                break
        return time.monotonic() - began

    def stop(self) -> None:
        """End the whole tree: politely, then not."""
        process, self._process = self._process, None
        if process is None:
            return
        members = proc.tree_pids(process.pid)
        for number in (
            signal.SIGTERM,
            signal.SIGCONT,
        ):  # in this order: the first thing a thawed server sees is the end
            proc.signal_tree(process.pid, number)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _kill(members, process)

    def empty_data(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir(parents=True)

    def last_words(self) -> str:
        if not self._log.exists():
            return ""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:])

    def _ensure_alive(self) -> None:
        if self._process is None or self._process.poll() is not None:
            raise BenchError(f"{self.name} has ended by itself")

    def _wait_until_ready(self, seconds_max: float = READY_SECONDS_MAX) -> None:
        deadline = time.monotonic() + seconds_max
        while time.monotonic() < deadline:
            self._ensure_alive()
            if _answers(self.port):
                return
            time.sleep(READY_POLL_SECONDS)
        raise BenchError(f"{self.name} did not answer within {seconds_max:.0f} s")


def _kill(members: list[int], process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a tree, also children whose parent went first; they still are in the session we made."""
    for pid in members:
        try:
            if os.getsid(pid) == process.pid:
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=PROBE_SECONDS_MAX)
    try:
        connection.request("HEAD", PREFIX + "bench-ready")
        return connection.getresponse().status < SERVER_ERROR
    except OSError:
        return False
    finally:
        connection.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _die_with_parent() -> None:
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
