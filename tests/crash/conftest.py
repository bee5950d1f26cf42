"""The seed of a run: printed with every failure, and taken from CRASH_SEED when a run has to be made again."""

import os
import secrets

import pytest
from _pytest.terminal import TerminalReporter

_SEED = os.environ.get("CRASH_SEED") or secrets.token_hex(4)


@pytest.fixture(name="crash_seed")
def _crash_seed() -> str:
    print(f"CRASH_SEED={_SEED}")  # noqa: T201 - pytest shows it where a test fails
    return _SEED


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Say how often the nodes of this run died at each named point."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    hits = {
        value for report in reports for name, value in getattr(report, "user_properties", ()) if name == "crash_point"
    }
    if hits:
        terminalreporter.write_line(f"died at: {', '.join(sorted(hits))}")
