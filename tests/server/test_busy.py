"""The busiest streams are those of a count of all events, as far as bounded counters can say."""

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_node.observe.busy import SLOT_S, WINDOW_S, Busiest

KEPT = 3
STEPS = st.lists(
    st.tuples(st.sampled_from((0.0, 0.5, 3.0, 9.9, 10.0, 25.0, 80.0)), st.lists(st.integers(0, 12), max_size=30)),
    max_size=25,
)


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@given(STEPS, st.sampled_from((KEPT, 1000)))
def test_rates_are_those_of_the_last_minute(steps: list[tuple[float, list[int]]], kept: int) -> None:
    clock = Clock()
    busiest = Busiest(clock, kept)
    events: list[tuple[float, int]] = []
    for passed_s, streams in steps:
        clock.now_s += passed_s
        busiest.add_all(streams)
        events += [(clock.now_s, stream) for stream in streams]
        assert all(len(counts) <= 2 * kept for _, counts in busiest._slots)
        assert len(busiest._slots) <= (WINDOW_S / SLOT_S) + 2
        rates = dict(busiest.top(1000))
        uptime_s = max(1.0, clock.now_s - 1000)
        certain = Counter(stream for at, stream in events if at > clock.now_s - WINDOW_S)
        possible = Counter(stream for at, stream in events if at > clock.now_s - WINDOW_S - SLOT_S)
        lost = possible.total() / (kept + 1)
        for stream in possible:
            rate = rates.get(stream, 0.0)
            assert rate <= possible[stream] / min(WINDOW_S, uptime_s) + 1e-9
            assert rate >= (certain[stream] - lost) / min(WINDOW_S + SLOT_S, uptime_s) - 1e-9
        assert set(rates) <= set(possible)


def test_a_steady_rate_is_told_exactly_and_a_burst_is_spread_over_the_minute() -> None:
    clock = Clock()
    busiest = Busiest(clock)
    for _ in range(3000):
        clock.now_s += 0.1
        busiest.add(7)
    assert busiest.top(1)[0].per_second == pytest.approx(10, rel=0.03)
    clock.now_s += 200
    assert busiest.top(1) == []
    busiest.add_all([8] * 60)
    assert busiest.top(1) == [(8, 1.0)]


def test_a_busy_stream_is_found_among_any_number_of_others() -> None:
    busiest = Busiest(time.monotonic)
    for first in range(0, 200_000, 100):
        busiest.add_all([*range(first, first + 100), -1, -1, -1])
    assert busiest.top(1)[0].stream == -1
