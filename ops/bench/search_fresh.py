"""What appends do to searches: how many searches are answered beside them, and how soon an entry is found.

One client searches as quickly as it is answered, in turns with nothing else and beside appends of 2,000 events a second
to the same stream; and for some events the time is taken from their acknowledgement to the answer that shows them.
"""

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import orjson
from typing_extensions import override

from ops.bench.errors import BenchError
from ops.bench.events import LogEvents
from ops.bench.search import STREAM, Client
from ops.bench.search_queries import questions
from ops.bench.stats import percentile

APPENDS_A_SECOND = 2000
BATCH = 20
TURNS = 4
TURN_S = 4.0
FRESH = 100
SETTLE_S = 2.0
FOUND_S = 30.0
KINDS = ("rare exact", "filter, newest 20", "bare term")


class Beside(NamedTuple):
    """Of one kind of question: answers a second, and the 99th percentile of their times."""

    alone: float
    alone_p99_s: float
    appending: float
    appending_p99_s: float
    appended: float  # events a second that were acknowledged meanwhile


class Fresh(NamedTuple):
    """Seconds from an acknowledgement until a search has shown the event."""

    alone: list[float]
    appending: list[float]


def beside_appends(port: int, events: Sequence[dict[str, Any]]) -> Iterator[tuple[str, Beside]]:
    """Both in turns, as the machine is never the same for long."""
    asked = questions(events)
    for name in KINDS:
        alone, appending, appended = list[float](), list[float](), 0.0
        for _ in range(TURNS):
            alone += _asked(port, [each.asked for each in asked[name]])
            with _appending(port) as load:
                time.sleep(SETTLE_S)
                done, began = load.done, time.monotonic()
                appending += _asked(port, [each.asked for each in asked[name]])
                appended += (load.done - done) / (time.monotonic() - began) / TURNS
        seconds = TURNS * TURN_S
        yield (
            name,
            Beside(
                len(alone) / seconds,
                percentile(alone, 0.99),
                len(appending) / seconds,
                percentile(appending, 0.99),
                appended,
            ),
        )


def freshness(port: int) -> Fresh:
    """By an id that no other event has."""
    return Fresh(_fresh(port, appending=False), _fresh(port, appending=True))


def _asked(port: int, asked: Sequence[dict[str, Any]]) -> list[float]:
    """The times of searches, for as long as a turn is."""
    client, seconds, ends = Client(port), list[float](), time.monotonic() + TURN_S
    while time.monotonic() < ends:
        began = time.perf_counter()
        status, _ = client.ask("POST", f"{STREAM}/_search", orjson.dumps(asked[len(seconds) % len(asked)]))
        if status != 200:  # noqa: PLR2004
            raise BenchError(f"a search was answered with {status}")
        seconds.append(time.perf_counter() - began)
    return seconds


def _fresh(port: int, *, appending: bool) -> list[float]:
    client, seconds = Client(port), list[float]()
    draw = random.Random(time.time_ns())  # noqa: S311 - ids that were never used
    source = LogEvents()
    with _appending(port) if appending else nullcontext():
        time.sleep(SETTLE_S)
        for _ in range(FRESH):
            one = orjson.loads(source.batch(1))[0] | {"requestId": f"{draw.getrandbits(128):032x}"}
            client.good("POST", STREAM, orjson.dumps([one]))
            began = time.perf_counter()
            while True:
                _, view = client.search({"q": f'requestId:"{one["requestId"]}"'})
                if view["hits"]:
                    break
                if time.perf_counter() - began > FOUND_S:
                    raise BenchError("an event was not found")
            seconds.append(time.perf_counter() - began)
            time.sleep(0.02)
    return seconds


class _Load(threading.Thread):
    """Appends at a rate, a few events at a time; what was late is caught up with."""

    def __init__(self, port: int) -> None:
        super().__init__(name="appends", daemon=True)
        self._client = Client(port)
        source = LogEvents()
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
def _appending(port: int) -> Iterator[_Load]:
    load = _Load(port)
    load.start()
    try:
        yield load
    finally:
        load.ended.set()
        load.join()


def rows(port: int, events: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Both, in words."""
    for name, found in beside_appends(port, events):
        yield (
            f"{name}: {found.alone:.0f}/s alone (p99 {1000 * found.alone_p99_s:.1f} ms), {found.appending:.0f}/s "
            f"beside {found.appended:.0f} appends/s (p99 {1000 * found.appending_p99_s:.1f} ms): "
            f"{100 * (1 - found.appending / found.alone):.0f} % fewer"
        )
    fresh = freshness(port)
    for title, seconds in (("alone", fresh.alone), ("beside appends", fresh.appending)):
        p50, p99 = (1000 * percentile(seconds, share) for share in (0.5, 0.99))
        yield f"append to found, {title}: p50 {p50:.1f} ms, p99 {p99:.1f} ms"
