"""Ten thousand small streams in packs: every index says of each of them what a scan says."""

import asyncio
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import tantivy

from indexers.companion import Layout, Pack, View
from indexers.companion.layout import SEG
from indexers.exact import Exact
from indexers.lexicon import Lexicon
from indexers.rollups import Rollups
from indexers.runs import RunReader
from streams_node.objects.keys import ObjectId, index_key
from streams_node.schema.search_config import parse
from streams_node.testing.inprocess import InProcess
from tests.indexing.world import KEYED, SEARCH, FakeDriver, append, create, desk_of, indexed, on_loop, rows, sealed

STREAMS = 10_000
ENTRIES = 50
SEARCHED_EVERY = 10  # one in so many has all families, the others a lexicon
AT_ONCE = 64
LOOKED_FOR = 60
MINUTE_MS = 60_000
KEYED_SHARE = 0.9
ROLLUP = {
    "timestampField": "at",
    "dimensions": ["k"],
    "intervals": ["1m"],
    "measures": {"n": {"kind": "count"}},
}
FULL: dict[str, Any] = KEYED | {"search": SEARCH | {"rollups": {"traffic": ROLLUP}}}
FAMILIES = ("companion", "exact", "lexicon", "rollups")
COVERS = """
SELECT c.stream, c.family, c.first_seq, c.end_seq, o.made
  FROM index_covers AS c JOIN index_objects AS o ON o.id = c.object
 ORDER BY c.stream, c.family, c.first_seq
"""
Entry = dict[str, Any]


def drawn(number: int) -> list[Entry]:
    """The entries of a stream; some have no key."""
    draw = random.Random(number).random
    entries: list[Entry] = []
    for _ in range(ENTRIES):
        entry: Entry = {"at": int(draw() * 10) * MINUTE_MS, "text": f"w{int(draw() * 9)} w{int(draw() * 9)}"}
        if draw() < KEYED_SHARE:
            entry["k"] = f"k{int(draw() * 12)}"
        entries.append(entry)
    return entries


async def filled(node: InProcess) -> dict[int, list[Entry]]:
    """What is in each stream, by incarnation."""

    async def one(number: int) -> None:
        path = f"/v1/stream/s{number}"
        await create(node, path, FULL if number % SEARCHED_EVERY == 0 else KEYED)
        await append(node, path, drawn(number))

    for first in range(0, STREAMS, AT_ONCE):
        await asyncio.gather(*(one(number) for number in range(first, min(STREAMS, first + AT_ONCE))))
    await node.context.ledger.committer.settled()
    return {stream: drawn(int(name[1:])) for stream, name in await rows(node, "SELECT id, name FROM streams")}


class Objects:
    """All index objects that cover anything."""

    def __init__(self, driver: FakeDriver, made: set[tuple[Any, str]]) -> None:
        self._store = driver.store
        self._made = made

    def read(self, family: Any) -> list[bytes]:
        names = sorted(made for of, made in self._made if of == family)
        return [self._store.get(index_key(family, ObjectId(made))).data for made in names]


def table_rows(reader: RunReader) -> list[dict[str, Any]]:
    with reader:
        return [row for table in reader.tables() for row in table.to_pylist()]


@on_loop
async def test_ten_thousand_streams_in_packs_are_indexed_as_they_are(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node", stream_metrics_ms=0) as node:
        truth = await filled(node)
        configs = dict(await rows(node, "SELECT stream, configs FROM index_plans"))
        searched = {stream for stream in truth if "companion" in msgspec.json.decode(configs[stream])}
        assert (len(truth), len(searched)) == (STREAMS, STREAMS // SEARCHED_EVERY)
        await sealed(node)
        await desk_of(node).follow()
        driver = FakeDriver(node)
        assert await driver.finish() >= STREAMS // 1000  # a claim has so many stretches at most
        covers = await rows(node, COVERS)
        assert [each[:4] for each in covers] == [
            (stream, family, 0, ENTRIES)
            for stream in sorted(truth)
            for family in (FAMILIES if stream in searched else FAMILIES[2:3])
        ]
        objects = Objects(driver, {(family, made) for _, family, _, _, made in covers})
        check_lexicon(objects, truth)
        check_exact(objects, {stream: truth[stream] for stream in searched})
        check_rollups(objects, {stream: truth[stream] for stream in searched})
        check_companions(objects, {stream: truth[stream] for stream in searched})


def check_lexicon(objects: Objects, truth: dict[int, list[Entry]]) -> None:
    found: Counter[tuple[int, str]] = Counter()
    for data in objects.read("lexicon"):
        for row in table_rows(Lexicon(data)):
            found[row["stream"], row["key"]] += row["count"]
    assert found == Counter((stream, each["k"]) for stream, entries in truth.items() for each in entries if "k" in each)


def check_exact(objects: Objects, truth: dict[int, list[Entry]]) -> None:
    found: Counter[tuple[int, str, str]] = Counter()
    for data in objects.read("exact"):
        for row in table_rows(Exact(data)):
            found[row["stream"], row["field"], row["value"].decode()] += row["count"]
    assert found == Counter(
        (stream, "k", each["k"]) for stream, entries in truth.items() for each in entries if "k" in each
    )


def check_rollups(objects: Objects, truth: dict[int, list[Entry]]) -> None:
    found: Counter[tuple[int, int, str | None]] = Counter()
    for data in objects.read("rollups"):
        for row in table_rows(Rollups(data)):
            (dimension,) = msgspec.json.decode(row["dimensions"])
            found[row["stream"], row["start"], dimension] += int(row["count"])
    assert found == Counter(
        (stream, each["at"], each.get("k")) for stream, entries in truth.items() for each in entries
    )


def check_companions(objects: Objects, truth: dict[int, list[Entry]]) -> None:
    layout = Layout(parse(FULL["search"]).fields)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        view = View([Pack(data) for data in objects.read("companion")], Path(scratch) / "view")
        assert view.docs == ENTRIES * len(truth)
        draw = random.Random(5)
        query = tantivy.Query
        for stream in draw.sample(sorted(truth), LOOKED_FOR):
            one = query.term_query(view.schema, SEG, stream)
            for name, term, matches in (
                ("k", "k3", lambda each: each.get("k") == "k3"),
                ("text", "w4", lambda each: "w4" in each["text"].split()),
            ):
                term_query = query.term_query(view.schema, layout.of(name).column, term)
                both = query.boolean_query([(tantivy.Occur.Must, one), (tantivy.Occur.Must, term_query)])
                hits = view.searcher.search(both, limit=ENTRIES).hits
                found = sorted(view.addresses([address for _, address in hits]))
                assert found == [(stream, seq) for seq, each in enumerate(truth[stream]) if matches(each)]
