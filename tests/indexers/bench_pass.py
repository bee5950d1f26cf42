"""What the one pass takes of raw bytes, by family: `python -m tests.indexers.bench_pass [rounds]`.

One process, CPU time of all its threads; beside it what orjson takes at that moment, as a machine that is busy with
other things is slower. Log events of some 480 bytes with 13 fields, whose words and ids are made up.
"""

import random
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import orjson
import pyarrow as pa

from indexers.build import Builder, Made
from indexers.merge import merge
from indexers.messages import Build, Meaning, Merge, Source, Stretch
from indexers.plan import Family
from tests.indexers.world import Ids, meaning

ENTRIES = 35_000  # 16 MiB
OBJECTS = 16
KEYWORDS = {
    "level": 4,
    "service": 8,
    "environment": 3,
    "method": 4,
    "path": 200,
    "region": 5,
    "userId": 1000,
    "agent": 20,
}


def main(rounds: int) -> None:
    of = meaning(registry())
    objects = [rows(number) for number in range(2)]
    raw = sum(pa.compute.sum(pa.compute.binary_length(each["payload"])).as_py() for each in objects)
    print(f"{raw / len(objects) / ENTRIES:.0f} bytes an entry")  # noqa: T201
    families = list(of.configs)
    for some in [[family] for family in families] + [families]:
        spent, alone, size = list[float](), list[float](), 0
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                begun = time.process_time()
                made = built(of, objects, some, Path(folder), 0)
                spent.append(time.process_time() - begun)
                begun = time.process_time()
                deque((orjson.loads(text) for each in objects for text in each["payload"].to_pylist()), maxlen=0)
                alone.append(time.process_time() - begun)
                size = sum(each.object.bytes + each.object.filter_bytes for each in made)
        print(  # noqa: T201
            f"{' + '.join(some)}: {raw / median(spent) / 1e6:.1f} MB/s of one core, {size / raw:.3f} of the raw bytes; "
            f"decoding alone {raw / median(alone) / 1e6:.0f} MB/s"
        )
    bench_merges(of, raw / len(objects))


def bench_merges(of: Meaning, raw: float) -> None:
    """Sixteen to one."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        made = [each for at in range(OBJECTS) for each in built(of, [rows(at)], list(of.configs), folder, at)]
        for number, family in enumerate(of.configs):
            inputs = [each for each in made if each.object.family == family]
            order = Merge(family=family, level=1, inputs=[each.object for each in inputs])
            begun = time.process_time()
            merge(order, {each.object.made: each.path for each in inputs}, folder, f"{number:032x}")
            spent = time.process_time() - begun
            print(f"merge {family}: {raw * OBJECTS / spent / 1e6:.0f} MB/s of raw bytes")  # noqa: T201


def built(of: Meaning, objects: Sequence[Any], families: Sequence[Family], folder: Path, first: int) -> list[Made]:
    ids = Ids()
    for _ in range(first * 8):
        ids()
    with Builder([of], folder) as builder:
        for at, table in enumerate(objects):
            start = (first + at) * ENTRIES
            stretch = Stretch(
                stream=1, first_seq=start, end_seq=start + ENTRIES, row_index=0, meaning=0, families=list(families)
            )
            source = Source(made=f"{first + at:032x}", key="", kind="segment", bytes=0, sha256="")
            builder.add(Build(source=source, stretches=[stretch]), [(0, table)])
        return list(builder.finish(ids))


def rows(number: int) -> Any:
    draw = random.Random(number)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 9))) for _ in range(5000)]
    start = number * ENTRIES
    payloads = [orjson.dumps(event(draw, words, start + at)) for at in range(ENTRIES)]
    return pa.table(
        {
            "stream": pa.array([1] * ENTRIES, pa.int64()),
            "seq": pa.array(range(start, start + ENTRIES), pa.int64()),
            "append_ts": pa.array(range(start, start + ENTRIES), pa.timestamp("us", "UTC")),
            "append_start": pa.array([True] * ENTRIES),
            "schema_version": pa.array([1] * ENTRIES, pa.int32()),
            "key": pa.array([f"u{draw.randrange(1000)}" for _ in range(ENTRIES)]),
            "payload": pa.array(payloads, pa.binary()),
        }
    )


def event(draw: random.Random, words: list[str], at: int) -> dict[str, Any]:
    second, ms = divmod(at * 20, 1000)
    clock = f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}.{ms:03}"
    return {
        "timestamp": f"2026-03-{1 + second // 86_400 % 28:02}T{clock}Z",
        **{name: f"{name}-{draw.randrange(count)}" for name, count in KEYWORDS.items()},
        "requestId": f"{draw.getrandbits(128):032x}",
        "status": draw.choice([200, 201, 404, 500]),
        "duration": round(draw.random() * 500, 3),
        "message": " ".join(words[int(draw.paretovariate(0.7)) % 5000] for _ in range(22)),
    }


def registry() -> dict[str, Any]:
    def declared(name: str, kind: str, *flags: str) -> dict[str, Any]:
        return {"kind": kind, "bindings": [{"version": 1, "jsonPointer": f"/{name}"}], **dict.fromkeys(flags, True)}

    every = ("exact", "prefix", "exists", "aggregatable")
    fields = {
        "timestamp": declared("timestamp", "date", "column", "exists", "sortable"),
        **{name: declared(name, "keyword", *every) for name in KEYWORDS},
        "requestId": declared("requestId", "keyword", "exact", "prefix", "exists"),
        "status": declared("status", "integer", "exact", "column", "exists", "sortable", "aggregatable"),
        "duration": declared("duration", "float", "column", "exists", "sortable", "aggregatable"),
        "message": {**declared("message", "text", "exists", "positions"), "analyzer": "unicode_word_v1"},
    }
    measures = {"n": {"kind": "count"}, "ms": {"kind": "summary", "field": "duration", "histogram": "log2_v1"}}
    rollup = {"dimensions": ["service", "level"], "intervals": ["1m", "1h"], "measures": measures}
    return {
        "apiVersion": "durable.streams/schema-registry/v1", "schema": "s", "currentVersion": 1,
        "routingKey": {"jsonPointer": "/userId", "required": False},
        "search": {"primaryTimestampField": "timestamp", "fields": fields, "rollups": {"requests": rollup}},
        "boundaries": [{"offset": 0, "version": 1}], "schemas": {"1": {}}, "lenses": {},
    }  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
