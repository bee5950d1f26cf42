"""Runs the upstream conformance suite against a real node, and holds it to the whole of it.

Owns     the promise: every test passes, none of them is skipped, none is retried.
Pulls    the suite from node_modules, which is installed from package-lock.json when missing or out of date.
Hands on counts: a table on stdout, a JSON file for `--summary`, the exit status.
Dies     at any step: the node is a child and is stopped on the way out; half an installation is done again.

    python -m tests.conformance.run                              # starts a node of its own
    python -m tests.conformance.run --url http://127.0.0.1:4437  # uses a server that is running
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from ops.node_runtime import node_environment
from tests.conformance.node_process import running_node

HERE = Path(__file__).resolve().parent
# Every test of the pinned suite, subscriptions included. Fewer means that a filter, another suite or a crash of the
# runner hid some, and a promise about hidden tests is none.
SUITE_TEST_COUNT = 338
TEST_TIMEOUT_MS = 30_000  # two tests wait out a whole long-poll of the server
SUITE_TIMEOUT_S = 900  # a green run takes about half a minute, most of it TTL sleeps
FAILURE_CHARS_MAX = 1_500


@dataclass(frozen=True)
class Test:
    groups: tuple[str, ...]
    title: str
    status: str
    messages: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return self.status == "passed"


@dataclass(frozen=True)
class Counts:
    passed: int
    failed: int
    skipped: int


def main() -> int:
    options = _options()
    environment = node_environment()
    install_suite(environment)
    with _target(options.url) as url:
        tests = run_suite(url, environment)
    counts = count(tests)
    report(tests, counts)
    if options.summary is not None:
        options.summary.write_text(json.dumps(asdict(counts)))
    return 0 if len(tests) == SUITE_TEST_COUNT and counts.failed == counts.skipped == 0 else 1


def install_suite(environment: Mapping[str, str]) -> None:
    """`npm ci`, once for each state of the lock."""
    lock_hash = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    stamp = HERE / "node_modules" / ".installed-lock"
    if stamp.is_file() and stamp.read_text() == lock_hash:
        return
    subprocess.run(["npm", "ci", "--no-progress", "--loglevel=error"], cwd=HERE, env=environment, check=True)
    stamp.write_text(lock_hash)


def run_suite(url: str, environment: Mapping[str, str]) -> list[Test]:
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        results = Path(folder) / "results.json"
        run = subprocess.run(
            [
                *("node", "node_modules/vitest/vitest.mjs", "run", "conf.test.mjs", "--root", ".", "--retry=0"),
                *(f"--testTimeout={TEST_TIMEOUT_MS}", "--reporter=json", f"--outputFile={results}"),
            ],
            cwd=HERE,
            env={**environment, "CONFORMANCE_TEST_URL": url, "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SUITE_TIMEOUT_S,
            check=False,  # the report below says more
        )
        if not results.is_file():
            raise SystemExit(f"the suite did not run, exit status {run.returncode}:\n{run.stdout}\n{run.stderr}")
        return parse(json.loads(results.read_bytes()))


def parse(results: Mapping[str, Any]) -> list[Test]:
    """The runner's JSON as tests. A file that could not be loaded has no tests, which `SUITE_TEST_COUNT` notices."""
    rows = [row for file in results["testResults"] for row in file["assertionResults"]]
    return [
        Test(
            groups=tuple(row["ancestorTitles"][1:]),  # the first one is the `describe` of conf.test.mjs
            title=row["title"],
            status=row["status"],
            messages=tuple(row.get("failureMessages") or ()),
        )
        for row in rows
    ]


def count(tests: Sequence[Test]) -> Counts:
    """A test that neither passed nor failed counts as skipped."""
    passed = sum(test.passed for test in tests)
    failed = sum(test.status == "failed" for test in tests)
    return Counts(passed, failed, len(tests) - passed - failed)


def report(tests: Sequence[Test], counts: Counts) -> None:
    for group, members in groupby(tests, key=lambda test: test.groups[0]):
        _report_group(group, list(members))
    for test in tests:
        if not test.passed:
            print(f"\n{test.status.upper()}: {' > '.join((*test.groups, test.title))}")
            print("\n".join(test.messages)[:FAILURE_CHARS_MAX])
    if len(tests) != SUITE_TEST_COUNT:
        print(f"\nthe suite reported {len(tests)} tests, {SUITE_TEST_COUNT} were expected")
    print(
        f"\nconformance: {counts.passed} of {SUITE_TEST_COUNT} passed; {counts.failed} failed, {counts.skipped} skipped"
    )


def _report_group(group: str, members: Sequence[Test]) -> None:
    passed = sum(test.passed for test in members)
    print(f"{passed:4} passed {len(members) - passed:4} failed  {group}")


def _target(url: str | None) -> AbstractContextManager[str]:
    return running_node() if url is None else nullcontext(url.rstrip("/"))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.run", description="The upstream suite, whole.")
    parser.add_argument("--url", help="base URL of a server that is running; without it, a node is started")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="also write the counts to FILE, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
