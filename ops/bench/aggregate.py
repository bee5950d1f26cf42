"""`python -m ops.bench.aggregate`: what aggregations take, with a real node over an index, and a fresh tail beside it.

Starts a node on a folder and appends a week of log events; once all of it is covered, each question is asked by one
client and by eight; then once more with 2,000 events behind the index, which are counted one by one. Processor time is
the node's, for one answer.

    python -m ops.bench.aggregate [--events 240000] [--seconds 5] [--work-dir DIR]
"""

import argparse
import http.client
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import orjson

from ops.bench import machine
from ops.bench.errors import BenchError
from ops.bench.indexing import running

STREAM = "/v1/stream/logs"
JSON = {"content-type": "application/json"}
SEED = 20_261
BATCH_EVENTS = 2000
TAIL_EVENTS = 2000
COVERED_S = 900.0
WEEK_MS = 7 * 86_400_000
T0 = 1_790_000_000_000 // 86_400_000 * 86_400_000
WORDS = 5000
KEYWORDS = {"level": 4, "service": 8, "path": 200, "userId": 3000}


def events(count: int) -> Iterator[bytes]:
    """Batches of log events of a week, the same ones each time."""
    draw = random.Random(SEED)  # noqa: S311 - the same events each time
    pool = draw.choices(["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=3 + at % 7)) for at in range(WORDS)],
                        [1 / (at + 1) for at in range(WORDS)], k=100_000)  # fmt: skip
    made = []
    for number in range(count):
        at = draw.randrange(len(pool) - 30)
        made.append(
            {
                "timestamp": T0 + number * WEEK_MS // count,
                **{name: f"{name}-{draw.randrange(values)}" for name, values in KEYWORDS.items()},
                "requestId": f"{draw.getrandbits(128):032x}",
                "status": draw.choice((200, 200, 200, 201, 404, 500)),
                "duration": round(draw.expovariate(0.02), 2),
                "message": " ".join(pool[at : at + 25]),
            }
        )
        if len(made) == BATCH_EVENTS or number == count - 1:
            yield orjson.dumps(made)
            made.clear()


def declaration() -> dict[str, Any]:
    def field(name: str, kind: str, **more: Any) -> dict[str, Any]:
        return {"kind": kind, "bindings": [{"version": 1, "jsonPointer": f"/{name}"}], **more}

    fields = {name: field(name, "keyword", exact=True, aggregatable=True) for name in KEYWORDS}
    fields |= {
        "timestamp": field("timestamp", "date", column=True),
        "status": field("status", "integer", exact=True, column=True, aggregatable=True),
        "duration": field("duration", "float", column=True, aggregatable=True),
        "message": field("message", "text", analyzer="unicode_word_v1"),
    }
    rollup = {
        "dimensions": ["service", "level"],
        "intervals": ["1m", "1h"],
        "measures": {
            "events": {"kind": "count"},
            "took": {"kind": "summary", "field": "duration", "histogram": "log2_v1"},
        },
    }
    search = {"primaryTimestampField": "timestamp", "fields": fields, "rollups": {"traffic": rollup}}
    return {"schema": {"type": "object"}, "search": search}


def questions() -> dict[str, dict[str, Any]]:
    week: dict[str, Any] = {"rollup": "traffic", "from": T0, "to": T0 + WEEK_MS, "interval": "1h"}
    stats = {"stats": {"field": "duration"}}
    hours: dict[str, Any] = {"date_histogram": {"field": "timestamp", "interval": "1h"}}
    services: dict[str, Any] = {"terms": {"field": "service"}, "aggs": {"took": stats}}
    return {
        "rollup over a week by the hour": week,
        "the same by service and level": week | {"group_by": ["service", "level"]},
        "the same with edges inside of minutes": week | {"from": T0 + 1, "to": T0 + WEEK_MS - 1},
        "histogram by the hour": {"aggs": {"hours": hours}},
        "terms with stats": {"aggs": {"services": services}},
        "histogram with stats, terms with stats, stats": {
            "aggs": {"hours": hours | {"aggs": {"took": stats}}, "services": services, "took": stats}
        },
        "the same of a day": {
            "from": T0 + 86_400_000,
            "to": T0 + 2 * 86_400_000,
            "aggs": {"hours": hours | {"aggs": {"took": stats}}, "services": services, "took": stats},
        },
        "the same of what has an error": {
            "q": "status:500 AND level:level-0",
            "aggs": {"hours": hours | {"aggs": {"took": stats}}, "services": services, "took": stats},
        },
        "terms of 3,000 users": {"aggs": {"users": {"terms": {"field": "userId"}}}},
        "percentiles": {"aggs": {"took": {"percentiles": {"field": "duration"}}}},
    }


def filled(http: httpx.Client, count: int) -> None:
    """All events are in the stream, and in its indexes."""
    good(http.put(STREAM, headers=JSON))
    good(http.post(f"{STREAM}/_schema", json=declaration()))
    for body in events(count):
        good(http.post(STREAM, content=body, headers=JSON))
    ends = time.monotonic() + COVERED_S
    while good(http.post(f"{STREAM}/_flush")).status_code == HTTPStatus.ACCEPTED or not covered(http):
        if time.monotonic() > ends:
            raise BenchError(f"not covered within {COVERED_S:.0f} s")
        time.sleep(2)


def covered(http: httpx.Client) -> bool:
    """Whether an answer of each kind rests on indexes alone."""
    for name in ("rollup over a week by the hour", "terms with stats"):
        answer = http.post(f"{STREAM}/_aggregate", json=questions()[name])
        if answer.status_code == HTTPStatus.REQUEST_TIMEOUT:
            return False
        coverage = good(answer).json()["coverage"]
        if not coverage["complete"] or coverage["scanned_segments"] or coverage["scanned_tail_docs"]:
            return False
    return True


def measured(port: int, pid: int, body: bytes, clients: int, seconds: float) -> str:
    """p50 and p99 of answers in milliseconds; processor time of one."""
    times: list[float] = []
    failed: list[int] = []
    cpu, ends = cpu_seconds(pid), time.monotonic() + seconds

    def one() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while time.monotonic() < ends:
            begun = time.perf_counter()
            connection.request("POST", f"{STREAM}/_aggregate", body, JSON)
            reply = connection.getresponse()
            reply.read()
            times.append((time.perf_counter() - begun) * 1000)
            if reply.status != HTTPStatus.OK:
                failed.append(reply.status)
        connection.close()

    threads = [threading.Thread(target=one, name=f"client-{at}") for at in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if set(failed) - {HTTPStatus.REQUEST_TIMEOUT}:
        raise BenchError(f"{len(failed)} of {len(times)} answers failed: {sorted(set(failed))}")
    times.sort()
    spent = (cpu_seconds(pid) - cpu) / len(times) * 1000
    late = f"; {len(failed)} of {len(times)} not in time" if failed else ""
    return f"{times[len(times) // 2]:.1f} / {times[len(times) * 99 // 100]:.1f} ms, {spent:.1f} ms{late}"


def cpu_seconds(pid: int) -> float:
    """Of one process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def rows(port: int, pid: int, seconds: float) -> Iterator[str]:
    for name, asked in questions().items():
        body = json.dumps(asked).encode()
        one, eight = (measured(port, pid, body, clients, seconds) for clients in (1, 8))
        yield f"| {name} | {one} | {eight} |"


def good(answer: httpx.Response) -> httpx.Response:
    if not answer.is_success:
        raise BenchError(f"{answer.request.method} {answer.request.url.path}: {answer.status_code} {answer.text[:200]}")
    return answer


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench.aggregate", description="What aggregations take.")
    parser.add_argument("--events", type=int, default=240_000, help="of a week")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each question and number of clients")
    parser.add_argument("--work-dir", type=Path, help="on a disk; a temporary folder of it is used")
    options = parser.parse_args()
    machine.ensure_linux()
    with tempfile.TemporaryDirectory(dir=options.work_dir) as name:
        folder = Path(name)
        machine.ensure_real_disk(folder)
        with running(folder) as (url, pid), httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
            port = int(url.rpartition(":")[2])
            filled(http, options.events)
            head = "| what | 1 client: p50 / p99, processor | 8 clients |\n| --- | --- | --- |"
            print(f"{options.events} events, all indexed\n\n{head}", flush=True)
            for row in rows(port, pid, options.seconds):
                print(row, flush=True)
            good(http.post(STREAM, content=next(events(TAIL_EVENTS)), headers=JSON))
            print(f"\n{TAIL_EVENTS} events more, not indexed\n\n{head}", flush=True)
            for row in rows(port, pid, options.seconds):
                print(row, flush=True)
        print(f"\n{machine.stamp(folder, 'tantivy', 'pyarrow')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
