"""A stream of 10,000 sealed parts: a state of it costs little, be it the same or the next one."""

import asyncio
import json
import sqlite3
import time
from pathlib import Path

from streams_node.testing.inprocess import InProcess
from tests.details.test_details import A, details
from tests.indexing.world import append, create, indexed, on_loop, sealed, stream_id
from tests.tiers.node import until

SEGMENTS = 10_000
ROUNDS = 60
CPU_S_MAX = 0.010
# The garbage collector may come by, and with load the same work takes more time of a processor whose caches are shared.
SLACK = 3.0


async def cut_up(node: InProcess, stream: int) -> None:
    """The catalogue names a segment for each entry, instead of the one that holds them all."""

    def write(db: sqlite3.Connection) -> None:
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE objects SET dead_us = 1")
        db.executemany(
            "INSERT INTO objects (made, kind, level, stream, first_seq, end_seq, min_stream, max_stream, streams,"
            " entries, bytes, sha256, payload_bytes, min_ts, max_ts, first_row, last_row)"
            " VALUES (?, 'segment', 0, ?, ?, ?, ?, ?, 1, 1, 100, 'x', 7, 1, ?, 1, 1)",
            [(f"{at:032x}", stream, at, at + 1, stream, stream, 1 + at) for at in range(SEGMENTS)],
        )
        db.execute("COMMIT")

    await node.context.database.writer.run(write)


@on_loop
async def test_a_state_of_very_many_parts_is_told_in_milliseconds(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, declared=None)
        for _ in range(10):
            await append(node, A, list(range(SEGMENTS // 10)))
        await sealed(node)
        await cut_up(node, await stream_id(node, A))
        node.context.details.kept._kept.clear()
        await append(node, A, [1])
        await node.context.ledger.committer.settled()
        shown = json.loads((await details(node)).body)["stream"]
        assert (shown["segment_count"], shown["next_offset"]) == (SEGMENTS, str(SEGMENTS + 1))
        assert shown["pending_rows"] == "1"
        same: list[float] = []
        other: list[float] = []
        for _ in range(ROUNDS):
            same.append(await cpu_s(node))
            await append(node, A, [1])
            await node.context.ledger.committer.settled()
            other.append(await cpu_s(node))
        for seconds in (same, other):
            seconds.sort()
            assert seconds[ROUNDS // 2] < CPU_S_MAX, seconds
            assert seconds[int(ROUNDS * 0.95)] < CPU_S_MAX * SLACK, seconds


async def cpu_s(node: InProcess) -> float:
    """Processor time of one answer, whatever else the machine does."""
    began = time.process_time()
    reply = await details(node)
    assert reply.status == 200
    return time.process_time() - began


@on_loop
async def test_its_waiters_are_told_with_one_computation(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node", long_poll_ms_max=30_000, request_ms_max=60_000) as node:
        await create(node, A, declared=None)
        await append(node, A, list(range(100)))
        await sealed(node)
        tag = (await details(node)).headers["etag"]
        query = "?live=long-poll&timeout_ms=30000"
        waiting = [asyncio.ensure_future(details(node, query=query, tag=tag)) for _ in range(100)]
        await until(lambda: node.context.details.waiting == 100, "all wait")
        made = node.context.details.made
        await append(node, A, [1])
        assert {(await each).status for each in waiting} == {200}
        assert node.context.details.made == made + 1
