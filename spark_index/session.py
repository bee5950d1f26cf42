"""A Spark session that starts when it is first asked for, and that can be stopped without a trace.

Owns     one JVM, its settings, and everything that it writes, in a folder.
Keeps    memory is bounded: 512 MiB of Java heap, small C heaps in the Python workers. A failed task is tried again.
         Nothing listens on other addresses than loopback while the master is local.
Dies     with the process: the JVM reads the end of its standard input, and its Python workers that of theirs.

Settings with numbers beside them were measured; the reasons stand there.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from spark_index.java import java_home

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext
    from pyspark.sql import SparkSession

_In = TypeVar("_In")
_Out = TypeVar("_Out")
_ATTEMPTS = 4  # of a task; `local[2]` would never try again
_STOP_S = 10.0
_SOCKETS_FOLDER_CHARS_MAX = 55  # the path of a socket has 104 bytes, and Spark's names take 45
_TUNED = {
    # Memory of a worker after 48 objects: 270 MB and flat with these, 550 MB and rising without.
    "MALLOC_ARENA_MAX": "2",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "OMP_NUM_THREADS": "1",
}


def cores_of(master: str) -> int | None:
    """Of a local master; None for a remote one, which knows itself."""
    if not is_local(master):
        return None
    inner = master.removeprefix("local").strip("[]").partition(",")[0]
    return len(os.sched_getaffinity(0)) if inner == "*" else int(inner or "1")


def is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def settings_of(master: str, folder: Path) -> dict[str, str]:
    """What Spark is told."""
    java = [
        "-XX:+UseSerialGC",  # 490 MB for the JVM instead of 553
        "-XX:TieredStopAtLevel=1",  # it only passes bytes on: 447 MB, and an earlier start
        "-XX:-UsePerfData",
        f"-Djava.io.tmpdir={folder}",
        f"-Dderby.system.home={folder}",
    ]
    chosen = {
        "spark.app.name": "streams-index",
        "spark.master": master,
        "spark.driver.memory": "512m",  # with 300 MB it does not start
        "spark.driver.extraJavaOptions": " ".join(java),
        "spark.local.dir": str(folder),
        "spark.log.level": "ERROR",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.task.maxFailures": str(_ATTEMPTS),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if is_local(master):
        loopback = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        tries = {"spark.master": f"local[{cores_of(master)},{_ATTEMPTS}]"}
        return chosen | loopback | tries | _sockets(folder)
    del chosen["spark.local.dir"]  # executors would make it on their machines, where nobody sweeps
    return chosen | {f"spark.executorEnv.{name}": value for name, value in _TUNED.items()}


def _sockets(folder: Path) -> dict[str, str]:
    """Between Java and Python: 16 tasks take 0.16 s, and 0.45 s by TCP, which is left for long paths."""
    if len(os.fsencode(folder)) > _SOCKETS_FOLDER_CHARS_MAX:
        return {}
    name = "spark.python.unix.domain.socket"
    return {f"{name}.enabled": "true", f"{name}.dir": str(folder)}


class Session:
    """Not for two threads, but for `cancel`."""

    def __init__(self, master: str, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.master = master
        self._folder = folder
        self._more = dict(settings or {})
        self._context: SparkContext | None = None
        self._ended: Accumulator[int] | None = None
        self._java: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.stop()

    @property
    def runs(self) -> bool:
        return self._context is not None

    def context(self) -> "SparkContext":
        """Enough for jobs. The first call starts a JVM, which takes seconds."""
        if self._context is None:
            self._context = self._started()
        return self._context

    def spark(self) -> "SparkSession":
        """The same with SQL, which takes another second or two."""
        context = self.context()
        from pyspark.sql import SparkSession  # noqa: PLC0415 - a driver without work needs none of it

        session: SparkSession = SparkSession(context)
        return session

    @property
    def done(self) -> int:
        """Items that the present run has ended; from any thread."""
        return 0 if self._ended is None else self._ended.value

    def run(self, work: Callable[[_In], _Out], items: Sequence[_In]) -> list[_Out]:
        """A task for each item, in Python workers."""
        context = self.context()
        ended = self._ended = context.accumulator(0)

        def task(part: Iterable[_In]) -> Iterator[_Out]:
            for item in part:
                yield work(item)
                ended.add(1)

        # One action and no shuffle: whatever looks at the rows twice would do the work twice.
        return context.parallelize(items, len(items)).mapPartitions(task).collect()

    def cancel(self) -> None:
        """End what runs; from any thread."""
        context = self._context
        if context is not None:
            with contextlib.suppress(Exception):  # a JVM that is gone cancels nothing, and needs no telling
                context.cancelAllJobs()

    def kill(self) -> None:
        """End the JVM at once; from any thread, and only before the end of the process."""
        java = self._java
        if java is not None:
            java.kill()

    def stop(self) -> None:
        """No JVM is left, whatever state it was in."""
        context, self._context = self._context, None
        java, self._java = self._java, None
        if java is None:
            return
        if context is not None:
            with contextlib.suppress(Exception):  # it may be broken: what follows needs nothing of it
                context.stop()
        _forget_gateway()
        if java.stdin is not None:
            with contextlib.suppress(OSError):
                java.stdin.close()  # what the JVM ends at
        try:
            java.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            java.kill()
            java.wait()

    def _started(self) -> "SparkContext":
        os.environ.update(self._environment())
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - see above

        conf = SparkConf(loadDefaults=False)
        for name, value in (settings_of(self.master, self._folder) | self._more).items():
            conf.set(name, value)
        try:
            return SparkContext(conf=conf)
        finally:
            gateway: Any = SparkContext._gateway  # noqa: SLF001 - Spark has no other way to its process
            self._java = getattr(gateway, "proc", None)

    def _environment(self) -> dict[str, str]:
        chosen = {name: os.environ.get(name, value) for name, value in _TUNED.items()}
        chosen["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or sys.executable
        chosen["PYSPARK_DRIVER_PYTHON"] = sys.executable
        home = java_home(self._folder)
        if home is not None:
            chosen["JAVA_HOME"] = str(home)
        if is_local(self.master):
            chosen["SPARK_LOCAL_IP"] = "127.0.0.1"
        else:
            chosen["SPARK_LOCAL_DIRS"] = str(self._folder)
        return chosen


def _forget_gateway() -> None:
    """Spark keeps its JVM for the next session of the process; ours is to end."""
    from pyspark import SparkContext  # noqa: PLC0415 - see above

    gateway: Any = SparkContext._gateway  # noqa: SLF001 - see above
    if gateway is not None:
        with contextlib.suppress(Exception):  # of a JVM that is gone
            gateway.shutdown()
    SparkContext._active_spark_context = None  # noqa: SLF001 - of a JVM that was killed it stays, and forbids another
    SparkContext._gateway = None  # noqa: SLF001 - see above
    SparkContext._jvm = None  # noqa: SLF001 - see above
