"""Index objects made by the test itself out of what it appended: any stretch of entries, in any number of runs.

The builders are those of the node's drivers; what goes in comes from the plain list of entries, never from the objects
of the bucket, as sequences are all that covers name.
"""

import json
import random
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import xxhash

from indexers import exact, lexicon
from indexers.exact import Exact
from indexers.lexicon import Lexicon
from indexers.runs import Written
from search.language import exact_text, values
from streams_node.indexing.known import KnownCovers
from streams_node.objects.keys import Key, ObjectId, index_filter_key, index_key
from streams_node.objects.protocol import WriteId
from streams_node.schema.search_config import Kind, SearchConfig


class Row(NamedTuple):
    """An entry as an index builder sees it: promoted, if it has to be."""

    key: str | None
    record: Any


class Source(NamedTuple):
    """Entries [first, end) of a stream, and whether some of them could not be understood."""

    stream: int
    first: int
    end: int
    rows: Sequence[Row]
    skipped: int = 0


@dataclass
class Run:
    """An index object in the bucket."""

    family: str
    config: str
    made: str
    sources: list[Source]
    data: bytes
    keys: list[Key] = field(default_factory=list)


@dataclass
class Indexer:
    """Puts runs into a bucket, and covers into the tables."""

    bare: Any  # the store itself, behind every line to it
    covers: KnownCovers
    chance: random.Random
    runs: list[Run] = field(default_factory=list)

    async def lexicon(self, config: str, sources: Sequence[Source]) -> Run:
        built = self._built([(each, [_keys(each)]) for each in sources], lexicon.build)
        return await self._add("lexicon", config, sources, *built)

    async def exact(self, config: str, sources: Sequence[Source], search: SearchConfig, version: int) -> Run:
        written: list[exact.Built] = []

        def build(objects: Any, target: Any) -> Written:
            written.append(exact.build(objects, target))
            return written[0].written

        built = self._built([(each, [_values(each, search, version)]) for each in sources], build)
        return await self._add("exact", config, sources, *built, beside=written[0].filter)

    async def merged(self, runs: Sequence[Run]) -> Run:
        """One run in the place of some."""
        sources = [source for run in runs for source in run.sources]
        target, beside = BytesIO(), b""
        if runs[0].family == "lexicon":
            written = lexicon.merge([Lexicon(run.data) for run in runs], target)
        else:
            built = exact.merge([Exact(run.data) for run in runs], target)
            written, beside = built.written, built.filter
        await self.drop(runs)
        return await self._add(runs[0].family, runs[0].config, sources, target.getvalue(), written, beside=beside)

    async def drop(self, runs: Sequence[Run]) -> None:
        """Take what they cover away; the objects stay, for whoever still reads them."""
        made = [run.made for run in runs]

        def delete(db: sqlite3.Connection) -> None:
            db.execute("BEGIN IMMEDIATE")
            for each in made:
                db.execute(
                    "DELETE FROM index_covers WHERE object = (SELECT id FROM index_objects WHERE made = ?)", (each,)
                )
                db.execute("UPDATE index_objects SET dead_us = 1 WHERE made = ?", (each,))
            db.execute("COMMIT")

        await self.covers.change(delete)
        self.runs = [run for run in self.runs if run.made not in made]

    def spoil(self, run: Run, how: str) -> None:
        """Damage a run in the bucket, behind everybody's back."""
        key = self.chance.choice(run.keys)
        held = self.bare._objects[key]
        if how == "gone":
            self.bare.delete(key)
            return
        data = bytearray(held.data)
        if how == "flipped":
            data[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
        else:
            del data[self.chance.randrange(len(data)) :]
        self.bare._objects[key] = held._replace(data=bytes(data))

    def _built(
        self, objects: Sequence[tuple[Source, list[Any]]], build: Callable[[Any, Any], Written]
    ) -> tuple[bytes, Written]:
        target = BytesIO()
        named = [(f"{self.chance.getrandbits(128):032x}", tables) for _, tables in objects]
        written = build(named, target)
        return target.getvalue(), written

    async def _add(
        self, family: Any, config: str, sources: Sequence[Source], data: bytes, written: Written, *, beside: bytes = b""
    ) -> Run:
        made = f"{self.chance.getrandbits(128):032x}"
        run = Run(family, config, made, list(sources), data, [index_key(family, ObjectId(made))])
        self._put(run.keys[0], data)
        if beside:
            run.keys.append(index_filter_key(ObjectId(made)))
            self._put(run.keys[1], beside)
        sums = [xxhash.xxh3_128_hexdigest(part) if part else "" for part in (data, beside)]
        assert sums[0] == written.xxh128
        values = (made, family, 0, len(data), sums[0], written.rows, len(beside), sums[1], 0, 1)
        covers = [
            (each.stream, family, config, each.first, each.end, ordinal, each.end - each.first, 0, 0, 0, each.skipped)
            for ordinal, each in enumerate(sources)
        ]

        def insert(db: sqlite3.Connection) -> None:
            db.execute("BEGIN IMMEDIATE")
            at = db.execute(
                "INSERT INTO index_objects (made, family, level, bytes, sum, rows, filter_bytes, filter_sum,"
                " payload_bytes, made_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            ).lastrowid
            db.executemany(
                "INSERT INTO index_covers (object, stream, family, config, first_seq, end_seq, ordinal, entries,"
                " payload_bytes, min_ts, max_ts, skipped) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(at, *cover) for cover in covers],
            )
            db.execute("COMMIT")

        await self.covers.change(insert)
        self.runs.append(run)
        return run

    def _put(self, key: Key, data: bytes) -> None:
        self.bare.put(key, data, write_id=WriteId(f"{self.chance.getrandbits(64):x}"))


def _keys(source: Source) -> Any:
    keys = [row.key for row in source.rows]
    return pa.table({"stream": pa.array([source.stream] * len(keys), pa.int64()), "key": pa.array(keys, pa.string())})


def _values(source: Source, search: SearchConfig, version: int) -> Any:
    found: list[tuple[int, str, bytes]] = []
    for name, each in search.fields.items():
        if each.exact and each.kind is not Kind.TEXT:
            read = values(each, version)
            for row in source.rows:
                texts = [exact_text(each.kind, value) for value in read(row.record)]
                found += [(source.stream, name, text.encode("utf-8", "surrogatepass")) for text in texts]
    kinds = {"stream": pa.int64(), "field": pa.string(), "value": pa.binary()}
    columns = {name: [row[at] for row in found] for at, name in enumerate(kinds)}
    return pa.table({name: pa.array(columns[name], kind) for name, kind in kinds.items()})


def cut(first: int, end: int, chance: random.Random, parts_max: int) -> list[tuple[int, int]]:
    """Some neighbouring stretches."""
    places = sorted({first, end, *(chance.randint(first, end) for _ in range(chance.randint(0, parts_max - 1)))})
    return [pair for pair in pairwise(places) if pair[0] < pair[1]]


def records(texts: Iterable[bytes]) -> list[Any]:
    """Parsed; None where that cannot be done."""
    found: list[Any] = []
    for text in texts:
        try:
            found.append(json.loads(text))
        except ValueError:
            found.append(None)
    return found
