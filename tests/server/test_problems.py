"""What is wrong with a node, in sentences: each cause alone, and all of them together."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_node.config import Settings
from streams_node.details.problems import CODES, Facts, problems

SETTINGS = Settings(data=Path("unused"), no_auth=True)
CAUSES: Mapping[str, Mapping[str, Any]] = {
    "disk_floor": {"refusals": {"disk_low": "no room"}},
    "backlog_full": {"refusals": {"backlog": "too much"}},
    "backlog_old": {"refusals": {"upload_lag": "too old"}},
    "fenced": {"refusals": {"fenced": "another node"}},
    "writes_refused": {"refusals": {"commit_failed": "a commit failed"}},
    "writer_slow": {"writer_waits_s": 3.5},
    "disk_low": {"disk_free_bytes": SETTINGS.disk_floor_bytes + 1},
    "backlog_growing": {"lag_s": 181.0, "backlog_bytes": 7},
    "store_away": {"store_problem": "no route to host", "store_away": True},
    "store_failing": {"store_problem": "no space left"},
    "sealing_failing": {"sealing_problem": "no space left"},
    "compaction_failing": {"compaction_problem": "an object is damaged"},
    "collection_failing": {"collection_problem": "the store refuses"},
    "streams_stuck": {"stuck_streams": 2},
    "objects_damaged": {"damaged": {"in the object store": 1, "among indexes": 0}},
    "index_driver_failed": {"index_problem": "it ended with status 1", "index_due_s": 1e6},
    "index_driver_missing": {"index_due_s": 1801.0, "index_streams": 3},
    "index_objects_failed": {"index_failed": 1},
    "clock_jumped": {"clock_jump_us": -3_600_000_000},
    "memory_tight": {"memory_state": "tight", "rss_bytes": 85, "memory_limit_bytes": 100},
    "memory_critical": {"memory_state": "critical", "rss_bytes": 95, "memory_limit_bytes": 100},
}


def facts(**found: Any) -> Facts:
    return Facts(**({"refusals": {}} | found))


def test_there_is_a_cause_for_every_code() -> None:
    assert set(CAUSES) == set(CODES)
    assert problems(facts(disk_free_bytes=1 << 40), SETTINGS) == []


@pytest.mark.parametrize("code", CODES)
def test_each_cause_is_told_once_in_a_sentence_with_what_to_do(code: str) -> None:
    (problem,) = problems(facts(**CAUSES[code]), SETTINGS)
    assert problem.code == code
    for text in (problem.message, problem.hint):
        assert re.fullmatch(r"[A-Z0-9`].*\.", text)
        assert ".." not in text


@pytest.mark.parametrize(
    "calm",
    [
        {"lag_s": 179.0, "backlog_bytes": 1},
        {"index_due_s": 1799.0},
        {"index_due_s": 1801.0, "index_claims": 1},
        {"index_due_s": 1801.0, "index_driver": "running"},
        {"damaged": {"in the object store": 0}},
        {"writer_waits_s": 2.9},
    ],
)
def test_what_is_usual_is_no_problem(calm: Mapping[str, Any]) -> None:
    assert problems(facts(**calm), SETTINGS) == []


@given(st.lists(st.sampled_from(CODES), unique=True))
def test_the_worst_comes_first_and_each_code_once(chosen: list[str]) -> None:
    """What one cause explains is not told twice: a full backlog is no growing one."""
    found: dict[str, Any] = {"refusals": {}}
    for code in chosen:
        for name, value in CAUSES[code].items():
            found[name] = {**found["refusals"], **value} if name == "refusals" else value
    told = problems(Facts(**found), SETTINGS)
    names = [each.code for each in told]
    assert len(set(names)) == len(names)
    severities = [each.severity for each in told]
    assert severities == sorted(severities, key=["error", "warning"].index)
    explained = {
        "disk_low": {"disk_floor"},
        "backlog_growing": {"backlog_full", "backlog_old"},
        "store_away": {"fenced", "store_failing"},
        "store_failing": {"fenced", "store_away"},
        "index_driver_missing": {"index_driver_failed"},
        "memory_tight": {"memory_critical"},
        "memory_critical": {"memory_tight"},
    }
    for code in chosen:
        assert code in names or explained[code] & set(chosen)
