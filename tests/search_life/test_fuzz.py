"""Searches of any kind are answered: soon, with a valid body, and nothing is held after that.

A run draws some two thousand cases; STREAMS_FUZZ_CASES says how many, and STREAMS_FUZZ_SEED repeats a run.
"""

import asyncio
import csv
import io
import json
import os
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Iterator
from typing import Any, TypeVar
from urllib.parse import quote, quote_from_bytes

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from streams_node.testing.inprocess import InProcess
from tests.fuzz.strategies import JSON_VALUES, ODD, TEXTS
from tests.http.wire import Reply, ask
from tests.indexing.world import FakeDriver, indexed, sealed
from tests.search.both_ways import both_ways  # noqa: F401 - each page on the loop or in a thread
from tests.search.test_oracle import QUERIES, entry
from tests.search.world import DECLARED, JSON

T = TypeVar("T")
SEED = int(os.environ.get("STREAMS_FUZZ_SEED") or random.SystemRandom().randrange(1 << 32))
CASES = int(os.environ.get("STREAMS_FUZZ_CASES") or 2000)
BATCH = 50
PATIENCE_S = 60  # of one batch, on a machine that does other things, too
pytestmark = pytest.mark.timeout(600 + CASES // 10)


def as_parameter(value: object) -> bytes:
    text = ",".join(map(str, value)) if isinstance(value, list) else json.dumps(value)
    return text.encode("utf-8", "surrogatepass")


SORTS = st.lists(
    st.builds(
        lambda name, end: name + end,
        st.sampled_from(["at", "level", "status", "dur", "ok", "offset", "_score", "text", "nope", "", "lvl"]),
        st.sampled_from(["", ":asc", ":desc", ":", ":up"]),
    ),
    max_size=4,
)
AFTERS = st.lists(
    st.sampled_from([None, 0, 1.5, -1, 2**70, 1e300, True, "x", "", "0000000000000000000G000000", "a", [], {}])
    | JSON_VALUES,
    max_size=5,
)
GOOD = st.sampled_from(QUERIES) | st.lists(st.sampled_from(QUERIES), min_size=2, max_size=4).map(" OR ".join)
QS = GOOD.map(str.encode) | TEXTS
SORTED = st.sampled_from([[], ["at"], ["level:asc", "status"], ["dur:desc", "offset:asc"], ["_score"], ["ok"]])
SIZES = st.sampled_from([1, 2, 50, 500]) | st.integers(-1, 600) | JSON_VALUES
TIMES = st.sampled_from([0, 1, 5, 3000, 10**9, -1, 0.5]) | JSON_VALUES
FLAGS = st.booleans() | st.sampled_from(["true", "0", "x", None]) | JSON_VALUES
FORMS = st.sampled_from(["json", "ndjson", "csv", "xml", 1])
MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "size": SIZES, "sort": SORTS | JSON_VALUES, "search_after": AFTERS | JSON_VALUES, "timeout_ms": TIMES,
    "explain": FLAGS, "highlight": FLAGS, "format": FORMS, "streams": st.sampled_from(["*", "a*", "", 1, "*d*"]),
    "track_total_hits": st.booleans(), "other": JSON_VALUES,
}  # fmt: skip
# Most of a body are right, so that many searches are made.
RIGHT = st.fixed_dictionaries(
    {"q": GOOD},
    optional={
        "size": st.integers(1, 500), "sort": SORTED, "highlight": st.booleans(), "explain": st.booleans(),
        "format": st.sampled_from(["json", "ndjson", "csv"]), "timeout_ms": st.sampled_from([0, 1, 3000]),
    },
)  # fmt: skip
ANY = st.fixed_dictionaries({}, optional={"q": QS.map(lambda q: q.decode("utf-8", "replace")) | JSON_VALUES, **MEMBERS})
BODIES = (RIGHT | RIGHT | ANY).map(lambda body: json.dumps(body).encode()) | st.binary(max_size=40)
PARAMETERS = st.fixed_dictionaries({"q": QS}, optional={name: some.map(as_parameter) for name, some in MEMBERS.items()})
STREAMS = ("/v1/stream/odd", "/shop/a-odd", "/shop/a-good")
ACROSS = "/shop/streams"


class World:
    """One node: streams with entries that are indexed, sealed, and in the log, good ones and odd ones."""

    def __init__(self, runner: asyncio.Runner, node: InProcess) -> None:
        self.node = node
        self.seen: Counter[int] = Counter()
        self._runner = runner

    def run(self, work: Awaitable[T]) -> T:
        async def whole() -> T:
            async with asyncio.timeout(PATIENCE_S):  # or else something hangs
                return await work

        return self._runner.run(whole())

    async def grow(self) -> None:
        assert (await ask(self.node, "PUT", "/shop")).status == 201
        chance = random.Random(SEED)
        for path in STREAMS:
            assert (await ask(self.node, "PUT", path, JSON)).status == 201
            body = json.dumps(DECLARED | {"schema": True}).encode()
            assert (await ask(self.node, "POST", f"{path}/_schema", JSON, body)).status == 200
        for stage in range(3):
            for path in STREAMS:
                good = [json.dumps(entry(chance)).encode() for _ in range(20)]
                for one in good if path.endswith("good") else [*ODD, *good]:
                    await ask(self.node, "POST", path, JSON, b"[%b]" % one)
            if stage < 2:
                await sealed(self.node)
            if not stage:
                await FakeDriver(self.node).finish()

    async def judge(self, reply: Reply, asked: object) -> None:
        self.seen[reply.status] += 1
        assert reply.status in {200, 400, 408}, (asked, reply)
        if reply.status == 400:
            error = json.loads(reply.body)["error"]
            assert error["code"] == "bad_request", asked
            assert 0 < len(error["message"]) < 4000, asked
            return
        kind = reply.headers["content-type"]
        if kind.startswith("text/csv"):
            rows = list(csv.reader(io.StringIO(reply.body.decode(), newline="")))
            assert {len(row) for row in rows} == {len(rows[0])}, asked
            return
        if kind == "application/x-ndjson":
            *hits, view = [json.loads(line) for line in reply.body.split(b"\n")[:-1]]
        else:
            view = json.loads(reply.body)
            hits = view["hits"]
        assert view["timed_out"] == (reply.status == 408), asked
        assert view["total"]["value"] == len(hits) <= 500, asked
        places = [(hit.get("stream_id"), hit["offset"]) for hit in hits]
        assert len(set(places)) == len(places), asked

    async def hold_nothing(self, tasks: int) -> None:
        searches = self.node.context.searches
        assert searches.turns.waiting == 0
        for _ in range(1000):
            if len(asyncio.all_tasks()) <= tasks:
                break
            await asyncio.sleep(0.01)  # what ends, ends in its own time
        assert len(asyncio.all_tasks()) <= tasks


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with asyncio.Runner() as runner:
        opened = indexed(tmp_path_factory.mktemp("search") / "node")
        made = World(runner, runner.run(opened.__aenter__()))
        try:
            made.run(made.grow())
            yield made
        finally:
            runner.run(opened.__aexit__(None, None, None))


def drawn(cases: st.SearchStrategy[Any], world: World, work: Any) -> None:
    print(f"STREAMS_FUZZ_SEED={SEED}")  # noqa: T201 - to run it again

    async def count() -> int:
        return len(asyncio.all_tasks())

    tasks, threads = world.run(count()), threading.active_count()
    before = sum(world.seen.values())
    chosen = settings(
        max_examples=max(1, CASES // 3 // BATCH), deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip

    @chosen
    @given(st.lists(cases, min_size=BATCH, max_size=BATCH))
    def each(batch: list[Any]) -> None:
        world.run(work(batch))

    hypothesis.seed(SEED)(each)()
    assert sum(world.seen.values()) - before >= CASES // 3 // BATCH * BATCH
    world.run(world.hold_nothing(tasks))
    assert threading.active_count() <= threads + 64  # pools are bounded, and grow to their bounds


def test_bodies_of_any_kind_are_answered(world: World) -> None:
    async def work(batch: list[tuple[str, bytes]]) -> None:
        for path, body in batch:
            await world.judge(await ask(world.node, "POST", f"{path}/_search", JSON, body), (path, body))

    drawn(st.tuples(st.sampled_from(STREAMS), BODIES), world, work)


def test_searches_of_a_bucket_of_any_kind_are_answered(world: World) -> None:
    async def work(batch: list[bytes]) -> None:
        for body in batch:
            await world.judge(await ask(world.node, "POST", f"{ACROSS}/_search", JSON, body), body)

    drawn(BODIES, world, work)


def test_parameters_of_any_kind_are_answered(world: World) -> None:
    async def work(batch: list[tuple[str, dict[str, bytes]]]) -> None:
        async def one(path: str, asked: dict[str, bytes]) -> None:
            query = "&".join(f"{quote(name)}={quote_from_bytes(text)}" for name, text in asked.items())
            await world.judge(await ask(world.node, "GET", f"{path}/_search?{query}"), (path, asked))

        await asyncio.gather(*(one(path, asked) for path, asked in batch))  # many at once wait for their turns

    drawn(st.tuples(st.sampled_from(STREAMS), PARAMETERS), world, work)
    assert world.seen[200] > world.seen[408]
