"""Heads are written behind the log in slices: never ahead of it, and whole up to the row that says so."""

import asyncio
import sqlite3
from itertools import product
from pathlib import Path

import pytest

from streams_node.ingest import batches
from streams_node.ingest.batches import HEADS_PER_BATCH
from streams_node.testing.inprocess import Answer, InProcess, in_process
from streams_node.wal.batch import COLUMNS, Writes, commit
from streams_node.wal.heads import HEAD_COLUMNS, LAST_ROW_AT, PLAIN_HEAD_COLUMNS
from tests.crash.faults import Fault, Faults, healthy, queued
from tests.support.tables import check_tables


def test_a_head_is_stored_with_its_rows_or_after_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a full batch that waits is an open one: a head in the first must not count rows of the second."""
    stored: list[int] = []
    ahead: list[int] = []
    seen: list[int] = []

    def watched(db: sqlite3.Connection, writes: Writes) -> None:
        stored.extend(writes.rows[::COLUMNS])
        newest = writes.plain_heads[LAST_ROW_AT::PLAIN_HEAD_COLUMNS] + writes.heads[LAST_ROW_AT::HEAD_COLUMNS]
        ahead.extend(row for row in newest if row not in {0, *stored})
        seen.extend(newest)
        commit(db, writes)

    monkeypatch.setattr(batches, "commit", watched)

    async def appends() -> None:
        async with in_process(tmp_path, commit_rows_max=4, heads_flush_rows=1) as node:
            for name in ("a", "b", "c"):
                await node.request("PUT", f"/v1/stream/{name}", {"content-type": "text/plain"})
            writers = list(product(("a", "b", "c"), ("p", "q", "r")))
            for number in range(40):
                answers = await asyncio.gather(*(_append(node, name, id_, number) for name, id_ in writers))
                assert {answer.status for answer in answers} == {200}
                check_tables(tmp_path / "streams.db")

    asyncio.run(appends())
    assert ahead == []
    assert len(stored) == 40 * 9
    assert len({*seen} - {0}) >= 3


async def _append(node: InProcess, stream: str, producer: str, number: int) -> Answer:
    said = {"content-type": "text/plain", "producer-id": producer, "producer-epoch": "0", "producer-seq": str(number)}
    return await node.request("POST", f"/v1/stream/{stream}", said, b"x")


def test_slices_of_heads_that_are_all_gone_are_no_failure(tmp_path: Path) -> None:
    """More streams than a slice holds were written to and deleted since the heads were written last."""

    async def scenario() -> None:
        async with in_process(tmp_path, heads_flush_rows=1_000_000) as node:
            paths = [f"/v1/stream/{at}" for at in range(2 * HEADS_PER_BATCH + 10)]
            text = {"content-type": "text/plain"}
            created = await asyncio.gather(*(node.request("PUT", path, text, b"x") for path in paths))
            deleted = await asyncio.gather(*(node.request("DELETE", path) for path in paths[:-1]))
            assert {answer.status for answer in (*created, *deleted)} == {201, 204}
            node.context.ledger.committer.flush_heads()
            await node.context.ledger.committer.settled()
            assert node.context.ledger.failures == 0
            assert check_tables(tmp_path / "streams.db").unreplayed == 0

    asyncio.run(scenario())


def test_a_clean_end_leaves_nothing_to_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when all that is new came between the beginning of a flush and the batch that carries it."""
    faults = Faults(monkeypatch)

    async def scenario() -> None:
        async with in_process(tmp_path, heads_flush_rows=1_000_000) as node:
            for name in ("a", "held"):
                await node.request("PUT", f"/v1/stream/{name}", {"content-type": "text/plain"}, b"x")
            held = await faults.hold(node, "/v1/stream/held")
            node.context.ledger.committer.flush_heads()
            append = asyncio.ensure_future(_append(node, "a", "p", 0))
            await queued(node, 3)
            faults.release()
            assert ((await held).status, (await append).status) == (204, 200)
            await node.context.ledger.committer.settled()
        assert check_tables(tmp_path / "streams.db").unreplayed == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("appends", [0, 1], ids=["heads_alone", "with_an_append"])
def test_heads_of_a_failed_commit_are_written_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, appends: int
) -> None:
    """More of them than one slice: the slices that would have followed show what was refused, and are dropped."""
    faults = Faults(monkeypatch)
    text = {"content-type": "text/plain"}
    paths = [f"/v1/stream/{at}" for at in range(HEADS_PER_BATCH + 10)]

    async def scenario() -> None:
        async with in_process(tmp_path, heads_flush_rows=1_000_000) as node:
            await asyncio.gather(*(node.request("PUT", path, text, b"x") for path in paths))
            held = await faults.hold(node, paths[1])
            refused = [asyncio.ensure_future(node.request("POST", path, text, b"y")) for path in paths[:appends]]
            await queued(node, 1 + appends)
            node.context.ledger.committer.flush_heads()
            faults.release(None, fault)
            await node.context.ledger.committer.settled()
            assert (await held).status == 204
            assert [(await one).status for one in refused] == [503] * appends
            assert node.context.ledger.failures == 1
            check_tables(tmp_path / "streams.db")
            await healthy(node)
            for path in (paths[0], paths[-1]):
                assert (await node.request("POST", path, text, b"z")).status == 204
            check_tables(tmp_path / "streams.db")
            node.context.ledger.committer.flush_heads()
            await node.context.ledger.committer.settled()
            assert check_tables(tmp_path / "streams.db", whole=True).unreplayed == 0
            stored = b"y" if fault is Fault.ANSWER_LOST and appends else b""
            assert (await node.request("GET", paths[0])).body == b"x" + stored + b"z"
        assert check_tables(tmp_path / "streams.db").unreplayed == 0

    asyncio.run(scenario())
