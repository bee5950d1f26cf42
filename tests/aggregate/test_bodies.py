"""Whatever the body of an aggregation is: an answer or a refusal that says why, and soon."""

import asyncio
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams_node.testing.inprocess import InProcess
from tests.aggregate.drawn import record
from tests.aggregate.tally_world import SEARCH as FIELDS
from tests.aggregate.world import JSON, SEARCH, T0, A
from tests.http.wire import ask
from tests.indexing.world import FakeDriver, append, create, indexed, sealed

Drawn = st.SearchStrategy[Any]
BOTH = {**FIELDS, "rollups": SEARCH["rollups"]}


def mostly(usual: Drawn, other: Drawn) -> Drawn:
    return st.integers(0, 9).flatmap(lambda number: usual if number else other)


PLAIN: Drawn = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JUNK: Drawn = st.recursive(
    PLAIN,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=4), each, max_size=3),
    max_leaves=8,
)
FIELD_NAMES = st.sampled_from(["at", "seen", "level", "status", "ms", "ok", "text", "quiet", "", "nope"])
NAMES = mostly(st.sampled_from(["a", "b", "c-d.e"]), st.sampled_from(["#count", "", "x" * 65, "a#count"]))
GROUPED = mostly(st.sampled_from(["level", "lvl", "status", "ok", "ms", "seen"]), FIELD_NAMES)
DATED = mostly(st.sampled_from(["at", "seen"]), FIELD_NAMES)
NUMBERS = mostly(st.just("ms"), FIELD_NAMES)
SIZES = mostly(st.sampled_from([1, 1000]), st.sampled_from([0, "1", 1001, True]))
WINDOWS = mostly(st.sampled_from(["1m", "1h", "9999d", "1ms"]), st.sampled_from(["0s", "m", 5, "104249991374d"]))
PERCENTS = mostly(st.lists(st.floats(0, 100) | st.integers(0, 100), min_size=1, max_size=3), JUNK)
KINDS: Drawn = st.one_of(
    st.fixed_dictionaries({"terms": st.fixed_dictionaries({"field": GROUPED}, optional={"size": SIZES})}),
    st.fixed_dictionaries({"date_histogram": st.fixed_dictionaries({"field": DATED, "interval": WINDOWS})}),
    st.fixed_dictionaries({"stats": st.fixed_dictionaries({"field": NUMBERS})}),
    st.fixed_dictionaries({"percentiles": st.fixed_dictionaries({"field": NUMBERS}, optional={"percents": PERCENTS})}),
)


def _nested(inner: Drawn) -> Drawn:
    wider = st.tuples(KINDS, inner).map(lambda each: each[0] | {"aggs": each[1]})
    return st.dictionaries(NAMES, mostly(wider | KINDS, JUNK), min_size=1, max_size=2)


AGGS: Drawn = st.recursive(st.dictionaries(NAMES, KINDS, min_size=1, max_size=2), _nested, max_leaves=4)
MOMENTS: list[Any] = [T0, T0 + 60_000, str(T0), "2026-03-25", 0, -1, 8.64e15, 9e15, None, True, "", "1" * 30]
CHANGED: dict[str, Drawn] = {
    "rollup": st.sampled_from(["req", "all", " req ", "nope"]) | PLAIN,
    "from": st.sampled_from(MOMENTS) | PLAIN,
    "to": st.sampled_from(MOMENTS) | PLAIN,
    "interval": st.sampled_from(["1m", "1s", "1h", "5m"]) | PLAIN,
    "q": mostly(st.sampled_from(["level:info", "has:ms", "text:card*", "", "level:", "(", None]), JUNK),
    "group_by": mostly(st.lists(st.sampled_from(["level", "status"]), max_size=3), JUNK),
    "measures": mostly(st.lists(st.sampled_from(["n", "bad", "ms"]), min_size=1, max_size=3), JUNK),
    "timeout_ms": mostly(st.sampled_from([0, 1, 3000, 1e300, -1, None]), PLAIN),
}
CHANGES: Drawn = st.one_of([st.just({}), *(st.fixed_dictionaries({name: each}) for name, each in CHANGED.items())])
BASES: Drawn = st.one_of(
    st.just({"rollup": "req", "from": T0, "to": T0 + 10**7, "interval": "1m"}),
    st.fixed_dictionaries({"aggs": AGGS}),
    st.fixed_dictionaries({"aggs": mostly(AGGS, JUNK)}),
)
BODIES: Drawn = st.tuples(BASES, CHANGES).map(lambda both: both[0] | both[1])
DRAWN = settings(
    max_examples=150, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def node(loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    room = indexed(tmp_path_factory.mktemp("bodies") / "node")
    node = loop.run(room.__aenter__())
    random = Random(3)

    async def filled() -> None:
        await create(node, A, {"schema": True, "search": BOTH})
        await append(node, A, [record(random) for _ in range(60)])
        await sealed(node)
        await FakeDriver(node).finish()
        await append(node, A, [record(random) for _ in range(20)])

    loop.run(filled())
    yield node
    loop.run(room.__aexit__(None, None, None))


async def judged(node: InProcess, body: bytes) -> None:
    async with asyncio.timeout(60):  # or else something hangs
        reply = await ask(node, "POST", f"{A}/_aggregate", JSON, body)
    view = json.loads(reply.body)
    if reply.status == 400:
        assert view["error"]["code"] == "bad_request"
        assert view["error"]["message"]
    else:
        assert reply.status in {200, 408}, reply.body
        assert view["coverage"]["complete"] or reply.status == 408
        assert ("aggs" in view) != ("buckets" in view)


@DRAWN
@given(body=mostly(BODIES, JUNK))
def test_every_body_is_answered_or_refused(loop: asyncio.Runner, node: InProcess, body: Any) -> None:
    loop.run(judged(node, json.dumps(body).encode()))


@DRAWN
@given(body=BODIES, at=st.integers(0, 200), junk=st.binary(max_size=4))
def test_every_damaged_body_is_answered_or_refused(
    loop: asyncio.Runner, node: InProcess, body: Any, at: int, junk: bytes
) -> None:
    text = json.dumps(body).encode()
    loop.run(judged(node, text[:at] + junk + text[at:]))
