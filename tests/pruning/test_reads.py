"""Reads of some entries, with indexes of all kinds and states: the plain list, and answers as without any index."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from indexers.plan import Family
from streams_node.answers import configs_of
from streams_node.ingest.state import StreamState
from streams_node.meaning import Meaning
from streams_node.schema.errors import LensFailed
from streams_node.schema.promotion import room_for
from streams_node.wal.lookup import Name
from tests.http.wire import Reply, ask
from tests.pruning.indexed import Indexer, Row, Run, Source, cut
from tests.selection.test_reads import FILTERS, check
from tests.selection.world import JSON, KEYS, PATH, SEARCH, SERVICES, Entry, World, worlds
from tests.tiers.node import until, value

VOLATILE = {"x-request-id", "date", "stream-filter-scanned-bytes"}


def seeded() -> random.Random:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - to run it again
    return random.Random(seed)


class Indexed:
    """A world whose stream is indexed by the test."""

    def __init__(self, world: World, bare: Any, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.spoilt: set[str] = set()
        indexes = world.node.context.tiers.indexes
        assert indexes is not None
        self.indexer = Indexer(bare, indexes._covers, chance)

    async def state(self) -> StreamState:
        return await self.world.node.context.ledger.readable(Name("_default", "s"))

    async def meaning(self) -> Meaning:
        found = (await self.state()).tail_meaning
        assert found is not None
        return found

    def covered(self, family: str, config: str) -> list[tuple[int, int]]:
        runs = [run for run in self.indexer.runs if (run.family, run.config) == (family, config)]
        return sorted((source.first, source.end) for run in runs for source in run.sources)

    async def rows(self, first: int, end: int) -> tuple[list[Row], int]:
        """Entries as an index builder sees them, and how many of them it cannot read."""
        registry, promoter = (await self.meaning()).registry, (await self.meaning()).promoter
        rows, skipped = list[Row](), 0
        for seq in range(first, end):
            entry = self.world.entries[seq]
            document: Any = entry.record
            if seq < registry.current_from:
                try:
                    document = promoter.promote(document, registry.version_of(seq), room_for(len(entry.text)))
                except LensFailed:
                    document = None
            skipped += not isinstance(document, dict)
            rows.append(Row(entry.key, document if isinstance(document, dict) else {}))
        return rows, skipped

    async def index(self, family: str, end: int) -> None:
        """Some of what is not covered below an entry, in one run."""
        meaning, chance = await self.meaning(), self.chance
        config = configs(meaning)[family]  # type: ignore[index] # a name of a family
        missing, at = list[tuple[int, int]](), 0
        for first, behind in [*self.covered(family, config), (end, end)]:
            if at < min(first, end):
                missing += cut(at, min(first, end), chance, 3)
            at = max(at, behind)
        chosen = [pair for pair in missing if chance.random() < 0.7]
        if not chosen:
            return
        stream, sources = (await self.state()).id, list[Source]()
        for first, behind in chosen:
            rows, skipped = await self.rows(first, behind)
            sources.append(Source(stream, first, behind, rows, skipped if family == "exact" else 0))
        if family == "lexicon":
            await self.indexer.lexicon(config, sources)
        else:
            assert meaning.registry.search is not None
            await self.indexer.exact(config, sources, meaning.registry.search, meaning.version)

    async def change(self) -> None:
        """Something of what happens to indexes."""
        runs, chance = self.indexer.runs, self.chance
        alike = [run for run in runs if runs and (run.family, run.config) == (runs[0].family, runs[0].config)]
        match chance.randrange(6):
            case 0 | 1:
                for family in ("lexicon", "exact"):
                    await self.index(family, chance.randint(1, len(self.world.entries)))
            case 2 if len(alike) > 1 and not any(run.made in self.spoilt for run in alike):
                await self.indexer.merged(alike)
            case 3 if runs:
                await self.indexer.drop([chance.choice(runs)])
            case 4 if runs:
                run = chance.choice(runs)
                if run.made not in self.spoilt:
                    self.spoilt.add(run.made)
                    await self.forget(run)
                    self.indexer.spoil(run, chance.choice(("flipped", "cut", "gone")))
            case _:
                pass

    async def forget(self, run: Run) -> None:
        """The node has no copy of it."""
        indexes = self.world.tiers.indexes
        assert indexes is not None
        for made in (run.made, f"{run.made}.filter"):
            await indexes.cache.drop(made)
        indexes._known._found.clear()


def configs(meaning: Meaning | None, *, is_json: bool = True) -> Mapping[Family, str]:
    """As if every stream's keys were indexed: those of these tests come by a header."""
    return {**configs_of(meaning, is_json=is_json), "lexicon": "of-keys"}


@pytest.fixture(autouse=True)
def _few_entries_are_worth_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams_node.http.selection._FEW_ENTRIES", 1)
    monkeypatch.setattr("streams_node.http.selection.configs_of", configs)
    monkeypatch.setattr("streams_node.answers.runs._DOUBTED_S", 0.0)
    monkeypatch.setattr("streams_node.answers.runs._AWAY_S", 0.0)


@pytest.mark.timeout(300)
def test_reads_with_indexes_are_the_plain_list(tmp_path: Path) -> None:
    chance = seeded()

    async def main() -> None:
        settings = {"own_segment_bytes": chance.choice((2000, 1 << 20))}
        async with worlds(tmp_path / "world", flush_ms_max=3_600_000, **settings) as (world, _):
            await world.create()
            indexed = Indexed(world, bare_of(world), chance)
            for _ in range(2):
                await world.append(chance, 12)
                await world.seal()
                await indexed.index("lexicon", len(world.entries))
                await indexed.index("exact", len(world.entries))
                for _ in range(4):
                    await indexed.change()
                await world.append(chance, 5)
                await check(world, chance)
            indexes = world.tiers.indexes
            assert indexes is not None
            assert indexes.runs.counts.looks

    anyio.run(main)


def bare_of(world: World) -> Any:
    """The store itself, behind every line to it."""
    store: Any = world.tiers._store
    return store._requests.store._store


# It fits texts only, and the old schema takes anything.
LENS = {"apiVersion": "durable.lens/v1", "schema": "s", "from": 1, "to": 2, "ops": [{
    "op": "convert", "path": "/n", "fromType": "string", "toType": "string",
    "forward": {"builtin": "lowercase"}, "backward": {"builtin": "lowercase"},
}]}  # fmt: skip
OLD = {"required": ["n"], "properties": {"n": {}}}


async def declare(world: World, update: dict[str, Any]) -> None:
    made = await ask(world.node, "POST", f"{PATH}/_schema", JSON, json.dumps(update).encode())
    assert made.status == 200, made.body


async def answer(world: World, query: str, path: str) -> tuple[int, dict[str, str], bytes]:
    reply: Reply = await ask(world.node, "GET", f"{path}?{query}")
    return reply.status, {name: text for name, text in reply.headers.items() if name not in VOLATILE}, reply.body


async def compare(world: World, chance: random.Random, pages: int) -> None:
    """Pages from anywhere, once with indexes and once without."""
    tiers = world.tiers
    indexes, state = tiers.indexes, await world.node.context.ledger.readable(Name("_default", "s"))
    for _ in range(pages):
        start = chance.choice(("-1", state.token(chance.randint(0, len(world.entries)))))
        key = quote(chance.choice(KEYS) or "", safe="")
        text = quote(chance.choice([*FILTERS, f"service:{chance.choice(('api', 'web'))} n:{chance.randrange(4)}"]))
        selection = chance.choice((f"key={key or 'a'}", f"filter={text}", f"filter={text}&key={key}"))
        size = chance.choice(("", "&max_bytes=1", "&max_bytes=30", "&max_bytes=61", "&max_bytes=300"))
        query = f"offset={start}&{selection}{size}{chance.choice(('', '&format=raw', '&live=long-poll&timeout=1ms'))}"
        with_index = await answer(world, query, PATH)
        tiers.indexes = None
        try:
            without = await answer(world, query, PATH)
        finally:
            tiers.indexes = indexes
        if "live" in query:  # the cursor tells the time
            with_index[1].pop("stream-cursor", None)
            without[1].pop("stream-cursor", None)
        assert with_index == without, query
        assert without[0] in {200, 204, 400}, query


def spelled(chance: random.Random, others: float) -> bytes:
    """An entry; `others` is how often its number is no text."""
    number = chance.choice((1, 2, 3.0, None)) if chance.random() < others else chance.choice("123")
    found = {"service": chance.choice(SERVICES), "n": number, "ok": True}
    return json.dumps(found, ensure_ascii=chance.random() < 0.5).encode()


async def append(world: World, chance: random.Random, make: Any, count: int) -> None:
    for _ in range(count):
        key = chance.choice(KEYS)
        headers = JSON if key is None else JSON | {"stream-key": key.encode().decode("latin-1")}
        texts = [make() for _ in range(chance.choice((1, 3)))]
        reply = await ask(world.node, "POST", PATH, headers, b"[%b]" % b",".join(texts))
        assert reply.status == 204, reply.body
        world.entries += [Entry(text, key, 0) for text in texts]


@pytest.mark.timeout(300)
def test_an_answer_is_the_same_with_indexes_and_without(tmp_path: Path) -> None:
    """Over versions with lenses, entries that no lens fits, and search configurations that change."""
    chance = seeded()

    async def main() -> None:
        async with worlds(tmp_path / "world", flush_ms_max=3_600_000) as (world, _):
            assert (await ask(world.node, "PUT", PATH, JSON)).status == 201
            await declare(world, {"schema": OLD, "search": SEARCH})
            indexed = Indexed(world, bare_of(world), chance)
            fields = dict[str, Any]()
            for step in range(5):
                await append(world, chance, lambda step=step: spelled(chance, 0.05 if step < 2 else 0.7), 15)
                await world.seal()
                for _ in range(3):
                    await indexed.change()
                await compare(world, chance, 25)
                if step == 1:
                    await declare(world, {"schema": {}, "lens": LENS})
                    fields = {
                        name: {**field, "bindings": [*field["bindings"], {**field["bindings"][0], "version": 2}]}
                        for name, field in SEARCH["fields"].items()
                    }
                    await declare(world, {"search": SEARCH | {"fields": fields}})
                if step == 2:
                    fields["service"] = {**fields["service"], "normalizer": "lowercase_v1"}
                    await declare(world, {"search": SEARCH | {"fields": fields}})
                await compare(world, chance, 15)
            for family in ("lexicon", "exact"):
                await indexed.index(family, len(world.entries))
            await compare(world, chance, 40)

    anyio.run(main)


def test_a_page_of_sealed_entries_ends_before_one_that_cannot_be_shown(tmp_path: Path) -> None:
    """Wherever in its row group it lies: the entries before it are shown, and the next page says why."""

    async def main() -> None:
        async with worlds(tmp_path / "world", flush_ms_max=3_600_000) as (world, _):

            async def left() -> bool:
                return not await value(world.node, "SELECT count(*) FROM log")

            assert (await ask(world.node, "PUT", PATH, JSON)).status == 201
            await declare(world, {"schema": OLD, "search": SEARCH})
            entries = [{"n": number, "service": "api"} for number in ("A", "B", 5, "C")]
            headers = JSON | {"stream-key": "k"}
            assert (await ask(world.node, "POST", PATH, headers, json.dumps(entries).encode())).status == 204
            await declare(world, {"schema": {}, "lens": LENS})
            fields = {
                name: {**field, "bindings": [*field["bindings"], {**field["bindings"][0], "version": 2}]}
                for name, field in SEARCH["fields"].items()
            }
            await declare(world, {"search": SEARCH | {"fields": fields}})
            for _ in range(2):
                for selection in ("key=k", "filter=service:api", "filter=service:api&key=k"):
                    page = await ask(world.node, "GET", f"{PATH}?{selection}")
                    assert (page.status, json.loads(page.body)) == (
                        200,
                        [{"n": "a", "service": "api"}, {"n": "b", "service": "api"}],
                    )
                    following = await ask(
                        world.node, "GET", f"{PATH}?{selection}&offset={page.headers['stream-next-offset']}"
                    )
                    assert following.status == 400
                    assert b"cannot be shown" in following.body or b"type mismatch" in following.body
                await world.seal()
                await until(left, "the entries are in an object")

    anyio.run(main)
