"""What appends do to searches: how many searches are answered beside them, and how soon an entry is found.

One client searches as quickly as it is answered, in turns with nothing else and beside appends of 2,000 events a second
to the same stream; and for some events the time is taken from their acknowledgement to the answer that shows them.
"""

import http.client
import random
import re
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import orjson
from typing_extensions import override

from ops.bench.errors import BenchError
from ops.bench.events import SETS
from ops.bench.search import STREAM, Client
from ops.bench.search_queries import NAMES, SEARCH, Question, questions
from ops.bench.search_report import Line
from ops.bench.stats import percentile

APPENDS_A_SECOND = 2000
BATCH = 20
TURNS = 6
TURN_S = 4.0
FRESH = 300
SETTLE_S = 2.0
FOUND_S = 30.0
LOST_MAX = 0.3
FRESH_P99_MS = 200.0
LATE_P99_S = 0.005
SEARCHERS = 16
LATE_S = 60.0  # a look is ten times a second
LOOK_S = 0.01
KINDS = ("rare exact", "filter, newest 20", "bare term")


class Beside(NamedTuple):
    """Of one kind of question: answers a second of each turn, and the 99th percentile of all their times."""

    alone: list[float]
    alone_p99_s: float
    appending: list[float]
    appending_p99_s: float
    appended: float  # events a second that were acknowledged meanwhile

    @property
    def lost(self) -> float:
        return 1 - statistics.median(after / before for before, after in zip(self.alone, self.appending, strict=True))


class Fresh(NamedTuple):
    """Seconds from an acknowledgement until a search has shown the event."""

    alone: list[float]
    appending: list[float]


def beside_appends(port: int, kind: str, asked: dict[str, list[Question]]) -> Iterator[tuple[str, Beside]]:
    """Both in turns, as the machine is never the same for long."""
    for name in KINDS:
        alone, appending, appended = list[list[float]](), list[list[float]](), 0.0
        for _ in range(TURNS):
            alone.append(_asked(port, [each.asked for each in asked[name]]))
            with _appending(port, kind) as load:
                time.sleep(SETTLE_S)
                done, began = load.done, time.monotonic()
                appending.append(_asked(port, [each.asked for each in asked[name]]))
                appended += (load.done - done) / (time.monotonic() - began) / TURNS
        yield name, Beside(*_rates(alone), *_rates(appending), appended)


def _rates(turns: Sequence[Sequence[float]]) -> tuple[list[float], float]:
    return [len(each) / TURN_S for each in turns], percentile([each for some in turns for each in some], 0.99)


def freshness(port: int, kind: str) -> Fresh:
    """By an id that no other event has."""
    return Fresh(_fresh(port, kind, appending=False), _fresh(port, kind, appending=True))


def _asked(port: int, asked: Sequence[dict[str, Any]]) -> list[float]:
    """The times of searches, for as long as a turn is."""
    client, seconds = Client(port), list[float]()
    for each in asked:  # what is opened once is open
        client.ask("POST", f"{STREAM}/_search", orjson.dumps(each))
    ends = time.monotonic() + TURN_S
    while time.monotonic() < ends:
        began = time.perf_counter()
        status, _ = client.ask("POST", f"{STREAM}/_search", orjson.dumps(asked[len(seconds) % len(asked)]))
        if status != 200:  # noqa: PLR2004
            raise BenchError(f"a search was answered with {status}")
        seconds.append(time.perf_counter() - began)
    return seconds


def _fresh(port: int, kind: str, *, appending: bool) -> list[float]:
    client, seconds = Client(port), list[float]()
    draw = random.Random(time.time_ns())  # noqa: S311 - ids that were never used
    source, name = SETS[kind](), NAMES[kind].id
    with _appending(port, kind) if appending else nullcontext():
        time.sleep(SETTLE_S)
        for _ in range(FRESH):
            one = orjson.loads(source.batch(1))[0] | {name: f"{draw.getrandbits(128):032x}"}
            client.good("POST", STREAM, orjson.dumps([one]))
            began = time.perf_counter()
            while True:
                _, view = client.search({"q": f'{name}:"{one[name]}"'})
                if view["hits"]:
                    break
                if time.perf_counter() - began > FOUND_S:
                    raise BenchError("an event was not found")
            seconds.append(time.perf_counter() - began)
            time.sleep(0.02)
    return seconds


class _Load(threading.Thread):
    """Appends at a rate, a few events at a time; what was late is caught up with."""

    def __init__(self, port: int, kind: str) -> None:
        super().__init__(name="appends", daemon=True)
        self._client = Client(port)
        source = SETS[kind]()
        self._bodies = [source.batch(BATCH) for _ in range(200)]
        self.ended = threading.Event()
        self.done = 0

    @override
    def run(self) -> None:
        began, sent = time.monotonic(), 0
        while not self.ended.wait(max(0.0, began + sent * BATCH / APPENDS_A_SECOND - time.monotonic())):
            status, _ = self._client.ask("POST", STREAM, self._bodies[sent % len(self._bodies)])
            sent += 1
            self.done += BATCH if status < 300 else 0  # noqa: PLR2004 - one that asks to wait does not count


@contextmanager
def _appending(port: int, kind: str) -> Iterator[_Load]:
    load = _Load(port, kind)
    load.start()
    try:
        yield load
    finally:
        load.ended.set()
        load.join()


def lines(port: int, kind: str, events: Sequence[dict[str, Any]]) -> Iterator[Line]:
    """All of it."""
    asked = questions(kind, events)
    count = Client(port).good("GET", f"{STREAM}/_details")["stream"]["next_offset"]
    about = (kind, int(count))
    for name, found in beside_appends(port, kind, asked):
        alone, appending = statistics.median(found.alone), statistics.median(found.appending)
        said = (
            f"{alone:.0f}/s alone (p99 {1000 * found.alone_p99_s:.1f} ms), {appending:.0f}/s beside "
            f"{found.appended:.0f} appends/s (p99 {1000 * found.appending_p99_s:.1f} ms): {100 * found.lost:.0f} % "
            f"fewer, the median of {TURNS} turns"
        )
        yield Line(*about, name, said, f"loses less than {100 * LOST_MAX:.0f} %", found.lost < LOST_MAX)
    fresh = freshness(port, kind)
    for title, seconds in (("idle", fresh.alone), ("beside appends", fresh.appending)):
        p50, p99 = (1000 * percentile(seconds, share) for share in (0.5, 0.99))
        said = f"p50 {p50:.1f} ms, p99 {p99:.1f} ms"
        yield Line(*about, f"append to found, {title}", said, f"p99 within {FRESH_P99_MS:.0f} ms", p99 <= FRESH_P99_MS)
    yield from others(port, about, [each.asked for some in asked.values() for each in some if each.route == SEARCH])


# --- what searches do to others ---


def others(port: int, about: tuple[str, int], asked: Sequence[dict[str, Any]]) -> Iterator[Line]:
    """Health and catch-up alone, and while many search at once; and how late the event loop of the node is then."""
    alone = _served(port)
    with _searching(port, asked):
        time.sleep(SETTLE_S)
        before = _late(port)
        time.sleep(LATE_S)
        late = _late(port) - before
        beside = _served(port)
    for title, found in (("alone", alone), (f"beside {SEARCHERS} searches at once", beside)):
        p50, p99 = (1000 * percentile(found.health, share) for share in (0.5, 0.99))
        yield Line(*about, f"`/health`, {title}", f"p50 {p50:.1f} ms, p99 {p99:.1f} ms", "", None)
        yield Line(*about, f"catch-up, {title}", f"{found.mb_s:.0f} MB/s", "", None)
    bound = late.percentile(0.99)
    said = f"p99 at most {1000 * bound:.1f} ms of {late.looks} looks"
    yield Line(*about, f"event loop late beside {SEARCHERS} searches", said, "p99 below 5 ms", bound <= LATE_P99_S)


class Served(NamedTuple):
    health: list[float]
    mb_s: float


class Late(NamedTuple):
    """How late the loop was: how often up to each bound, in seconds."""

    counts: dict[float, int]

    def __sub__(self, other: "Late") -> "Late":
        return Late({bound: count - other.counts.get(bound, 0) for bound, count in self.counts.items()})

    @property
    def looks(self) -> int:
        return max(self.counts.values(), default=0)

    def percentile(self, share: float) -> float:
        return min((bound for bound, count in self.counts.items() if count >= share * self.looks), default=0.0)


def _served(port: int) -> Served:
    """One client looks whether it is well, one reads from the beginning, for as long as a turn is."""
    size, ends = 0, time.monotonic() + TURN_S
    health: list[float] = []

    def look() -> None:
        client = Client(port)
        while time.monotonic() < ends:
            began = time.perf_counter()
            client.good("GET", "/health")
            health.append(time.perf_counter() - began)
            time.sleep(LOOK_S)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    offset = "-1"
    while time.monotonic() < ends:
        connection.request("GET", f"{STREAM}?offset={offset}")
        reply = connection.getresponse()
        size += len(reply.read())
        offset = reply.headers["stream-next-offset"]
        if reply.headers.get("stream-up-to-date"):
            offset = "-1"
    thread.join()
    return Served(health, size / TURN_S / 1e6)


@contextmanager
def _searching(port: int, asked: Sequence[dict[str, Any]]) -> Iterator[None]:
    ended = threading.Event()

    def search(first: int) -> None:
        client, number = Client(port), first
        while not ended.is_set():
            client.ask("POST", f"{STREAM}/_search", orjson.dumps(asked[number % len(asked)]))
            number += 1

    threads = [threading.Thread(target=search, args=(first,), daemon=True) for first in range(SEARCHERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _late(port: int) -> Late:
    status, said = Client(port).ask("GET", "/metrics")
    if status != 200:  # noqa: PLR2004
        raise BenchError("the node shows no metrics")
    found = re.findall(r'streams_loop_lag_seconds_bucket\{le="([^"]+)"\} ([0-9.e+]+)', said.decode())
    return Late({float(bound): int(float(count)) for bound, count in found})
