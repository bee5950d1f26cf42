"""A random world to index: streams that mean different things, their entries, and the objects in which they are sealed.

What is right is told by the plain evaluator over each entry, read with the standard library.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from indexers.build import Builder, Made
from indexers.messages import Build, Meaning, Source, Stretch
from indexers.plan import Family, plan_of
from streams_node.schema.errors import LensFailed
from streams_node.schema.lens import lens_of
from streams_node.schema.promotion import Promoter, room_for
from streams_node.schema.registry import Registry, decode

WORDS = ["red", "Green", "BLUE", "x1", "straße", "ΟΔΟΣ", "İstanbul", "naïve", "a_b", "日本", "e\u0301t", "\u01c6"]
KEYS = ["", "a", "A", "b-1", "b-10", "Ünï", "\0", "z\U0001f600", "same", "Same", "x" * 600]
ODD: list[Any] = [
    None, True, False, [], {}, {"x": 1}, "", " 7 ", "true", "nan", "1e3", -0.0, 10**30, -(10**25), 2**63, 2**64 - 1,
    -(2**63), 0.1, 1e300, "2026-02-30", "+275760-09-13T00:00:00Z", "-200000-01-01", "q" * 70_000, "é" * 40_000,
]  # fmt: skip
BAD = [b"5", b"[1]", b'"x"', b"null", b"not json", b"\xff", b"{", b"[" * 3000, b"", b'{"n":NaN}', b'{"k":"\xc3"}']
BASE_MS = 1_770_000_000_000


@dataclass(frozen=True)
class Entry:
    stream: int
    seq: int
    ts: int
    key: str | None
    payload: bytes


@dataclass
class World:
    """`entries` by stream; `meanings` and which of them a stream has."""

    meanings: list[Meaning]
    meaning_of: dict[int, int]
    entries: dict[int, list[Entry]] = field(default_factory=dict)
    registries: dict[int, Registry] = field(default_factory=dict)
    records: dict[tuple[int, int], Any] = field(default_factory=dict)

    def registry(self, stream: int) -> Registry:
        number = self.meaning_of[stream]
        if number not in self.registries:
            self.registries[number] = decode(json.loads(bytes(self.meanings[number].registry)))
        return self.registries[number]

    def record(self, entry: Entry) -> Any:
        """The entry as the current version has it; None where it has no fields."""
        place = entry.stream, entry.seq
        if place not in self.records:
            self.records[place] = self._record(entry)
        return self.records[place]

    def _record(self, entry: Entry) -> Any:
        record = loaded(entry.payload)
        registry = self.registry(entry.stream)
        lenses = {at: lens_of(document) for at, document in registry.lenses.items()}
        promoter = Promoter(lenses, registry.current_version)
        if entry.seq < registry.current_from:
            try:
                record = promoter.promote(record, registry.version_of(entry.seq), room_for(len(entry.payload)))
            except LensFailed:
                return None
        return record if isinstance(record, dict) else None


def loaded(payload: bytes) -> Any:
    """JSON as far as it is JSON; lone surrogates are."""
    try:
        return json.loads(payload, parse_constant=lambda _: refuse())
    except (ValueError, RecursionError):
        return None


def refuse() -> None:
    raise ValueError


def random_world(seed: int, *, streams: int = 6, most: int = 40) -> World:
    draw = random.Random(seed)
    documents = [random_registry(draw) for _ in range(3)]
    world = World([meaning(document) for document in documents], {})
    for stream in range(1, streams + 1):
        number = world.meaning_of[stream] = draw.randrange(len(documents))
        last = documents[number]["boundaries"][-1]["offset"]
        ts, found = 1_000_000 * stream, []
        for seq in range(draw.randint(1, most)):
            ts += draw.randrange(3)
            key = draw.choice([None, *KEYS])
            found.append(Entry(stream, seq, ts, key, random_payload(draw, old=seq < last)))
        world.entries[stream] = found
    return world


def random_registry(draw: random.Random) -> dict[str, Any]:
    """One version, or two with a lens that renames `/was` to `/k`."""
    two = draw.random() < 0.6
    lens = {
        "apiVersion": "durable.lens/v1", "schema": "s", "from": 1, "to": 2,
        "ops": [{"op": "rename", "from": "/was", "to": "/k"}],
    }  # fmt: skip
    return {
        "apiVersion": "durable.streams/schema-registry/v1",
        "schema": "s",
        "currentVersion": 2 if two else 1,
        "routingKey": {"jsonPointer": "/k", "required": False},
        "search": random_search(draw),
        "boundaries": [{"offset": 0, "version": 1}, *([{"offset": 7, "version": 2}] if two else [])],
        "schemas": {"1": {}, **({"2": {}} if two else {})},
        "lenses": {"1": lens} if two else {},
    }


def random_search(draw: random.Random) -> dict[str, Any]:
    def flags(*names: str) -> dict[str, bool]:
        return {name: True for name in names if draw.random() < 0.5}

    def bound(pointer: str) -> list[dict[str, Any]]:
        return [{"version": 1, "jsonPointer": pointer}]

    lower = {"normalizer": "lowercase_v1"} if draw.random() < 0.5 else {}
    text = {"kind": "text", "analyzer": "unicode_word_v1", "exists": True}
    fields: dict[str, Any] = {
        "t": {"kind": "date", "bindings": bound("/t"), "column": True, "exists": True, **flags("exact", "sortable")},
        "k": {"kind": "keyword", "bindings": bound("/k"), "exact": True, "prefix": True, "exists": True, **lower,
              **flags("sortable", "aggregatable")},
        "tags.all": {"kind": "keyword", "bindings": bound("/tags"), "exact": True, "prefix": True, "exists": True},
        "m": {**text, "bindings": bound("/m"), "positions": True},
        "w": {**text, "bindings": bound("/deep/w/0")},
        "n": {"kind": "integer", "bindings": bound("/n"), "exact": True, "column": True, "exists": True,
              "aggregatable": True},
        "f": {"kind": "float", "bindings": bound("/f"), "column": True, "exists": True, "aggregatable": True,
              **flags("exact")},
        "b": {"kind": "bool", "bindings": bound("/b"), "exact": True, "column": True, "exists": True},
    }  # fmt: skip
    for name in draw.sample(["w", "b", "tags.all"], draw.randrange(3)):
        del fields[name]
    dimensions = draw.sample([name for name in ("k", "n", "b", "tags.all") if name in fields], 2)
    rollups = {
        "r": {
            "dimensions": dimensions, "intervals": ["1s", "1m", "7h"],
            "measures": {"all": {"kind": "count"}, "some": {"kind": "count", "include": "n:>3"}},
            **({"include": "has:m"} if draw.random() < 0.4 else {}),
        },
        "sums": {
            "dimensions": [], "intervals": ["1m"],
            "measures": {"f": {"kind": "summary", "field": "f", "histogram": "log2_v1"}},
        },
        "parts": {
            "timestampField": "t", "dimensions": dimensions[:1], "intervals": ["5m"],
            "measures": {"p": {"kind": "summary_parts", "countJsonPointer": "/p/c", "sumJsonPointer": "/p/s",
                               "minJsonPointer": "/p/lo", "maxJsonPointer": "/p/hi", "histogramJsonPointer": "/p/h"}},
        },
    }  # fmt: skip
    default = [{"field": "m", "boost": 2}, {"field": "k"}]
    return {"primaryTimestampField": "t", "defaultFields": default, "fields": fields, "rollups": rollups}


def random_payload(draw: random.Random, *, old: bool) -> bytes:
    if draw.random() < 0.06:
        bad = [
            b"5",
            b"[1]",
            b'"x"',
            b"null",
            b"not json",
            b"\xff",
            b"{",
            b"[" * 3000,
            b"",
            b'{"n":NaN}',
            b'{"k":"\xc3"}',
        ]
        return draw.choice(bad)
    record: dict[str, Any] = {
        "t": random_time(draw),
        "k": draw.choice(KEYS),
        "tags": [draw.choice(KEYS) for _ in range(draw.randrange(3))],
        "m": " ".join(draw.choice(WORDS) for _ in range(draw.randrange(6))),
        "deep": {"w": [" ".join(draw.choice(WORDS) for _ in range(3))]},
        "n": draw.randrange(8),
        "f": draw.randrange(-40, 40) / 4,
        "b": draw.random() < 0.5,
        "p": {"c": 2, "s": draw.randrange(9), "lo": -1, "hi": "4.5", "h": {"1": 1, "4": draw.randrange(3)}},
    }  # fmt: skip
    for name in list(record):
        if draw.random() < 0.12:
            del record[name]
        elif draw.random() < 0.12:
            record[name] = draw.choice([*ODD, draw.choice(WORDS), [draw.choice(WORDS), [None, draw.choice(ODD)], 3]])
    if old and "k" in record and draw.random() < 0.9:
        record["was"] = record.pop("k")
    for number in range(draw.choice([0, 0, 0, 200])):
        record[f"extra{number}"] = number
    text = json.dumps(record, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")
    return text.replace(b'"same"', b'"\\ud800lone"') if draw.random() < 0.1 else text


def random_time(draw: random.Random) -> int | str:
    text = f"2026-02-0{draw.randint(1, 3)}T04:05:06.{draw.randrange(10**9):09}Z"
    return BASE_MS + draw.randrange(90_000) if draw.random() < 0.5 else text


def meaning(document: dict[str, Any], profile: str = "generic") -> Meaning:
    configs = dict(plan_of(decode(document), profile, is_json=True).configs)
    raw = msgspec.Raw(json.dumps(document).encode())
    return Meaning(registry=raw, profile=profile, content_type="application/json", configs=configs)


def sealed(entries: Sequence[Entry]) -> Any:
    """The rows of an object: sorted by stream and sequence, as the format says."""
    rows = sorted(entries, key=lambda entry: (entry.stream, entry.seq))
    return pa.table(
        {
            "stream": pa.array([each.stream for each in rows], pa.int64()),
            "seq": pa.array([each.seq for each in rows], pa.int64()),
            "append_ts": pa.array([each.ts for each in rows], pa.timestamp("us", "UTC")),
            "append_start": pa.array([True] * len(rows), pa.bool_()),
            "schema_version": pa.array([1] * len(rows), pa.int32()),
            "key": pa.array([each.key for each in rows], pa.string()),
            "payload": pa.array([each.payload for each in rows], pa.binary()),
        }
    )


@dataclass(frozen=True)
class Sealed:
    """An object: some neighbouring entries of some streams."""

    made: str
    table: Any
    parts: tuple[tuple[int, int, int], ...]  # stream, first, end

    def build(self, world: World, families: Sequence[Family]) -> Build:
        rows, stretches = 0, []
        for stream, first, end in self.parts:
            number = world.meaning_of[stream]
            known: list[Family] = [family for family in families if family in world.meanings[number].configs]
            stretches.append(
                Stretch(stream=stream, first_seq=first, end_seq=end, row_index=rows, meaning=number, families=known)
            )
            rows += end - first
        source = Source(made=self.made, key="", kind="pack", bytes=0, sha256="")
        return Build(source=source, stretches=stretches)

    def pieces(self, draw: random.Random) -> Iterator[tuple[int, Any]]:
        """Its rows, as its row groups might come."""
        at = 0
        while at < self.table.num_rows:
            count = draw.randint(1, self.table.num_rows)
            yield at, self.table.slice(at, count)
            at += count


def sealed_objects(world: World, draw: random.Random, count: int) -> list[Sealed]:
    """All entries, cut into so many objects: of every object some of most streams."""
    cuts = {stream: sorted(draw.choices(range(len(found) + 1), k=count - 1)) for stream, found in world.entries.items()}
    objects = []
    for number in range(count):
        parts = []
        for stream, found in sorted(world.entries.items()):
            bounds = [0, *cuts[stream], len(found)]
            if bounds[number] < bounds[number + 1]:
                parts.append((stream, bounds[number], bounds[number + 1]))
        entries = [each for stream, first, end in parts for each in world.entries[stream][first:end]]
        if entries:
            objects.append(Sealed(f"{number:032x}", sealed(entries), tuple(parts)))
    return objects


class Ids:
    """Ids of index objects, one after the other."""

    def __init__(self) -> None:
        self._next = 1 << 100

    def __call__(self) -> str:
        self._next += 1
        return f"{self._next:032x}"


def built(
    world: World, objects: Sequence[Sealed], folder: Path, ids: Ids, draw: random.Random, families: Sequence[Family]
) -> list[Made]:
    """The index objects of one task."""
    with Builder(world.meanings, folder) as builder:
        for each in objects:
            builder.add(each.build(world, families), each.pieces(draw))
        return list(builder.finish(ids))
