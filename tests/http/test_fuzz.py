"""No request makes the node fail, hang, answer in a strange shape, or leave half a stream behind.

The seeds come from pytest-randomly: `--randomly-seed=N` draws the same cases again. A case that fails is shown as a
file for the corpus; put it there with the fix.
"""

import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from streams_node.testing.inprocess import InProcess, in_process
from tests.http.hostile import Case, Draw, corpus, simpler
from tests.http.wire import Reply, ask

KINDS = ["paths", "headers", "queries", "bodies", "creates", "methods", "everything"]
CASES = int(os.environ.get("STREAMS_FUZZ_CASES", "3000"))  # of each kind: 21,000 in the default run
BY_DESIGN = {501, 503}  # what is described and not built yet, and what is full or ending
NEIGHBOURS = {b"/v1/stream/neighbour": b"[1,2,3]", b"/shop/neighbour": b"the neighbour", b"/calm/neighbour": b"\0\1\2"}
CALM = 250  # cases between two looks at the neighbours


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def run(folder: Path, work: Callable[[InProcess], "object"]) -> None:
    async def main() -> None:
        async with in_process(folder, long_poll_ms_max=100, append_body_bytes_max=200_000, disk_floor_bytes=0) as node:
            await prepare(node)
            await work(node)  # type: ignore[misc]
            await neighbours_are_calm(node)

    anyio.run(main)


async def prepare(node: InProcess) -> None:
    json_type, text_type = {"content-type": "application/json"}, {"content-type": "text/plain"}
    for bucket in ("/shop", "/calm"):
        await ask(node, "PUT", bucket)
    for path, kind in (("/v1/stream/a", json_type), ("/shop/a", json_type), ("/v1/stream/text", text_type)):
        await ask(node, "PUT", path, kind)
        await ask(node, "POST", path, kind, b"[1,2,3]")
    for neighbour, body in NEIGHBOURS.items():
        kind = json_type if body.startswith(b"[") else text_type
        reply = await ask(node, "PUT", neighbour, kind, body)
        assert reply.status == 201


async def neighbours_are_calm(node: InProcess) -> None:
    for path, body in NEIGHBOURS.items():
        reply = await ask(node, "GET", path)
        assert reply.body == body, path
        assert reply.headers["stream-up-to-date"] == "true"
    assert json.loads((await ask(node, "GET", "/calm")).body)["streams"] == 1
    assert not node.context.ledger.refusals
    assert node.context.bodies.in_flight == 0
    assert sum(node.context.live.readers.values()) == 0


def test_the_corpus(folder: Path) -> None:
    cases = corpus()
    assert len(cases) >= 50

    async def replay(node: InProcess) -> None:
        for case in cases:
            await hold(node, case)

    run(folder, replay)


@pytest.mark.parametrize("kind", KINDS)
def test_drawn_cases(folder: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    seed = random.getrandbits(32)
    draw = Draw(seed).kinds[kind]
    statuses: Counter[int] = Counter()

    async def fuzz(node: InProcess) -> None:
        for at in range(CASES):
            statuses[await hold(node, draw())] += 1
            if at % CALM == 0:
                await neighbours_are_calm(node)

    run(folder, fuzz)
    assert statuses.total() == CASES
    assert len(statuses) > 1, "the cases are all alike"
    with capsys.disabled():
        sys.stdout.write(f"\n{CASES} {kind} from seed {seed}: {dict(sorted(statuses.items()))} ")


async def hold(node: InProcess, case: Case) -> int:
    """Send a case and hold the answer to the promises; a case that breaks one is made simpler before it is shown."""
    try:
        return await promise(node, case)
    except Exception as broken:  # noqa: BLE001 - whatever it was, the case matters
        kept, why = await simplest(node, case, broken)
    pytest.fail(f"{type(why).__name__}: {why}\n{kept.written()}", pytrace=False)


async def simplest(node: InProcess, case: Case, why: Exception) -> tuple[Case, Exception]:
    again = True
    while again:
        again = False
        for candidate in simpler(case):
            try:
                await promise(node, candidate)
            except Exception as broken:  # noqa: BLE001 - the same or another fault: both are one too many
                case, why, again = candidate, broken, True
                break
    return case, why


async def promise(node: InProcess, case: Case) -> int:
    body = case.parts[0] if len(case.parts) == 1 else case.parts
    before = await streams_in(node, case)
    reply = await ask(
        node, case.method, case.target, case.lines, body, host=not any(name == b"host" for name, _ in case.lines)
    )
    check(reply, case.method)
    if case.method == "PUT" and before is not None:
        await nothing_half_made(node, case, reply, before)
    return reply.status


def check(reply: Reply, method: str) -> None:
    """What every answer has in common."""
    headers = reply.headers
    assert reply.status < 500 or reply.status in BY_DESIGN, f"status {reply.status}: {reply.body[:300]!r}"
    assert 200 <= reply.status < 300 or reply.status == 304 or reply.status >= 400, f"status {reply.status}"
    assert headers["x-content-type-options"] == "nosniff"
    assert not any(byte in value for _, value in reply.lines for byte in (b"\r", b"\n", b"\0")), f"lines {reply.lines}"
    if reply.status in {204, 304}:
        assert reply.body == b""
    elif method != "HEAD" and "content-length" in headers:
        assert int(headers["content-length"]) == len(reply.body)
    if reply.status >= 400:
        error_shape(reply, method)


def error_shape(reply: Reply, method: str) -> None:
    assert reply.headers["content-type"] == "application/json", reply.headers
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["access-control-allow-origin"] == "*"
    if method == "HEAD":
        return
    said = json.loads(reply.body)
    assert set(said) == {"error"}
    assert isinstance(said["error"]["code"], str)
    assert isinstance(said["error"]["message"], str)
    assert len(said["error"]["message"]) < 1000, "the message repeats what it was sent"


async def streams_in(node: InProcess, case: Case) -> int | None:
    """How many streams the shop has, for a case that would make one; None for others."""
    if case.method != "PUT" or b"fresh-" not in case.target:
        return None
    return int(json.loads((await ask(node, "GET", "/shop")).body)["streams"])


async def nothing_half_made(node: InProcess, case: Case, reply: Reply, before: int) -> None:
    """A refused create leaves no stream, no count and no bucket; an accepted one can be read, and be deleted."""
    key = {name: value for name, value in case.lines if name == b"authorization"}
    found = await ask(node, "GET", case.target, list(key.items()))
    if reply.status >= 400:
        assert found.status in {400, 404}, f"refused with {reply.status}, and there: {found.status}"
        if b"/new-" in case.target:
            bucket = b"/" + case.target.split(b"/")[3]
            assert (await ask(node, "GET", bucket)).status == 404, "a refused create made a bucket"
    elif found.status == 200:
        assert (await ask(node, "DELETE", case.target)).status == 204
    else:  # its lifetime is over already
        assert found.status == 404
        assert {b"stream-ttl", b"stream-expires-at"} & {name for name, _ in case.lines}
    assert int(json.loads((await ask(node, "GET", "/shop")).body)["streams"]) == before
