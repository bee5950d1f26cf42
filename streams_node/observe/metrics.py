"""The numbers behind `/metrics`, made to cost next to nothing where they are counted.

Hot paths count with plain integers (`metrics.appends += 1`) and `FastHistogram`; the client library is asked only when
a scrape comes. State that somebody owns anyway (queue depth, cache size) is not copied here: its owner registers a
function, `metrics.gauge(name, read, help_text)`. One `Metrics` is built by the composition root and passed around.

Keeps  no stream name, path or key in a label: label values come from our own tables and are capped, so a client
       can not grow the node's memory or the operator's database.
       Each number has one writing thread; a scrape may see two numbers that are a moment apart.
"""

import platform
import sqlite3
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Literal, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector
from typing_extensions import override

from streams_node import __version__

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

ReadMode = Literal["catchup", "long_poll", "sse", "head"]
READ_MODES: tuple[ReadMode, ...] = ("catchup", "long_poll", "sse", "head")

# From a commit on a fast disk to the time limit of a request.
SECONDS_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# A late loop matters from a few milliseconds on.
LAG_BOUNDS = (0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0)
# From a small flush to a claim of an index driver.
STAGE_SECONDS_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
ROWS_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
BYTES_BOUNDS = (1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 25)

# Codes and route classes are a few dozen. More would be a mistake of ours, and must not become one of memory.
LABEL_VALUES_MAX = 256
_OTHER = "other"


class FastHistogram:
    """A histogram with fixed bounds whose `observe` is one bisection and two additions (0.13 µs measured)."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Iterable[float]) -> None:
        self._bounds = tuple(bounds)
        # One more for everything above the last bound.
        self._counts = [0] * (len(self._bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        # A bucket includes its bound, as Prometheus' `le` says; hence the left side.
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    @property
    def count(self) -> int:
        return sum(self._counts)

    @property
    def total(self) -> float:
        return self._total

    def cumulative(self) -> list[tuple[str, float]]:
        """(upper bound, observations up to it), as the exposition wants them."""
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        return list(zip(names, map(float, accumulate(self._counts)), strict=True))


class HistogramFamily:
    """Histograms of one name, told apart by one label. Its values are ours, and capped nevertheless."""

    def __init__(self, name: str, label: str, help_text: str, bounds: Iterable[float] = SECONDS_BOUNDS) -> None:
        self.name = name
        self.label = label
        self.help_text = help_text
        self._bounds = tuple(bounds)
        self._of: dict[str, FastHistogram] = {}

    def observe(self, value: str, seconds: float) -> None:
        found = self._of.get(value)
        if found is None:
            if len(self._of) >= LABEL_VALUES_MAX:
                value = _OTHER
            found = self._of.setdefault(value, FastHistogram(self._bounds))
        found.observe(seconds)

    def count(self, value: str) -> int:
        found = self._of.get(value)
        return 0 if found is None else found.count

    def family(self) -> Metric:
        shown = HistogramMetricFamily(self.name, self.help_text, labels=(self.label,))
        for value, histogram in list(self._of.items()):
            shown.add_metric((value,), histogram.cumulative(), histogram.total)
        return shown


class MetricRow(NamedTuple):
    """One row of the metrics table of the manual."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help_text: str


class _Reading(NamedTuple):
    labels: Mapping[str, str]
    read: Callable[[], float]


class _Owned(NamedTuple):
    """A number that lives elsewhere: how to ask for it, once per combination of labels."""

    kind: Literal["gauge", "counter"]
    help_text: str
    readings: list[_Reading]


class Metrics(Collector):
    """All numbers of one node. Attributes are counted directly by the room that does the thing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.appends = 0
        self.append_bytes = 0
        self.appended_entries = 0
        self.read_bytes = 0
        self.append_wait_seconds = FastHistogram(SECONDS_BOUNDS)
        self.commit_seconds = FastHistogram(SECONDS_BOUNDS)
        self.commit_rows = FastHistogram(ROWS_BOUNDS)
        self.commit_bytes = FastHistogram(BYTES_BOUNDS)
        self.fsync_seconds = FastHistogram(SECONDS_BOUNDS)
        self.loop_lag_seconds = FastHistogram(LAG_BOUNDS)
        self.request_seconds = HistogramFamily(
            "streams_request_seconds",
            "route",
            "Time to answer a request, by route; not of appends, which the group commit tells of, nor of live reads.",
        )
        self.stage_seconds = HistogramFamily(
            "streams_stage_seconds",
            "stage",
            "Time of one round of a stage: `seal`, `upload`, `publish`, and `index` from a claim to its commit.",
            STAGE_SECONDS_BOUNDS,
        )
        self.search_seconds = HistogramFamily(
            "streams_search_seconds",
            "phase",
            "Time of searches and aggregations: `wait` for a turn, the turn's `work`, and of searches what of that is "
            "`open`, `index`, `scan` and `records`; within `work`, `wait_long` for a turn of what looks at very many "
            "entries, and that turn, `long`.",
        )
        self._reads: dict[ReadMode, int] = dict.fromkeys(READ_MODES, 0)
        self._responses: dict[tuple[str, int], int] = {}
        self._refusals: dict[str, int] = {}
        self._failed_reads = 0
        self._owned: dict[str, _Owned] = {}
        started = clock()
        self.gauge("streams_uptime_seconds", lambda: clock() - started, "Seconds since this process began to serve.")
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        # Memory, CPU time and open files of the process, from /proc, under the names that dashboards expect.
        ProcessCollector(registry=self._registry)

    # --- counting ---

    def count_read(self, mode: ReadMode) -> None:
        self._reads[mode] += 1

    def count_response(self, route_class: str, status: int) -> None:
        key = (route_class, status)
        if key not in self._responses and len(self._responses) >= LABEL_VALUES_MAX:
            key = (_OTHER, 0)
        self._responses[key] = self._responses.get(key, 0) + 1

    def count_refusal(self, code: str) -> None:
        if code not in self._refusals and len(self._refusals) >= LABEL_VALUES_MAX:
            code = _OTHER
        self._refusals[code] = self._refusals.get(code, 0) + 1

    # --- numbers that others own ---

    def gauge(
        self, name: str, read: Callable[[], float], help_text: str, labels: Mapping[str, str] | None = None
    ) -> None:
        """Ask `read` at each scrape; the same name may be registered once per combination of labels."""
        self._own(name, "gauge", help_text, _Reading(labels or {}, read))

    def counter(
        self, name: str, read: Callable[[], float], help_text: str, labels: Mapping[str, str] | None = None
    ) -> None:
        """Like `gauge`, for a number that only grows; `_total` is added to the name when it is shown."""
        self._own(name, "counter", help_text, _Reading(labels or {}, read))

    def _own(self, name: str, kind: Literal["gauge", "counter"], help_text: str, reading: _Reading) -> None:
        owned = self._owned.setdefault(name, _Owned(kind, help_text, []))
        same_labels = [each for each in owned.readings if each.labels.keys() == reading.labels.keys()]
        if owned.kind != kind or len(same_labels) != len(owned.readings):
            raise MetricMismatchError(name)
        # A room that is built again (after a failed start, in tests) replaces its reading.
        owned.readings[:] = [each for each in owned.readings if each.labels != reading.labels]
        owned.readings.append(reading)

    # --- a scrape ---

    def render(self) -> bytes:
        """Everything in Prometheus' text format, to be sent with `CONTENT_TYPE`."""
        return generate_latest(self._registry)

    def table(self) -> tuple[MetricRow, ...]:
        """What is counted, for the manual; process metrics of the client library are not listed."""
        return tuple(
            MetricRow(_shown_name(family), family.type, _label_names(family), family.documentation)
            for family in self.collect()
        )

    @override
    def collect(self) -> Iterator[Metric]:
        yield from self._counters()
        yield from self._histograms()
        for name, owned in self._owned.items():
            yield self._asked(name, owned)
        # Last, so that it counts the readings that failed in this very scrape.
        yield _counter(
            "streams_metric_read_failures",
            "Numbers left out of a scrape because asking for them failed.",
            [((), self._failed_reads)],
        )
        yield _build_info()

    def _counters(self) -> Iterator[Metric]:
        yield _counter("streams_appends", "Appends acknowledged.", [((), self.appends)])
        yield _counter("streams_append_bytes", "Payload bytes of acknowledged appends.", [((), self.append_bytes)])
        yield _counter("streams_appended_entries", "Entries in acknowledged appends.", [((), self.appended_entries)])
        yield _counter(
            "streams_reads",
            "Reads answered, by mode.",
            [((mode,), count) for mode, count in self._reads.items()],
            labels=("mode",),
        )
        yield _counter("streams_read_bytes", "Payload bytes sent to readers.", [((), self.read_bytes)])
        yield _counter(
            "streams_responses",
            "Responses by class of route and status.",
            [((route_class, str(status)), count) for (route_class, status), count in list(self._responses.items())],
            labels=("class", "status"),
        )
        yield _counter(
            "streams_refusals",
            "Requests refused, by error code.",
            [((code,), count) for code, count in list(self._refusals.items())],
            labels=("code",),
        )

    def _histograms(self) -> Iterator[Metric]:
        yield _histogram(
            "streams_append_wait_seconds",
            "How long the first append of each group commit waited, from its decision until it was on disk.",
            self.append_wait_seconds,
        )
        yield _histogram("streams_commit_seconds", "Time of one group commit, with its fsync.", self.commit_seconds)
        yield _histogram("streams_commit_rows", "Log rows in one group commit.", self.commit_rows)
        yield _histogram("streams_commit_bytes", "Payload bytes in one group commit.", self.commit_bytes)
        yield _histogram("streams_fsync_seconds", "Time of the syncs of WAL checkpoints.", self.fsync_seconds)
        yield _histogram(
            "streams_loop_lag_seconds",
            "How late the event loop runs a timer of 100 ms; above 10 ms something computes on it.",
            self.loop_lag_seconds,
        )

        yield self.request_seconds.family()
        yield self.stage_seconds.family()
        yield self.search_seconds.family()

    def _asked(self, name: str, owned: _Owned) -> Metric:
        names = tuple(owned.readings[0].labels)
        samples: list[_Sample] = []
        for reading in owned.readings:
            # One owner that fails (a closed database at shutdown) must not blind the operator to all other numbers.
            try:
                samples.append((tuple(reading.labels[each] for each in names), reading.read()))
            except Exception:  # noqa: BLE001 whatever it is, it is counted and the scrape goes on
                self._failed_reads += 1
        return (_gauge if owned.kind == "gauge" else _counter)(name, owned.help_text, samples, labels=names)


class MetricMismatchError(Exception):
    """A name was registered twice with another kind or other labels: a mistake in the code, found at start."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"metric `{name}` is already registered with another kind or other labels")


# --- families of the client library ---------------------------------------------------------------------------------

_Sample = tuple[tuple[str, ...], float]


def _counter(name: str, help_text: str, samples: Iterable[_Sample], labels: tuple[str, ...] = ()) -> Metric:
    family = CounterMetricFamily(name, help_text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _gauge(name: str, help_text: str, samples: Iterable[_Sample], labels: tuple[str, ...] = ()) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _histogram(name: str, help_text: str, histogram: FastHistogram) -> Metric:
    return HistogramMetricFamily(name, help_text, buckets=histogram.cumulative(), sum_value=histogram.total)


def _build_info() -> Metric:
    facts = {"version": __version__, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    return _gauge("streams_build_info", "What is running; always 1.", [(tuple(facts.values()), 1)], tuple(facts))


def _shown_name(family: Metric) -> str:
    return family.name + "_total" if family.type == "counter" else family.name


def _label_names(family: Metric) -> tuple[str, ...]:
    return tuple(getattr(family, "_labelnames", ()))
