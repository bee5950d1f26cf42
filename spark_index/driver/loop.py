"""The life of a driver: claim, work, commit, and again.

Keeps    a claim is renewed in a thread of its own while Spark works, so a long job loses no lease; when the lease is
         lost, the job is cancelled and nothing of it is committed. Waits after failures grow, with jitter. An object
         that ends its worker each time is found out, and holds up nothing else.
"""

import contextlib
import random
import re
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from indexers.messages import Claim, ClaimRequest, CommitRequest, RenewRequest
from spark_index.driver.client import LeaseLost, NodeAway, NodeClient, Refused
from spark_index.driver.logs import Log
from spark_index.driver.tasks import Outcome, Task, failed_of, halves, joined, tasks_of
from spark_index.java import NoJava
from spark_index.session import Session, cores_of, is_local
from streams_node.testing.crashpoints import crash_point

_CLAIM_WAIT_S = 20.0
_CLAIM_PAUSE_S = 1.0  # between two claims of a node that does not wait
_BACKOFF_S = 0.5
_BACKOFF_S_MAX = 30.0
_BYTES_MAX = 256 << 20
_BYTES_MAX_PER_CORE = 64 << 20
_LOOK_S = 0.5
# As Spark says it; a task says of memory itself. Java's own `OutOfMemoryError` is none: such a JVM is replaced.
_ENDED_WORKER = re.compile(r"Python worker exited unexpectedly|\bMemoryError\b")
_LEASE_SHARE = 3  # a renewal may fail twice before a lease ends


class Options(NamedTuple):
    name: str
    idle_stop_s: float = 120.0
    once: bool = False
    backoff_s: float = _BACKOFF_S


class _Stopping(BaseException):
    """Out of a wait for the node, which would take as long as it takes."""


class Driver:
    """`run` in the main thread; `stop` from anywhere, `interrupt` by a signal."""

    def __init__(self, node: NodeClient, session: Session, options: Options, log: Log) -> None:
        self._node = node
        self._session = session
        self._options = options
        self._log = log
        self._stopped = threading.Event()
        self._failures = 0
        self._asking = False

    def stop(self) -> None:
        """End soon: what is under way is given back."""
        self._stopped.set()

    def interrupt(self) -> None:
        """The same, of a signal's handler, which runs in the main thread."""
        self.stop()
        if self._asking:
            raise _Stopping

    def run(self) -> None:
        """Until it is stopped; with `once`, until there is nothing to do."""
        idle_since = time.monotonic()
        while not self._stopped.is_set():
            try:
                claim = self._claim(idle_since)
            except NodeAway as problem:
                self._log("node_away", "warning", problem=str(problem))
                self._back_off()
                self._rest(idle_since)
                continue
            except _Stopping:
                break
            if claim is None:
                if self._options.once:
                    break
                self._rest(idle_since)
                continue
            self._work(claim)
            idle_since = time.monotonic()
        self._session.stop()

    # --- one claim ---

    def _claim(self, idle_since: float) -> Claim | None:
        wait_s = 0.0 if self._options.once else _CLAIM_WAIT_S
        if self._session.runs:
            wait_s = min(wait_s, max(0.0, idle_since + self._options.idle_stop_s - time.monotonic()))
        asked = time.monotonic()
        request = ClaimRequest(driver=self._options.name, wait_ms=round(wait_s * 1000), bytes_max=self._bytes_max())
        self._asking = True
        try:
            claim = self._node.claim(request)
        finally:
            self._asking = False
        if claim is None and not self._options.once:
            self._stopped.wait(max(0.0, min(wait_s, _CLAIM_PAUSE_S) - (time.monotonic() - asked)))
        return claim

    def _bytes_max(self) -> int:
        cores = cores_of(self._session.master)
        return _BYTES_MAX if cores is None else min(_BYTES_MAX, cores * _BYTES_MAX_PER_CORE)

    def _work(self, claim: Claim) -> None:
        crash_point("driver.claimed")
        began, lease = time.monotonic(), _Lease(claim, self._node, self._session, self._stopped)
        with lease.kept():
            try:
                outcome = self._done(claim, lease)
            except (NoJava, Refused):
                self._give_back(claim, lease)
                raise
            except Exception as problem:  # noqa: BLE001 - Spark's failures have no common kind; the claim is given back
                self._gave_up(claim, lease, problem)
                return
            crash_point("driver.done")
            took = round(time.monotonic() - began, 3)
            if self._commit(claim, lease, outcome):
                crash_point("driver.committed")
                self._failures = 0
                failed = [msgspec.to_builtins(each) for each in outcome.failed]
                self._log("committed", claim=claim.claim, seconds=took, objects=len(outcome.objects), failed=failed)

    def _done(self, claim: Claim, lease: "_Lease") -> Outcome:
        if claim.store.kind == "folder" and not is_local(self._session.master):
            raise Refused(
                f"master {self._session.master} has executors on other machines, and the node's store is a folder of "
                "its own machine: run the driver there with --master local[*], or give the node an S3 store"
            )
        workers = cores_of(self._session.master) or self._session.context().defaultParallelism
        tasks = tasks_of(claim, workers)
        self._log("working", claim=claim.claim, work=len(claim.work), tasks=len(tasks))
        return self._ran(tasks, lease)

    def _ran(self, tasks: list[Task], lease: "_Lease") -> Outcome:
        """What came of tasks. If they end their workers, they are cut until it is known which object does that."""
        from spark_index.driver.job import run_task  # noqa: PLC0415 - 40 MB of builders, not needed without work

        try:
            found = self._session.run(run_task, [msgspec.json.encode(task) for task in tasks])
        except Exception as problem:
            if not _ended_worker(problem) or lease.lost.is_set() or self._stopped.is_set():
                raise
            parts = halves(tasks)
            if not parts:
                return failed_of(tasks, _shown(problem))
            self._log("cut", "warning", tasks=len(tasks), work=sum(len(each.work) for each in tasks))
            return joined([self._ran(part, lease) for part in parts])
        return joined([msgspec.json.decode(each, type=Outcome) for each in found])

    def _gave_up(self, claim: Claim, lease: "_Lease", problem: Exception) -> None:
        if lease.lost.is_set():
            self._log("abandoned", "warning", claim=claim.claim, reason=lease.reason)
            return
        if self._stopped.is_set():
            self._log("stopping", claim=claim.claim)
            self._give_back(claim, lease)
            return
        self._log("failed", "error", claim=claim.claim, problem=_shown(problem))
        self._session.stop()  # it may be broken: the next one is new
        self._give_back(claim, lease)
        self._back_off()

    def _give_back(self, claim: Claim, lease: "_Lease") -> None:
        """A commit of nothing: what it does not cover is claimable at once."""
        with contextlib.suppress(NodeAway, Refused):
            self._try_commit(claim, lease, Outcome(objects=[], merged=[], failed=[]))

    def _commit(self, claim: Claim, lease: "_Lease", outcome: Outcome) -> bool:
        while not lease.lost.is_set():
            try:
                return self._try_commit(claim, lease, outcome)
            except NodeAway as problem:  # it may have arrived: the same commit again finds out
                self._log("node_away", "warning", claim=claim.claim, problem=str(problem))
                if self._stopped.is_set():
                    break
                self._back_off()
            except Refused as problem:
                self._log("refused", "error", claim=claim.claim, problem=str(problem))
                self._give_back(claim, lease)
                self._back_off()
                return False
        self._log("abandoned", "warning", claim=claim.claim, reason=lease.reason)
        return False

    def _try_commit(self, claim: Claim, lease: "_Lease", outcome: Outcome) -> bool:
        request = CommitRequest(
            claim=claim.claim,
            fence=claim.fence,
            objects=outcome.objects,
            merged=outcome.merged,
            failed=outcome.failed,
        )
        try:
            self._node.commit(request)
        except LeaseLost as problem:
            lease.lose(str(problem))
            self._log("abandoned", "warning", claim=claim.claim, reason=lease.reason)
            return False
        return True

    # --- waits ---

    def _back_off(self) -> None:
        self._failures += 1
        longest = min(_BACKOFF_S_MAX, self._options.backoff_s * 2 ** min(self._failures - 1, 10))
        self._stopped.wait(longest * random.uniform(0.5, 1.0))  # noqa: S311 - so that two drivers drift apart

    def _rest(self, idle_since: float) -> None:
        if self._session.runs and time.monotonic() - idle_since >= self._options.idle_stop_s:
            self._log("idle", stops="session")
            self._session.stop()


class _Lease:
    """Of one claim: renewed until it is lost, or not needed any more."""

    def __init__(self, claim: Claim, node: NodeClient, session: Session, stopped: threading.Event) -> None:
        self._claim = claim
        self._node = node
        self._session = session
        self._stopped = stopped
        self._ended = threading.Event()
        self.lost = threading.Event()
        self.reason = ""

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        thread = threading.Thread(target=self._keep, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()

    def lose(self, reason: str) -> None:
        """Nothing may be committed any more, and nothing needs to be finished."""
        if not self.lost.is_set():
            self.reason = reason
            self.lost.set()

    def _keep(self) -> None:
        lease_s = self._claim.lease_ms / 1000
        renewed = time.monotonic()
        while not self._wait(lease_s / _LEASE_SHARE):
            asked = time.monotonic()
            try:
                done = self._session.done
                self._node.renew(RenewRequest(claim=self._claim.claim, fence=self._claim.fence, done=done))
                renewed = asked
            except (LeaseLost, Refused) as problem:
                self.lose(str(problem))
            except NodeAway as problem:
                if time.monotonic() - renewed >= lease_s:
                    self.lose(f"not renewed in time: {problem}")
            if self.lost.is_set():
                break
        while not self._ended.wait(_LOOK_S):  # stopped: also a session that is still starting
            self._session.cancel()

    def _wait(self, seconds: float) -> bool:
        """Whether there is nothing more to renew."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            if self._ended.wait(min(left, _LOOK_S)) or self._stopped.is_set():
                return True
        return False


def _ended_worker(problem: Exception) -> bool:
    """Whether a task ended its Python worker each time, and nobody there could say why. Java still runs."""
    return _ENDED_WORKER.search(str(problem)) is not None


def _shown(problem: Exception) -> str:
    """What a person needs of a failure: Spark's have a hundred lines of Java below the one that says it."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip() and not line.strip().startswith("at ")]
    return " | ".join(lines[:12])[:2000] or type(problem).__name__
