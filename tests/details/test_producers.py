"""`_producers` lists who appends to a stream, and with what it was accepted last: as a model of the appends has it."""

import json
import time
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams_node.ingest.retain import retain
from streams_node.testing.inprocess import InProcess
from streams_node.wal.lookup import Name
from tests.http.wire import Reply, ask
from tests.indexing.world import JSON, create, indexed, on_loop, sealed

A = "/v1/stream/a"
AHEAD_S = 86_400  # above the creation of every stream: no time here is moved
AT = int(time.time()) + AHEAD_S
CLOSED = {"stream-closed": "true"}
IDS = ("b", "a", "Ä", "zoo", "a b", "%")


def producer(id_: str, epoch: int, seq: int, at: int | None = None) -> dict[str, str]:
    said = {**JSON, "producer-id": id_, "producer-epoch": str(epoch), "producer-seq": str(seq)}
    return said if at is None else {**said, "stream-timestamp": moment(at)}


def moment(at: int) -> str:
    return datetime.fromtimestamp(AT + at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def listed(folder: Path) -> AbstractAsyncContextManager[InProcess]:
    return indexed(folder / "node", timestamp_ahead_ms_max=2 * AHEAD_S * 1000)


async def page(node: InProcess, query: str = "", path: str = A) -> Any:
    reply = await ask(node, "GET", f"{path}/_producers{query}")
    assert reply.status == 200, reply
    assert reply.headers["cache-control"] == "no-store"
    return json.loads(reply.body)


async def append(node: InProcess, headers: dict[str, str], entries: int = 1) -> Reply:
    return await ask(node, "POST", A, headers, json.dumps(list(range(entries))).encode())


@on_loop
async def test_the_whole_body_and_what_is_refused(tmp_path: Path) -> None:
    async with listed(tmp_path) as node:
        await create(node, A, declared=None)
        assert await page(node) == {"stream": "a", "count": 0, "producers": [], "next_after": None}
        assert (await append(node, producer("b", 3, 0, 5), 2)).status == 200
        assert (await append(node, producer("a", 0, 0, 7))).status == 200
        assert (await append(node, producer("a", 0, 0, 9))).status == 204  # a repetition
        assert (await append(node, producer("b", 2, 1))).status == 403
        whole = await page(node)
        assert whole == {
            "stream": "a",
            "count": 2,
            "producers": [
                {
                    "id": "a", "epoch": 0, "seq": 0, "next_offset": "3", "last_append_at": moment(7),
                    "last_append_exact": True,
                },
                {
                    "id": "b", "epoch": 3, "seq": 0, "next_offset": "2", "last_append_at": moment(5),
                    "last_append_exact": True,
                },
            ],
            "next_after": None,
        }  # fmt: skip
        assert await page(node, path="/_default/a") == whole
        assert (await page(node, "?limit=1"))["next_after"] == "a"
        assert (await ask(node, "HEAD", f"{A}/_producers")).body == b""
        for query in ("limit=0", "limit=501", "limit=x", "limit=-1", "after="):
            assert (await ask(node, "GET", f"{A}/_producers?{query}")).status == 400, query
        assert (await ask(node, "GET", "/v1/stream/none/_producers")).status == 404
        assert (await ask(node, "POST", f"{A}/_producers", JSON, b"{}")).status == 405


@on_loop
async def test_what_has_left_the_log_is_as_old_as_its_object_says_and_what_was_trimmed_is_unknown(
    tmp_path: Path,
) -> None:
    async with listed(tmp_path) as node:
        await create(node, A, declared=None)
        for at, name in enumerate("abc"):
            await append(node, producer(name, 0, 0, at))
        await sealed(node)
        await append(node, producer("d", 0, 0, 50))
        await sealed(node)
        await append(node, producer("b", 0, 1, 100))
        await append(node, {**producer("e", 0, 0, 200), **CLOSED})

        def seen(body: Any) -> dict[str, tuple[Any, bool]]:
            return {each["id"]: (each["last_append_at"], each["last_append_exact"]) for each in body["producers"]}

        told = seen(await page(node))
        assert told["b"] == (moment(100), True)
        assert told["e"] == (moment(200), True)
        for name, earliest, latest in (("a", 0, 2), ("c", 2, 2), ("d", 50, 50)):
            assert moment(earliest) <= told[name][0] <= moment(latest)
        await retain(node.context.ledger, await node.context.ledger.living(Name("_default", "a")), 4)
        await sealed(node)
        told = seen(await page(node))
        assert told["a"] == (None, False)
        assert told["e"][0] == moment(200)


@on_loop
async def test_a_creation_and_a_closing_without_entries_have_their_own_times(tmp_path: Path) -> None:
    async with listed(tmp_path) as node:
        assert (await ask(node, "PUT", A, producer("maker", 0, 0))).status == 201
        made = json.loads((await ask(node, "GET", f"{A}/_details")).body)["stream"]["created_at"]
        assert (await page(node))["producers"][0]["last_append_at"] == made
        await append(node, {**JSON, "stream-timestamp": moment(100)})
        await ask(node, "POST", A, {**producer("ender", 1, 0), **CLOSED})
        ended = json.loads((await ask(node, "GET", f"{A}/_details")).body)["stream"]["last_append_at"]
        told = {each["id"]: each["last_append_at"] for each in (await page(node))["producers"]}
        assert told == {"maker": made, "ender": ended}


STEPS = st.lists(
    st.tuples(st.sampled_from(IDS), st.sampled_from(("next", "epoch", "again", "seal", "start")), st.integers(1, 3)),
    max_size=14,
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, st.integers(1, 4))
def test_pages_say_what_was_accepted_last_over_seals_and_restarts(
    tmp_path_factory: Any, steps: list[tuple[str, str, int]], limit: int
) -> None:
    walk(tmp_path_factory.mktemp("node"), steps, limit)


@on_loop
async def walk(folder: Path, steps: list[tuple[str, str, int]], limit: int) -> None:
    model: dict[str, tuple[int, int, int, int]] = {}  # epoch, seq, end, time
    end = 0
    parts: list[list[tuple[str, str, int]]] = [[]]
    for step in steps:
        parts.append([]) if step[1] == "start" else parts[-1].append(step)
    for number, part in enumerate(parts):
        async with listed(folder) as node:
            if not number:
                await create(node, A, declared=None)
            for name, what, count in part:
                epoch, seq, *_ = model.get(name, (0, -1, 0, 0))
                if what == "seal":
                    await sealed(node)
                    continue
                if what != "again":
                    epoch, seq = (epoch + 1, 0) if what == "epoch" else (epoch, seq + 1)
                headers = {**producer("x", epoch, max(seq, 0), end), "producer-id": name}
                lines = [(key.encode(), value.encode()) for key, value in headers.items()]
                reply = await ask(node, "POST", A, lines, json.dumps(list(range(count))).encode())
                assert reply.status in {200, 204}, reply
                if reply.status == 200:
                    model[name] = (epoch, max(seq, 0), end + count, end)
                    end += count
            await compare(node, model, limit)


async def compare(node: InProcess, model: dict[str, tuple[int, int, int, int]], limit: int) -> None:
    found: list[Any] = []
    query = f"?limit={limit}"
    while True:
        body = await page(node, query)
        assert body["count"] == len(model)
        assert len(body["producers"]) <= limit
        found += body["producers"]
        if body["next_after"] is None:
            break
        after = "".join(f"%{byte:02x}" for byte in body["next_after"].encode())
        query = f"?limit={limit}&after={after}"
    assert [each["id"] for each in found] == sorted(model, key=str.encode)
    for each in found:
        epoch, seq, end, at = model[each["id"]]
        assert (each["epoch"], each["seq"], each["next_offset"]) == (epoch, seq, str(end))
        if each["last_append_exact"]:
            assert each["last_append_at"] == moment(at)
        else:
            assert each["last_append_at"] >= moment(at)
