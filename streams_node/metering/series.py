"""Pure: two looks at the node's numbers, and what happened between them as records of intervals.

readings(families)                  what the client library collected -> plain numbers
records(before, after, …)           one canonical record for each series that moved, or is a level
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from streams_node.profiles.metrics import record

NS = 10**9
Labels = tuple[tuple[str, str], ...]
Kind = Literal["level", "total", "times"]


class Sample(Protocol):
    """Of the client library."""

    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def value(self) -> float: ...


class Family(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def samples(self) -> Iterable[Sample]: ...


class Reading(NamedTuple):
    """A number since the start, or a level as it is now. Of times also how many, and how many up to each bound."""

    value: float
    events: float = 0.0
    buckets: tuple[tuple[float, float], ...] = ()


Snapshot = Mapping[tuple[str, Labels], Reading]


class Source(NamedTuple):
    """Where a series comes from: a family of `/metrics`."""

    metric: str
    unit: str
    family: str
    kind: Kind = "level"
    counted: str | None = None  # the family that counts what a total is of; absent: the total counts itself


SOURCES = (
    Source("tieredstore.append.bytes", "bytes", "streams_append_bytes", "total", "streams_appends"),
    Source("tieredstore.append.entries", "count", "streams_appended_entries", "total", "streams_appends"),
    Source("tieredstore.read.bytes", "bytes", "streams_read_bytes", "total", "streams_reads"),
    Source("tieredstore.ingest.flush.latency", "ns", "streams_commit_seconds", "times"),
    Source("tieredstore.ingest.queue.bytes", "bytes", "streams_queue_bytes"),
    Source("tieredstore.ingest.queue.requests", "count", "streams_queue_appends"),
    Source("tieredstore.ingest.queue.capacity.bytes", "bytes", "queue_bytes_max"),
    Source("tieredstore.ingest.queue.capacity.requests", "count", "queue_appends_max"),
    Source("tieredstore.backpressure.current.bytes", "bytes", "streams_backlog_bytes"),
    Source("tieredstore.backpressure.limit.bytes", "bytes", "backlog_bytes_max"),
    Source("tieredstore.backpressure.over_limit", "count", "refused_overloaded", "total"),
    Source("tieredstore.upload.pending_segments", "count", "streams_seals_waiting"),
    Source("tieredstore.upload.lag", "ns", "streams_upload_lag_seconds"),
    *(
        Source(f"tieredstore.objectstore.{op}.latency", "ns", f"store_{op}_seconds", "total", f"store_{op}_requests")
        for op in ("put", "get", "head", "delete", "list")
    ),
    Source("process.rss.bytes", "bytes", "process_resident_memory_bytes"),
    Source("node.responses", "count", "streams_responses", "total"),
    Source("node.loop.lag", "ns", "streams_loop_lag_seconds", "times"),
    Source("node.live.waiters", "count", "streams_live_waiters"),
    Source("node.append.wait", "ns", "streams_append_wait_seconds", "times"),
    Source("node.fsync", "ns", "streams_fsync_seconds", "times"),
)  # fmt: skip


def readings(families: Iterable[Family]) -> dict[tuple[str, Labels], Reading]:
    """The numbers of the families, by family and labels."""
    found: dict[tuple[str, Labels], Reading] = {}
    for family in families:
        if family.type == "histogram":
            found[family.name, ()] = _times(family)
        else:
            for sample in family.samples:
                if not sample.name.endswith("_created"):
                    found[family.name, tuple(sorted(sample.labels.items()))] = Reading(sample.value)
    return found


def _times(family: Family) -> Reading:
    """A histogram without labels."""
    buckets, total = [], 0.0
    for sample in family.samples:
        if sample.name.endswith("_bucket"):
            buckets.append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_sum"):
            total = sample.value
    return Reading(total, buckets[-1][1] if buckets else 0.0, tuple(buckets))


def records(
    before: Snapshot, after: Snapshot, *, start_ms: int, end_ms: int, interval_ms: int, instance: str
) -> list[dict[str, Any]]:
    """What happened in between. A series in which nothing did has no record; a level always has one."""
    shared: dict[str, Any] = {
        "windowStart": min(start_ms, end_ms),  # a clock may have been set back
        "windowEnd": end_ms,
        "intervalMs": interval_ms,
        "instance": instance,
    }
    return [
        record(shared | {"metric": source.metric, "unit": source.unit, "tags": dict(labels)} | numbers)
        for source in SOURCES
        for labels, numbers in _measured(source, before, after)
    ]


def _measured(source: Source, before: Snapshot, after: Snapshot) -> Iterator[tuple[Labels, dict[str, Any]]]:
    factor = NS if source.unit == "ns" else 1
    for (family, labels), now in after.items():
        if family != source.family:
            continue
        then = before.get((family, labels), Reading(0.0))
        if source.kind == "level":
            value = _plain(now.value * factor)
            yield labels, {"metricKind": "gauge", "count": 1, "sum": value, "min": value, "max": value} | _same(value)
        elif source.kind == "times" and now.events > then.events:
            yield labels, _distribution(then, now)
        elif source.kind == "total":
            count = now.value - then.value if source.counted is None else _moved(source.counted, labels, before, after)
            if count > 0:
                yield labels, {"count": _plain(count), "sum": _plain((now.value - then.value) * factor)}


def _same(value: float) -> dict[str, float]:
    return dict.fromkeys(("avg", "p50", "p95", "p99"), value)


def _moved(family: str, labels: Labels, before: Snapshot, after: Snapshot) -> float:
    """How far a count moved; over all its labels where the total has none."""
    return sum(
        now.value - before.get(name, Reading(0.0)).value
        for name, now in after.items()
        if name[0] == family and (not labels or name[1] == labels)
    )


def _distribution(then: Reading, now: Reading) -> dict[str, Any]:
    """In nanoseconds. Where in its bucket a time was is not known: it is taken to be the upper bound."""
    earlier = dict(then.buckets)
    buckets: dict[str, int] = {}
    least: int | None = None
    most, lower, below = 0, 0.0, 0.0
    for bound, reached in now.buckets:
        counted = reached - earlier.get(bound, 0.0)
        if counted > below:
            upper = int((bound if bound != float("inf") else 2 * lower) * NS)
            least = int(lower * NS) if least is None else least
            most = upper
            name = str(1 << max(upper.bit_length() - 1, 0))
            buckets[name] = buckets.get(name, 0) + int(counted - below)
        lower, below = bound, counted
    return {
        "count": _plain(now.events - then.events),
        "sum": _plain((now.value - then.value) * NS),
        "min": least,
        "max": most,
        "buckets": buckets,
    }


def _plain(value: float) -> int:
    """Bytes, counts and nanoseconds are whole."""
    return round(value)
