"""Entries a second of each family: `python -m tests.indexers.bench`. One process, data that is made up."""

import random
import time
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from indexers import exact, lexicon, rollups
from indexers.exact import Exact, Filter
from indexers.lexicon import Lexicon, key_page
from indexers.rollups import Counted, Part, Rollups, Summarised
from tests.indexers.files import object_name, peak_of_memory

ENTRIES = 35_000  # of 480 bytes, as in an object of 16 MiB
OBJECTS = 16
SPACES = (8, 5, 200, 1000, 40, 3, 300, ENTRIES * 20, 20)  # distinct values of each field; the eighth is an id


def main() -> None:
    bench_lexicon(random.Random(1))
    bench_exact(random.Random(2))
    bench_rollups(random.Random(3))


def bench_lexicon(draw: random.Random) -> None:
    tables = [table(stream=[1] * ENTRIES, key=texts(draw, ENTRIES * 20)) for _ in range(OBJECTS)]
    runs = bench("lexicon", tables, lexicon.build, lambda files, sink: lexicon.merge([Lexicon(f) for f in files], sink))
    reader, after, pages, begun = Lexicon(runs), None, 0, time.perf_counter()
    while pages < 200:
        after, pages = key_page([reader], 1, after=after, limit=500).next_after, pages + 1
    print(f"  page of 500 keys {(time.perf_counter() - begun) / pages * 1e3:.2f} ms")  # noqa: T201


def bench_exact(draw: random.Random) -> None:
    tables = []
    for _ in range(OBJECTS):
        columns = [table(stream=[1] * ENTRIES, field=[f"field{at}"] * ENTRIES, value=texts(draw, space))
                   for at, space in enumerate(SPACES)]  # fmt: skip
        tables.append(pa.concat_tables(columns))
    made: list[exact.Built] = []

    def merge(files: list[bytes], sink: BytesIO) -> None:
        made.append(exact.merge([Exact(file) for file in files], sink))

    run = bench("exact, nine fields", tables, exact.build, merge)
    data, filtered = made[-1].filter, Filter(made[-1].filter)
    print(f"  filter {len(data) / 1e6:.2f} MB of {filtered.keys} keys")  # noqa: T201
    for name, reader in (("run", Exact(run)), ("filter", Exact(run, filtered=filtered))):
        begun = time.perf_counter()
        for at in range(200):
            reader.objects_of(1, "field7", f"absent-{at}")
        print(f"  absent value by {name} {(time.perf_counter() - begun) / 200 * 1e3:.3f} ms")  # noqa: T201


def bench_rollups(draw: random.Random) -> None:
    parts = [
        Part(
            stream=1,
            rollup="requests",
            intervals=[60_000, 3_600_000],
            times=pa.array([(number * ENTRIES + at) * 20 for at in range(ENTRIES)], pa.int64()),
            dimensions=[texts(draw, 8), texts(draw, 5)],
            measures={"n": Counted(), "ms": Summarised([draw.random() * 500 for _ in range(ENTRIES)], histogram=True)},
        )
        for number in range(OBJECTS)
    ]
    bench("rollups, two intervals and measures", parts, rollups.build,
          lambda files, sink: rollups.merge([Rollups(f) for f in files], sink))  # fmt: skip


def bench(
    name: str, inputs: list[Any], build: Callable[..., Any], merge: Callable[[list[bytes], BytesIO], Any]
) -> bytes:
    files, begun = [], time.perf_counter()
    for number, each in enumerate(inputs):
        sink = BytesIO()
        build([(object_name(number), [each])], sink)
        files.append(sink.getvalue())
    built, sink = time.perf_counter() - begun, BytesIO()
    with peak_of_memory() as peak:
        begun = time.perf_counter()
        merge(files, sink)
        merged = time.perf_counter() - begun
        rows = sum(pq.read_metadata(BytesIO(file)).num_rows for file in files)
        raw = OBJECTS * ENTRIES
        print(  # noqa: T201
            f"{name}: build {raw / built:,.0f} entries/s; merge of {OBJECTS} runs {rows / merged:,.0f} rows/s, "
            f"{raw / merged:,.0f} entries/s, peak {peak() / 1e6:.0f} MB; "
            f"{sum(map(len, files)) / raw:.1f} bytes an entry in runs, {len(sink.getvalue()) / raw:.1f} merged"
        )
    return sink.getvalue()


def table(**columns: Any) -> Any:
    return pa.table(columns)


def texts(draw: random.Random, space: int) -> list[str]:
    return [f"v{draw.randrange(space):07x}" for _ in range(ENTRIES)]


if __name__ == "__main__":
    main()
