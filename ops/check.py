"""Everything that CI runs, fast first: `make test`.

Owns     the list of steps and their order; the reports in .reports/.
Hands on each step's own output, then a table with results and times, then one line that adds up the tests:
         `N passed, N failed`. A step that fails without naming a failed test counts as one.
Keeps    a failed step does not hide the next ones; the exit status is 1 when any step failed. A few tests of the step
         `integration` that failed beside hundreds of others are run once more, alone: what passes then is named in the
         last line, as unsteady, and is a fault to mend; what fails again has failed.
Dies     at any step: the next run removes a step's report before it starts the step.

    python -m ops.check --only ruff --only unit
"""

import argparse
import json
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / ".reports"
TOOLS = Path(sys.executable).parent
# Folders of tests/ with a step of their own, or with none (`bench` is numbers, off by default).
NOT_INTEGRATION = ("tidy", "unit", "conformance", "bench")
UNSTEADY_MAX = 3  # more than these are no accident
WORKERS = ("--numprocesses=2", "--dist=loadgroup")  # what CI has; a JVM at a time: the groups are theirs


@dataclass(frozen=True)
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    unsteady: tuple[str, ...] = ()  # among the passed: tests that did so at the second time only


@dataclass(frozen=True)
class Report:
    """A file that a step writes, and how to read its counts."""

    path: Path
    read: Callable[[bytes], Counts]

    def clear(self) -> None:
        self.path.parent.mkdir(exist_ok=True)
        self.path.unlink(missing_ok=True)

    def counts(self) -> Counts:
        return self.read(self.path.read_bytes()) if self.path.is_file() else Counts()


@dataclass(frozen=True)
class Step:
    name: str
    command: tuple[str, ...]
    report: Report | None = None
    alone: tuple[str, ...] | None = None  # runs what has failed once more


@dataclass(frozen=True)
class Result:
    name: str
    status: int
    seconds: float
    counts: Counts


def main() -> int:
    steps = all_steps()
    chosen = _chosen([step.name for step in steps])
    results = [run(step) for step in steps if step.name in chosen]
    print_table(results)
    print(total_line(results), flush=True)
    return max((min(abs(result.status), 1) for result in results), default=1)


def all_steps() -> list[Step]:
    integration = [str(folder.relative_to(ROOT)) for folder in integration_folders()]
    return [
        Step("format", (str(TOOLS / "ruff"), "format", "--check", ".")),
        Step("ruff", (str(TOOLS / "ruff"), "check", ".")),
        pytest_step("tidy", "tests/tidy"),
        Step("mypy", (str(TOOLS / "mypy"),)),
        pytest_step("unit", "tests/unit", *WORKERS),
        *([integration_step(*integration)] if integration else []),
        conformance_step(),
    ]


def integration_folders() -> list[Path]:
    """Every other room of tests/, so that a new one is run without being named here."""
    folders = sorted(path for path in (ROOT / "tests").iterdir() if path.name not in NOT_INTEGRATION)
    return [folder for folder in folders if any(folder.rglob("test_*.py"))]


def pytest_step(name: str, *arguments: str) -> Step:
    report = Report(REPORTS / f"{name}.xml", pytest_counts)
    return Step(name, (sys.executable, "-m", "pytest", *arguments, f"--junit-xml={report.path}"), report)


def integration_step(*folders: str) -> Step:
    step = pytest_step("integration", *folders, *WORKERS)
    alone = (sys.executable, "-m", "pytest", *folders, "--last-failed", "--last-failed-no-failures=none")
    return replace(step, alone=alone)


def conformance_step() -> Step:
    report = Report(REPORTS / "conformance.json", conformance_counts)
    command = (sys.executable, "-m", "tests.conformance.run", "--summary", str(report.path))
    return Step("conformance", command, report)


def run(step: Step) -> Result:
    print(f"\n=== {step.name}", flush=True)
    if step.report:
        step.report.clear()
    start = time.monotonic()
    status = subprocess.run(step.command, cwd=ROOT, check=False).returncode
    seconds = time.monotonic() - start
    counts = step.report.counts() if step.report else Counts()
    if step.alone and step.report and 0 < counts.failed <= UNSTEADY_MAX:
        unsteady = failed_tests(step.report.path.read_bytes())
        print(f"\n=== {step.name}: {counts.failed} failed; once more, alone", flush=True)
        status = subprocess.run(step.alone, cwd=ROOT, check=False).returncode
        if status == 0:
            counts = Counts(counts.passed + counts.failed, 0, counts.skipped, unsteady)
    print(f"=== {step.name}: {f'FAILED, exit status {status}' if status else 'ok'}, {seconds:.1f} s", flush=True)
    if status and not counts.failed:
        counts = Counts(counts.passed, 1, counts.skipped)
    return Result(step.name, status, seconds, counts)


def print_table(results: Sequence[Result]) -> None:
    print(f"\n{'step':<12} {'result':<6} {'seconds':>8} {'passed':>7} {'failed':>7} {'skipped':>8}")
    for result in results:
        verdict, counts = "FAILED" if result.status else "ok", result.counts
        numbers = f"{counts.passed:7} {counts.failed:7} {counts.skipped:8}"
        print(f"{result.name:<12} {verdict:<6} {result.seconds:8.1f} {numbers}")
    print(f"{'all':<19} {sum(result.seconds for result in results):8.1f}\n")


def total_line(results: Sequence[Result]) -> str:
    passed = sum(result.counts.passed for result in results)
    failed = sum(result.counts.failed for result in results)
    skipped = sum(result.counts.skipped for result in results)
    unsteady = [name for result in results for name in result.counts.unsteady]
    return (
        f"{passed} passed, {failed} failed"
        + (f", {skipped} skipped" if skipped else "")
        + (f"; unsteady, passed at the second time only: {', '.join(unsteady)}" if unsteady else "")
    )


def failed_tests(report: bytes) -> tuple[str, ...]:
    cases = ET.fromstring(report).iter("testcase")  # noqa: S314 - pytest wrote it just now
    failed = (case for case in cases if case.find("failure") is not None or case.find("error") is not None)
    return tuple(f"{case.get('classname')}::{case.get('name')}" for case in failed)


def pytest_counts(report: bytes) -> Counts:
    suites = [suite.attrib for suite in ET.fromstring(report).iter("testsuite")]  # noqa: S314 - pytest wrote it just now
    failed = sum(int(suite["failures"]) + int(suite["errors"]) for suite in suites)
    skipped = sum(int(suite["skipped"]) for suite in suites)
    return Counts(sum(int(suite["tests"]) for suite in suites) - failed - skipped, failed, skipped)


def conformance_counts(report: bytes) -> Counts:
    """Failures that the milestone allows are printed by the step itself; they are in no column here."""
    counts = json.loads(report)
    return Counts(counts["passed"], counts["failed"], counts["skipped"])


def _chosen(names: Sequence[str]) -> Sequence[str]:
    parser = argparse.ArgumentParser(prog="python -m ops.check", description="Everything that CI runs, fast first.")
    parser.add_argument("--only", action="append", choices=names, help="run this step only; may be repeated")
    chosen: list[str] | None = parser.parse_args().only
    return chosen or names


if __name__ == "__main__":
    sys.exit(main())
