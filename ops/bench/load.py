"""Runs wrk for one measurement and reads its result line."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ops.bench.errors import BenchError, CannotRunError
from ops.bench.wire import HOST, PREFIX

SCRIPTS = Path(__file__).resolve().parent / "lua"
THREADS = 1  # the loader may not take both cores of a small machine
ANSWER_SECONDS_MAX = 10
GRACE_SECONDS = 60.0
RESULT_MARK = "BENCH "


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What wrk saw. An append is acknowledged when its answer was complete and not a refusal."""

    requests: int
    refused: int
    socket_errors: int
    seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def acknowledged(self) -> int:
        return self.requests - self.refused


def ensure_wrk() -> str:
    """Return wrk's version, or refuse to run."""
    if shutil.which("wrk") is None:
        raise CannotRunError("wrk is not on PATH; on Debian and Ubuntu: apt-get install wrk")
    shown = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False).stdout.split()
    return shown[1] if len(shown) > 1 else "unknown"


def append_load(
    port: int, *, prefix: str, streams: int, content_type: str, bodies: list[Path], connections: int, seconds: float
) -> LoadResult:
    """Append the bodies in turn to the streams `prefix0`, `prefix1`, ... for some seconds."""
    arguments = [PREFIX + prefix, str(streams), content_type, *map(str, bodies)]
    return run_wrk(port, "append.lua", arguments, connections=connections, seconds=seconds)


def run_wrk(port: int, script: str, arguments: list[str], *, connections: int, seconds: float) -> LoadResult:
    whole_seconds = max(1, round(seconds))  # wrk takes no fractions
    command = [
        "wrk", f"-t{THREADS}", f"-c{connections}", f"-d{whole_seconds}s", "--latency", "--timeout",
        f"{ANSWER_SECONDS_MAX}s", "-s", str(SCRIPTS / script), f"http://{HOST}:{port}", "--", *arguments,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=whole_seconds + GRACE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError("wrk did not end") from error
    for line in done.stdout.splitlines():
        if line.startswith(RESULT_MARK):
            return LoadResult(**json.loads(line.removeprefix(RESULT_MARK)))
    raise BenchError(f"wrk gave no result: {' '.join((done.stderr or done.stdout).split())[-200:]}")


def write_bodies(folder: Path, bodies: tuple[bytes, ...]) -> list[Path]:
    """Put the bodies where wrk's script finds them."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{len(body)}-{index}" for index, body in enumerate(bodies)]
    for path, body in zip(paths, bodies, strict=True):
        path.write_bytes(body)
    return paths
