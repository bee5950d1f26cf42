"""A real node as a child process: started on a free port, ready before it is used, stopped in the end.

Owns     the child, its data folder and its log, all in one temporary folder.
Hands on the base URL of a node that answers `GET /readyz` with 200.
Dies     with the caller's exception: the child is stopped all the same, and its last log lines are printed.
"""

import http.client
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOST = "127.0.0.1"
READY_TIMEOUT_S = 30.0
READY_POLL_S = 0.05
STOP_TIMEOUT_S = 20.0  # a node lets open requests finish before it exits
LOG_TAIL_LINES = 40


@contextmanager
def running_node(*options: str) -> Iterator[str]:
    """`streams-node serve` of this environment, with `options` added; yields the base URL."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="streams-node-") as folder:
        log = Path(folder) / "node.log"
        command = [str(Path(sys.executable).with_name("streams-node")), "serve", "--data", str(Path(folder) / "data")]
        command += ["--host", HOST, "--port", str(port), "--no-auth", *options]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            wait_until_ready(process, port)
            yield f"http://{HOST}:{port}"
        except BaseException:
            print(f"the node's last log lines:\n{_tail(log)}", file=sys.stderr)
            raise
        finally:
            stop(process)


def free_port() -> int:
    """Free now; somebody else may take it before the node does, which then fails at once and visibly."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not _ready(port):
        if process.poll() is not None:
            raise RuntimeError(f"the node ended with exit status {process.returncode} before it was ready")
        if time.monotonic() > deadline:
            raise TimeoutError(f"the node was not ready after {READY_TIMEOUT_S:.0f} s")
        time.sleep(READY_POLL_S)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Asks first; a node that does not stop by itself is a failure that is said, not only cleaned up."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise RuntimeError(f"the node was still running {STOP_TIMEOUT_S:.0f} s after SIGTERM") from None


def _ready(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
