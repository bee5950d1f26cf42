import sys
from pathlib import Path

import pytest

from ops.check import Counts, Report, Result, Step, conformance_counts, pytest_counts, run, total_line
from ops.node_runtime import supported
from tests.conformance.run import SUITE_TEST_COUNT, count, parse


def suite_row(group: str, status: str) -> dict[str, object]:
    return {"ancestorTitles": ["target", group], "title": "should hold", "status": status}


def test_a_failed_or_skipped_test_of_the_suite_is_counted_as_such() -> None:
    rows = [suite_row("SSE Mode", status) for status in ("passed", "failed", "skipped", "pending")]
    counts = count(parse({"testResults": [{"assertionResults": rows}]}))
    assert (counts.passed, counts.failed, counts.skipped) == (1, 1, 2)


def test_the_whole_suite_is_332_tests_and_6_that_are_opt_in() -> None:
    assert SUITE_TEST_COUNT == 332 + 6


@pytest.mark.parametrize(
    ("version", "usable"),
    [
        ("v18.20.4", False),
        ("v20.18.9", False),
        ("v20.19.0", True),
        ("v21.7.3", False),
        ("v22.11.0", False),
        ("v22.12.0", True),
        ("v24.0.0", True),
    ],
)
def test_a_node_runtime_is_judged_by_its_version(version: str, *, usable: bool) -> None:
    assert supported(version + "\n") is usable


def test_the_counts_of_pytest_and_conformance_add_up_in_the_last_line() -> None:
    junit = b'<testsuites><testsuite tests="9" failures="1" errors="1" skipped="2"/></testsuites>'
    suite = b'{"passed": 250, "failed": 0, "skipped": 0}'
    results = [Result("x", 0, 1.0, counts) for counts in (pytest_counts(junit), conformance_counts(suite))]
    assert total_line(results) == "255 passed, 2 failed, 2 skipped"


def test_a_step_that_ends_badly_without_a_report_counts_as_one_failure(tmp_path: Path) -> None:
    stale = tmp_path / "counts.json"
    stale.write_bytes(b'{"passed": 250, "failed": 0, "skipped": 0}')
    step = Step("x", (sys.executable, "-c", "raise SystemExit(3)"), Report(stale, conformance_counts))
    result = run(step)
    assert (result.status, result.counts) == (3, Counts(failed=1))


@pytest.mark.parametrize(("again", "counts"), [(0, Counts(9, 0, 0, ("a.test_b::test_c",))), (1, Counts(8, 1))])
def test_what_failed_beside_others_is_run_once_more_and_named(tmp_path: Path, again: int, counts: Counts) -> None:
    report = tmp_path / "step.xml"
    junit = (
        '<testsuites><testsuite tests="9" failures="1" errors="0" skipped="0">'
        '<testcase classname="a.test_b" name="test_c"><failure/></testcase></testsuite></testsuites>'
    )
    first = f"import pathlib, sys; pathlib.Path({str(report)!r}).write_text({junit!r}); sys.exit(1)"
    alone = (sys.executable, "-c", f"raise SystemExit({again})")
    result = run(Step("x", (sys.executable, "-c", first), Report(report, pytest_counts), alone))
    assert (result.status, result.counts) == (again, counts)
    assert ("a.test_b::test_c" in total_line([result])) is (again == 0)
