import json
from collections.abc import Callable

import jsonschema_rs
import pytest

from streams_node.metering.series import SOURCES, Reading, readings, records
from streams_node.observe.metrics import Metrics
from streams_node.profiles import Profile, registries
from tests.profiles.entries import ready

START_MS = 1_700_000_000_000
INSTANCE = "77-0a1b2c"


@pytest.fixture
def metrics() -> Metrics:
    found = Metrics()
    found.gauge("streams_queue_bytes", lambda: 7, "bytes")
    for mode in ("sse", "long_poll"):
        found.gauge("streams_live_waiters", lambda: 2, "readers", labels={"mode": mode})
    return found


def told(metrics: Metrics, work: Callable[[], None] = lambda: None) -> dict[str, list[dict[str, object]]]:
    """The records of ten seconds in which `work` was done, by their metric."""
    before = readings(metrics.collect())
    work()
    found = records(
        before, readings(metrics.collect()), start_ms=START_MS, end_ms=START_MS + 10_003, interval_ms=10_003,
        instance=INSTANCE,
    )  # fmt: skip
    return {
        metric: [each for each in found if each["metric"] == metric] for metric in (each["metric"] for each in found)
    }


def test_a_quiet_interval_has_levels_only(metrics: Metrics) -> None:
    found = told(metrics)
    assert set(found) == {"tieredstore.ingest.queue.bytes", "node.live.waiters"}
    assert [each["tags"] for each in found["node.live.waiters"]] == [{"mode": "sse"}, {"mode": "long_poll"}]
    (level,) = found["tieredstore.ingest.queue.bytes"]
    assert level == {
        "apiVersion": "durable.streams/metrics/v1", "kind": "interval", "metric": "tieredstore.ingest.queue.bytes",
        "unit": "bytes", "metricKind": "gauge", "temporality": "delta", "windowStart": START_MS,
        "windowEnd": START_MS + 10_003, "intervalMs": 10_003, "instance": INSTANCE, "stream": None, "tags": {},
        "attributes": {}, "dimensionPairs": [], "dimensionKey": None,
        "seriesKey": f"gauge|delta|tieredstore.ingest.queue.bytes|bytes||{INSTANCE}|", "count": 1, "sum": 7, "min": 7,
        "max": 7, "avg": 7, "p50": 7, "p95": 7, "p99": 7, "buckets": {},
        "summary": {"count": 1, "sum": 7, "min": 7, "max": 7, "histogram": {}},
    }  # fmt: skip


def test_what_was_appended_is_told_with_how_often(metrics: Metrics) -> None:
    metrics.appends, metrics.append_bytes, metrics.appended_entries = 100, 10**6, 500

    def work() -> None:
        metrics.appends += 4
        metrics.append_bytes += 1000
        metrics.appended_entries += 40
        metrics.count_response("public", 204)

    found = told(metrics, work)
    (size,), (entries,) = found["tieredstore.append.bytes"], found["tieredstore.append.entries"]
    assert (size["count"], size["sum"], size["avg"]) == (4, 1000, 250)
    assert (entries["count"], entries["sum"]) == (4, 40)
    (response,) = found["node.responses"]
    assert (response["sum"], response["tags"]) == (1, {"class": "public", "status": "204"})


def test_times_are_told_as_a_distribution_in_nanoseconds(metrics: Metrics) -> None:
    metrics.commit_seconds.observe(0.3)

    def work() -> None:
        for seconds in (0.0007, 0.0008, 0.003, 99.0):
            metrics.commit_seconds.observe(seconds)

    (times,) = told(metrics, work)["tieredstore.ingest.flush.latency"]
    assert (times["count"], times["sum"]) == (4, 99_004_500_000)
    assert (times["min"], times["max"]) == (500_000, 20 * 10**9)
    assert times["buckets"] == {str(1 << 19): 2, str(1 << 22): 1, str(1 << 34): 1}
    assert (times["p50"], times["p99"]) == (1 << 19, 1 << 34)


def test_records_are_what_the_profile_stores_and_its_schema_allows(metrics: Metrics) -> None:
    metrics.appends = 3
    metrics.append_wait_seconds.observe(0.01)
    before = {name: Reading(0.0) for name in readings(metrics.collect())}
    found = records(
        before, readings(metrics.collect()), start_ms=5, end_ms=3, interval_ms=1, instance=INSTANCE
    )  # fmt: skip
    texts = [json.dumps(each, separators=(",", ":")).encode() for each in found]
    assert ready(Profile("metrics", {}))(texts, 0)[0] == texts
    schema = jsonschema_rs.Draft7Validator(registries.metrics_schema())
    assert [error.message for each in found for error in schema.iter_errors(each)] == []
    assert {each["windowStart"] for each in found} == {3}


def test_every_source_has_a_name_of_its_own() -> None:
    assert len({source.metric for source in SOURCES}) == len(SOURCES)
