"""What it takes to show old entries as the current schema has them: a page of 2,000 records, 1 MiB, through 3 lenses.

Reads the page again and again, from the log and then, on a node that was started anew, from objects; beside it the same
page as it is stored.

    python -m ops.bench.lenses [--reads 100] [--dir DIR]
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from ops.bench import machine
from ops.bench.cold import JSON, PORT, node, wait_until_released
from ops.bench.errors import BenchError
from ops.bench.wire import OK_STATUSES, Client, client

STREAM = "promoted"
RECORDS = 2000
PAGE_BYTES = 1 << 20
RECORD_SIZE = PAGE_BYTES // RECORDS
WHOLE_PAGE = 4 << 20  # asked for, so that what the lenses add does not end the page
NESTED = {"type": "object", "required": ["plan"], "properties": {"id": {"type": "string"}, "plan": {"type": "string"}}}
FIRST: dict[str, Any] = {
    **{name: {"type": "string"} for name in ("at", "level", "service", "trace", "method", "path", "message")},
    **{name: {"type": "integer"} for name in ("n", "status")},
    "user": NESTED | {"required": ["id", "plan"]},
}
STEPS: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"op": "rename", "from": "/message", "to": "/text"}, {"message": None, "text": {"type": "string"}}),
    (
        {"op": "add", "path": "/region", "schema": {"type": "string"}, "default": "eu-1"},
        {"region": {"type": "string"}},
    ),
    (
        {"op": "hoist", "host": "/user", "name": "id", "to": "/userId"},
        {"user": NESTED, "userId": {"type": "string"}},
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench.lenses", description="Show old entries through lenses.")
    parser.add_argument("--reads", type=int, default=100)
    parser.add_argument("--dir", type=Path, help="where the data folder is made")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lenses-", dir=options.dir))
    try:
        with node(folder), client(PORT) as connection:
            declare(connection)
            read("log", connection, options.reads)
            connection.request("POST", f"{STREAM}/_flush")
            wait_until_released(folder)
        with node(folder), client(PORT) as connection:
            read("objects", connection, options.reads)
        print(machine.stamp(folder, "orjson"))
    finally:
        shutil.rmtree(folder)
    return 0


def declare(connection: Client) -> None:
    """The stream with its records, and then the versions that came after them."""
    connection.create(STREAM, JSON)
    properties = dict(FIRST)
    connection.declare(STREAM, json.dumps({"schema": schema(properties)}).encode())
    connection.append(STREAM, b"[" + b",".join(map(record, range(RECORDS))) + b"]", JSON)
    for version, (step, changed) in enumerate(STEPS, 1):
        properties = {name: kind for name, kind in (properties | changed).items() if kind is not None}
        given = {"apiVersion": "durable.lens/v1", "schema": STREAM, "from": version, "to": version + 1, "ops": [step]}
        connection.declare(STREAM, json.dumps({"schema": schema(properties), "lens": given}).encode())


def schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": sorted(properties), "properties": properties}


def record(number: int) -> bytes:
    """A log line, as long as a page of so many can have it, with the comma behind it."""
    found = {
        "n": number,
        "at": "2026-03-25T10:00:00.000Z",
        "level": "info",
        "service": f"service-{number % 17}",
        "trace": f"{number * 2654435761 % 2**32:032x}",
        "method": "GET",
        "path": f"/v1/orders/{number % 9973}/items",
        "status": 200,
        "user": {"id": f"u{number % 5003}", "plan": "team"},
        "message": "",
    }
    room = RECORD_SIZE - 1 - len(json.dumps(found, separators=(",", ":")))
    found["message"] = "the request was answered after a look into the nearest cache ".ljust(room, ".")[:room]
    return json.dumps(found, separators=(",", ":")).encode()


def read(where: str, connection: Client, reads: int) -> None:
    for form, last in (("json", b'"userId":"u'), ("raw", b'"plan":"team"}')):
        times: list[float] = []
        size = 0
        for _ in range(reads):
            began = time.perf_counter()
            answer = connection.request("GET", f"{STREAM}?offset=-1&max_bytes={WHOLE_PAGE}&format={form}")
            times.append(time.perf_counter() - began)
            if answer.status not in OK_STATUSES or answer.body.count(last) != RECORDS:
                raise BenchError(f"a page was answered with {answer.status} and not with {RECORDS} records")
            size = len(answer.body)
        times.sort()
        print(
            f"{where:8} {form:5} {size / 2**20:.2f} MiB of {RECORDS} records: "
            f"p50 {1000 * statistics.median(times):.1f} ms, p99 {1000 * times[len(times) * 99 // 100]:.1f} ms, "
            f"slowest {1000 * times[-1]:.1f} ms",
            flush=True,
        )


if __name__ == "__main__":
    raise SystemExit(main())
