"""How quickly a filter goes through history that has left the log: 100 MB of records, cold, no object skipped.

Writes the stream through a node with default settings and a folder store, flushes it, waits until the log is empty, and
reads it through once for each filter, with pages of `--page` bytes, on a node that was started anew.

    python -m ops.bench.filter [--mb 100] [--dir DIR]
"""

import argparse
import json
import shutil
import tempfile
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from ops.bench import proc
from ops.bench.cold import JSON, MEGABYTE, PORT, append, node, probing, wait_until_released
from ops.bench.errors import BenchError
from ops.bench.reader import START, PageReader
from ops.bench.wire import PREFIX, client

STREAM = "filtered"
RECORDS_PER_APPEND = 4000
PAGE_BYTES = 8 << 20
RARE = 1000  # one record in so many
SCHEMA = {
    "schema": {"type": "object"},
    "search": {
        "primaryTimestampField": "at",
        "fields": {
            "at": {"kind": "date", "bindings": [{"version": 1, "jsonPointer": "/at"}], "column": True},
            "service": {"kind": "keyword", "bindings": [{"version": 1, "jsonPointer": "/service"}], "exact": True},
            "half": {"kind": "keyword", "bindings": [{"version": 1, "jsonPointer": "/half"}], "exact": True},
            "status": {
                "kind": "integer",
                "bindings": [{"version": 1, "jsonPointer": "/status"}],
                "exact": True,
                "column": True,
            },
        },
    },
}
# Share of the records that match -> a filter that a text in the record decides beforehand, and one that parses all.
FILTERS = (
    ("0 %", "service:nowhere", "status:>=900"),
    ("0.1 %", "service:rare", "status:555"),
    ("50 %", "half:yes", "status:<300"),
)


class FilterReader(PageReader):
    """Walks through a stream with a filter."""

    def walk(self, query: str) -> tuple[int, int]:
        """Bytes of all bodies, and pages."""
        offset, size, pages = START, 0, 0
        while True:
            address = f"{PREFIX}{STREAM}?offset={offset}&max_bytes={PAGE_BYTES}&filter={quote(query)}"
            headers, page_size = self._page(address, None)
            size, pages, offset = size + page_size, pages + 1, headers["stream-next-offset"]
            if "stream-up-to-date" in headers:
                return size, pages


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench.filter", description="Filter history that left the log.")
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--dir", type=Path, help="where the data folder is made")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="filter-", dir=options.dir))
    try:
        size = fill(folder, options.mb)
        for share, held, compared in FILTERS:
            for query in (held, compared):
                with node(folder) as pid:
                    measure(share, query, pid, size)
    finally:
        shutil.rmtree(folder)
    return 0


def fill(folder: Path, megabytes: int) -> int:
    """Write the stream and wait until objects alone hold it; returns the bytes of its records."""
    size, number = 0, 0
    with node(folder), client(PORT) as connection:
        connection.create(STREAM, JSON)
        made = connection.request("POST", f"{STREAM}/_schema", body=json.dumps(SCHEMA).encode(), content_type=JSON)
        if made.status != 200:  # noqa: PLR2004
            raise BenchError(f"the schema was answered with {made.status}")
        while size < megabytes * MEGABYTE:
            records = [record(at) for at in range(number, number + RECORDS_PER_APPEND)]
            number += RECORDS_PER_APPEND
            size += sum(map(len, records))
            reply = connection.request("POST", STREAM, body=b"[" + b",".join(records) + b"]", content_type=JSON)
            if reply.status >= 300:  # noqa: PLR2004 - it asks to wait
                append(connection, b",".join(records))
        connection.request("POST", f"{STREAM}/_flush")
        wait_until_released(folder)
    return size


def record(number: int) -> bytes:
    """Some 300 bytes of a log line."""
    rare, even = number % RARE == 0, number % 2 == 0
    return json.dumps(
        {
            "at": 1_790_000_000_000 + number,
            "service": "rare" if rare else f"service-{number % 17}",
            "half": "yes" if even else "no",
            "status": 555 if rare else 200 if even else 404,
            "request": f"{number * 2654435761 % 2**32:08x}",
            "path": f"/v1/orders/{number % 9973}/items",
            "message": "the request was answered after its session had been looked up in the nearest of three caches",
            "user": {"id": number % 5003, "plan": "team"},
        }
    ).encode()


def measure(share: str, query: str, pid: int, size: int) -> None:
    """One walk through the whole stream, and meanwhile how soon a small request is answered."""
    start, began = proc.cpu_mark(pid), time.perf_counter()
    with probing() as waits, closing(FilterReader(PORT)) as reader:
        shown, pages = reader.walk(query)
    seconds, end = time.perf_counter() - began, proc.cpu_mark(pid)
    waits.sort()
    print(
        f"{share:6} {query:16} {size / MEGABYTE / seconds:6.0f} MB/s  {pages:3} pages of {shown / MEGABYTE:6.1f} MB  "
        f"{1000 * (end.tree - start.tree) / (size / MEGABYTE):5.2f} CPU ms/MB  {len(waits)} probes: "
        f"p50 {1000 * waits[len(waits) // 2] if waits else 0:.1f} ms, "
        f"p99 {1000 * waits[len(waits) * 99 // 100] if waits else 0:.1f} ms  "
        f"others {proc.others_percent(start, end, seconds):.0f} % of the machine",
        flush=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
