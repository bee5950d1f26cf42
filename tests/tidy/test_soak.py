import sys
from pathlib import Path

import pytest

from ops.soak import soak

# Fails at its third run; the file holds one letter for each run before.
FLAKY = """
import pathlib, sys
runs = pathlib.Path(sys.argv[1])
runs.write_text(runs.read_text() + "x")
print("what failed is here" if len(runs.read_text()) == 3 else "338 of 338")
sys.exit(7 if len(runs.read_text()) == 3 else 0)
"""


@pytest.mark.parametrize(("runs", "done", "status"), [(2, 2, 0), (5, 3, 7)])
def test_the_first_run_that_fails_ends_the_soak_and_is_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], runs: int, done: int, status: int
) -> None:
    count = tmp_path / "runs"
    count.touch()
    assert soak(runs, (sys.executable, "-c", FLAKY, str(count))) == status
    assert count.read_text() == "x" * done
    said = capfd.readouterr().out
    assert said.count("\nrun ") + said.startswith("run ") == done
    assert ("what failed is here" in said) == (status != 0)
