"""What no driver could use is known after a restart."""

from pathlib import Path
from typing import Any

from indexers.messages import Build, CommitRequest, Failed
from streams_node.indexing.failures import Failure, Failures
from streams_node.objects.keys import ObjectId, index_key
from streams_node.testing.inprocess import InProcess
from tests.http.wire import ask
from tests.indexing.world import (
    FakeDriver,
    append,
    covered,
    create,
    desk_of,
    indexed,
    on_loop,
    rows,
    sealed,
    spans,
    told,
)

A, B = "/v1/stream/a", "/v1/stream/b"
SECOND_US = 1_000_000


async def shown(node: InProcess) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = told(await ask(node, "GET", "/v1/server/_index"))["failed"]
    return found


async def fails(node: InProcess, reason: str) -> str:
    """A driver cannot use the object that it is given."""
    driver = FakeDriver(node)
    claim = await driver.claim()
    assert claim is not None
    (work,) = claim.work
    assert isinstance(work, Build)
    failed = [Failed(made=work.source.made, reason=reason)]
    request = CommitRequest(claim=claim.claim, fence=claim.fence, objects=[], failed=failed)
    assert (await driver.commit(request)).status == 200
    return work.source.made


def wake(node: InProcess) -> None:
    """The rest of everything is over."""
    desk = desk_of(node)
    for each in desk.failures._known.values():
        each.not_before = 0
    desk._later = dict.fromkeys(desk._later, 0.0)


@on_loop
async def test_what_failed_is_listed_and_rests_after_a_restart(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 5)
        await sealed(node)
        made = await fails(node, "no use")
        wake(node)
        assert await fails(node, "still of no use") == made
        before = await shown(node)
    async with indexed(tmp_path / "node") as node:
        await desk_of(node).follow()
        assert await shown(node) == before
        assert [(each["object"], each["reason"], each["count"]) for each in before] == [(made, "still of no use", 2)]
        assert await FakeDriver(node).claim() is None, "it rests"
        wake(node)
        assert await FakeDriver(node).round()
        assert spans(await covered(node, A)) == [(0, 5)]
        assert await shown(node) == []
        assert await rows(node, "SELECT * FROM index_failures") == []


@on_loop
async def test_an_object_that_is_gone_is_not_listed_for_ever(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 5)
        await sealed(node)
        made = await fails(node, "no use")
        await create(node, B)
        await append(node, B, [{"k": "y"}] * 5)
        await sealed(node)
        assert await fails(node, "neither") != made
        await node.context.database.writer.run(lambda db: db.execute("DELETE FROM objects WHERE made = ?", (made,)))
    async with indexed(tmp_path / "node") as node:
        await desk_of(node).follow()
        assert [each["reason"] for each in await shown(node)] == ["neither"]


@on_loop
async def test_an_index_object_in_doubt_is_known_after_a_restart(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 5)
        await sealed(node)
        await FakeDriver(node).finish()
        (made,) = {each.made for each in await covered(node, A)}
        await desk_of(node).doubt(made, "odd")
        await desk_of(node).doubt(made, "odd again")
    async with indexed(tmp_path / "node") as node:
        await desk_of(node).follow()
        assert [(each["object"], each["count"]) for each in await shown(node)] == [(made, 2)]
        FakeDriver(node).store.delete(index_key("lexicon", ObjectId(made)))
        await desk_of(node).doubt(made, "gone")
        assert await shown(node) == []
        assert await rows(node, "SELECT * FROM index_failures") == []


class Clocks:
    def __init__(self) -> None:
        self.s = 100.0
        self.us = 5_000 * SECOND_US

    def failures(self) -> Failures:
        return Failures(lambda: self.s, lambda: self.us)


def test_the_rest_of_a_failure_goes_on_by_the_clock() -> None:
    clocks = Clocks()
    before = clocks.failures()
    for _ in range(3):  # rests of 10, 20, 40 seconds
        before.add("a", "r")
    kept = before.rows()
    clocks.s, clocks.us = 7.0, clocks.us + 30 * SECOND_US  # a new process, half a minute later
    after = clocks.failures()
    after.restore(kept)
    assert after.listed() == [Failure("a", "r", 3, 5_000 * SECOND_US, 17.0)]
    assert after.rests("a")
    clocks.s += 10.5
    assert not after.rests("a")


def test_a_clock_that_was_set_back_holds_nothing_up() -> None:
    clocks = Clocks()
    before = clocks.failures()
    before.add("a", "r")
    kept = before.rows()
    clocks.us = 0
    after = clocks.failures()
    after.restore(kept)
    clocks.s += 3600.5
    assert not after.rests("a")
