"""The conformance suite again and again, each time on a new node with an empty folder: `make soak`.

Owns     the number of runs, and that the first one that is not green ends them.
Hands on a line for each run; the whole output of the run that failed; the exit status.
Dies     at any step: a run stops the node that it started, and leaves no folder behind.

    python -m ops.soak             # twenty runs
    python -m ops.soak --runs 3
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNS = 20  # a fault that shows once in ten runs is found with a chance of 88 in 100
SUITE = (sys.executable, "-m", "tests.conformance.run")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.soak", description="The conformance suite, again and again.")
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N", help="how many times (%(default)s)")
    runs: int = parser.parse_args().runs
    if runs < 1:
        parser.error("--runs must be at least 1")
    return soak(runs, SUITE)


def soak(runs: int, suite: Sequence[str]) -> int:
    """0 when every run was green; otherwise the status of the first that was not."""
    for turn in range(1, runs + 1):
        began = time.monotonic()
        run = subprocess.run(
            suite, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False,
        )  # fmt: skip
        said = run.stdout.strip().splitlines() or ["the suite said nothing"]
        if run.returncode:
            print(run.stdout, flush=True)
        verdict = f"FAILED, exit status {run.returncode}" if run.returncode else "ok"
        print(f"run {turn} of {runs}: {verdict}, {time.monotonic() - began:.0f} s; {said[-1]}", flush=True)
        if run.returncode:
            return run.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
