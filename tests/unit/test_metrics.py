"""Metrics: exact numbers, cheap to count, capped labels, and a scrape that one failing part cannot blind."""

import math
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from streams_node import __version__
from streams_node.observe.metrics import (
    BYTES_BOUNDS,
    CONTENT_TYPE,
    LABEL_VALUES_MAX,
    READ_MODES,
    ROWS_BOUNDS,
    SECONDS_BOUNDS,
    FastHistogram,
    MetricMismatchError,
    Metrics,
)

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(clock=lambda: 0.0)


def scraped(metrics: Metrics) -> Samples:
    families = text_string_to_metric_families(metrics.render().decode())
    return {(each.name, frozenset(each.labels.items())): each.value for family in families for each in family.samples}


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


# --- counters -------------------------------------------------------------------------------------------------------


def test_counted_numbers_are_scraped_exactly(metrics: Metrics) -> None:
    metrics.appends += 3
    metrics.append_bytes += 2**53 - 1
    metrics.appended_entries += 5
    metrics.read_bytes += 7
    metrics.count_read("sse")
    metrics.count_response("public", 200)
    metrics.count_response("public", 200)
    metrics.count_response("operator", 404)
    metrics.count_refusal("stream_closed")
    samples = scraped(metrics)
    assert value(samples, "streams_appends_total") == 3
    assert value(samples, "streams_append_bytes_total") == 2**53 - 1
    assert value(samples, "streams_appended_entries_total") == 5
    assert value(samples, "streams_read_bytes_total") == 7
    assert value(samples, "streams_reads_total", mode="sse") == 1
    assert value(samples, "streams_responses_total", **{"class": "public", "status": "200"}) == 2
    assert value(samples, "streams_responses_total", **{"class": "operator", "status": "404"}) == 1
    assert value(samples, "streams_refusals_total", code="stream_closed") == 1


def test_every_read_mode_is_shown_from_the_start_so_that_rates_begin_at_zero(metrics: Metrics) -> None:
    samples = scraped(metrics)
    assert [value(samples, "streams_reads_total", mode=mode) for mode in READ_MODES] == [0, 0, 0, 0]


def test_label_values_without_end_are_folded_into_one(metrics: Metrics) -> None:
    for number in range(LABEL_VALUES_MAX + 50):
        metrics.count_refusal(f"code-{number}")
        metrics.count_response("public", number)
    samples = scraped(metrics)
    assert value(samples, "streams_refusals_total", code="other") == 50
    assert value(samples, "streams_responses_total", **{"class": "other", "status": "0"}) == 50
    assert len([name for name, _ in samples if name == "streams_refusals_total"]) == LABEL_VALUES_MAX + 1


# --- histograms -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [SECONDS_BOUNDS, ROWS_BOUNDS, BYTES_BOUNDS])
def test_bounds_rise(bounds: tuple[float, ...]) -> None:
    assert list(bounds) == sorted(set(bounds))


def test_value_on_a_bound_belongs_to_its_bucket() -> None:
    histogram = FastHistogram((1, 2))
    for observed in (1, 1.5, 2, 3):
        histogram.observe(observed)
    assert histogram.cumulative() == [("1.0", 1), ("2.0", 3), ("+Inf", 4)]
    assert (histogram.count, histogram.total) == (4, 7.5)


@given(st.lists(st.floats(min_value=0, max_value=100)))
def test_histogram_agrees_with_a_count_by_hand(observed: list[float]) -> None:
    histogram = FastHistogram(SECONDS_BOUNDS)
    for each in observed:
        histogram.observe(each)
    in_order = sorted(observed)
    by_hand = [bisect_left(in_order, math.nextafter(bound, math.inf)) for bound in SECONDS_BOUNDS]
    assert [count for _, count in histogram.cumulative()] == [*by_hand, len(observed)]
    assert histogram.total == pytest.approx(sum(observed))


def test_all_histograms_are_scraped_with_sum_and_count(metrics: Metrics) -> None:
    metrics.append_wait_seconds.observe(0.003)
    metrics.commit_seconds.observe(0.004)
    metrics.commit_rows.observe(12)
    metrics.commit_bytes.observe(4096)
    metrics.fsync_seconds.observe(0.005)
    metrics.loop_lag_seconds.observe(99)
    samples = scraped(metrics)
    for name in ("append_wait_seconds", "commit_seconds", "commit_rows", "commit_bytes", "fsync_seconds"):
        assert value(samples, f"streams_{name}_count") == 1
    assert value(samples, "streams_commit_bytes_sum") == 4096
    assert value(samples, "streams_append_wait_seconds_bucket", le="0.0025") == 0
    assert value(samples, "streams_append_wait_seconds_bucket", le="0.005") == 1
    assert value(samples, "streams_loop_lag_seconds_bucket", le="10.0") == 0
    assert value(samples, "streams_loop_lag_seconds_bucket", le="+Inf") == 1


# --- numbers that others own ----------------------------------------------------------------------------------------


def test_gauge_is_asked_at_each_scrape(metrics: Metrics) -> None:
    queue = [1]
    metrics.gauge("streams_queue_appends", lambda: len(queue), "Appends waiting.")
    assert value(scraped(metrics), "streams_queue_appends") == 1
    queue.append(2)
    assert value(scraped(metrics), "streams_queue_appends") == 2


def test_gauge_with_labels_is_one_family(metrics: Metrics) -> None:
    metrics.gauge("streams_live_waiters", lambda: 1, "Waiting readers.", {"mode": "sse"})
    metrics.gauge("streams_live_waiters", lambda: 2, "Waiting readers.", {"mode": "long_poll"})
    samples = scraped(metrics)
    assert value(samples, "streams_live_waiters", mode="sse") == 1
    assert value(samples, "streams_live_waiters", mode="long_poll") == 2
    assert metrics.render().count(b"# TYPE streams_live_waiters gauge") == 1


def test_counter_of_an_owner_is_shown_as_a_total(metrics: Metrics) -> None:
    metrics.counter("streams_state_cache_hits", lambda: 9, "States found in memory.")
    assert value(scraped(metrics), "streams_state_cache_hits_total") == 9


def test_owner_that_is_built_again_replaces_its_reading(metrics: Metrics) -> None:
    metrics.gauge("streams_connections", lambda: 1, "Open connections.")
    metrics.gauge("streams_connections", lambda: 2, "Open connections.")
    assert value(scraped(metrics), "streams_connections") == 2


def test_name_registered_with_another_kind_or_other_labels_is_refused(metrics: Metrics) -> None:
    metrics.gauge("streams_thing", lambda: 1, "A thing.")
    with pytest.raises(MetricMismatchError, match="streams_thing"):
        metrics.counter("streams_thing", lambda: 1, "A thing.")
    with pytest.raises(MetricMismatchError, match="streams_thing"):
        metrics.gauge("streams_thing", lambda: 1, "A thing.", {"mode": "sse"})


def test_owner_that_fails_is_left_out_and_counted_and_hides_nobody_else(metrics: Metrics) -> None:
    metrics.gauge("streams_broken", lambda: 1 / 0, "Broken.")
    metrics.gauge("streams_sound", lambda: 4, "Sound.")
    samples = scraped(metrics)
    assert "streams_broken" not in {name for name, _ in samples}
    assert value(samples, "streams_sound") == 4
    assert value(samples, "streams_metric_read_failures_total") == 1


# --- the process ----------------------------------------------------------------------------------------------------


def test_uptime_follows_the_clock_from_the_start() -> None:
    now = [100.0]
    metrics = Metrics(clock=lambda: now[0])
    now[0] = 160.0
    assert value(scraped(metrics), "streams_uptime_seconds") == 60


def test_build_and_process_are_described(metrics: Metrics) -> None:
    samples = scraped(metrics)
    (build,) = [dict(labels) for name, labels in samples if name == "streams_build_info"]
    assert build["version"] == __version__
    assert build.keys() == {"version", "python", "sqlite"}
    assert value(samples, "process_resident_memory_bytes") > 1_000_000
    assert value(samples, "process_open_fds") > 0


def test_two_nodes_in_one_process_count_apart() -> None:
    one, two = Metrics(), Metrics()
    one.appends += 1
    assert value(scraped(two), "streams_appends_total") == 0


def test_answer_is_prometheus_text() -> None:
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")


def test_table_of_the_manual_lists_every_number_of_ours_with_its_help(metrics: Metrics) -> None:
    metrics.gauge("streams_live_waiters", lambda: 1, "Waiting readers.", {"mode": "sse"})
    rows = {row.name: row for row in metrics.table()}
    families = text_string_to_metric_families(metrics.render().decode())
    shown = {f"{each.name}_total" if each.type == "counter" else each.name for each in families}
    assert {name for name in shown if name.startswith("streams_")} == rows.keys()
    assert all(row.help_text.endswith(".") for row in rows.values())
    assert rows["streams_live_waiters"].labels == ("mode",)
    assert not {"stream", "bucket", "path", "key"} & {label for row in rows.values() for label in row.labels}
