"""A commit that fails: nobody is told that it is stored, memory follows the disk, and the node goes on."""

import asyncio
import errno
import io
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import structlog
from typing_extensions import override

from streams_node.observe import logs
from streams_node.testing.inprocess import Answer, InProcess, in_process
from tests.crash.faults import Fault, Faults, healthy, queued
from tests.crash.model import place
from tests.support.tables import check_tables

TEXT = {"content-type": "text/plain"}
A, B = "/v1/stream/a", "/v1/stream/b"
Scenario = Callable[[InProcess], Awaitable[None]]


@pytest.fixture(name="faults")
def _faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(monkeypatch)


def run(folder: Path, scenario: Scenario, **settings: Any) -> None:
    """Run on a node with the streams a and b; afterwards its tables must agree, before and after a restart."""

    async def whole() -> None:
        async with in_process(folder, **settings) as node:
            for path in (A, B):
                assert (await node.request("PUT", path, TEXT)).status == 201
            await scenario(node)
            check_tables(folder / "streams.db", whole=True)
        assert check_tables(folder / "streams.db").unreplayed == 0

    asyncio.run(whole())


async def append(node: InProcess, path: str, text: str, **said: str) -> Answer:
    headers = {name.replace("_", "-"): value for name, value in said.items()}
    return await node.request("POST", path, {**TEXT, **headers}, text.encode())


async def text_of(node: InProcess, path: str) -> str:
    return (await node.request("GET", f"{path}?offset=-1")).body.decode()


def code(answer: Answer) -> tuple[int, str]:
    return answer.status, json.loads(answer.body)["error"]["code"]


def triple(seq: int, name: str = "p") -> dict[str, str]:
    return {"producer_id": name, "producer_epoch": "0", "producer_seq": str(seq)}


UNKNOWN = (503, "outcome_unknown")


@pytest.mark.parametrize("fault", Fault)
def test_the_batch_and_all_decided_after_it_is_refused_as_unknown(tmp_path: Path, faults: Faults, fault: Fault) -> None:
    async def scenario(node: InProcess) -> None:
        assert (await append(node, A, "one\n")).status == 204
        held = await faults.hold(node, A)
        later = [asyncio.ensure_future(append(node, path, f"later {at}\n")) for at in range(20) for path in (A, B)]
        created = asyncio.ensure_future(node.request("PUT", "/v1/stream/c", TEXT, b"new\n"))
        deleted = asyncio.ensure_future(node.request("DELETE", B))
        await queued(node, 43)
        faults.release(fault)
        answers = await asyncio.gather(held, *later, created, deleted)
        assert {code(answer) for answer in answers} == {UNKNOWN}
        assert {answer.headers["retry-after"] for answer in answers} == {"5"}
        await healthy(node)
        stored = "held\n" if fault is Fault.ANSWER_LOST else ""
        assert await text_of(node, A) == "one\n" + stored
        assert await text_of(node, B) == ""
        assert (await node.request("HEAD", "/v1/stream/c")).status == 404
        answer = await append(node, A, "two\n")
        assert (answer.status, place(answer.headers["stream-next-offset"]).seq) == (204, 3 if stored else 2)
        assert await text_of(node, A) == f"one\n{stored}two\n"

    run(tmp_path, scenario, commit_rows_max=8)


@pytest.mark.parametrize(("fault", "again"), [(Fault.NOTHING_STORED, 200), (Fault.ANSWER_LOST, 204)])
def test_a_producer_of_the_failed_batch_is_decided_anew(
    tmp_path: Path, faults: Faults, fault: Fault, again: int
) -> None:
    async def scenario(node: InProcess) -> None:
        assert (await append(node, A, "one\n", **triple(0))).status == 200
        faults.plan = [fault]
        assert code(await append(node, A, "two\n", **triple(1))) == UNKNOWN
        await healthy(node)
        answer = await append(node, A, "two\n", **triple(1))
        assert (answer.status, answer.headers["producer-seq"]) == (again, "1")
        assert (await append(node, A, "three\n", **triple(2))).status == 200
        assert await text_of(node, A) == "one\ntwo\nthree\n"

    run(tmp_path, scenario)


def test_a_duplicate_of_an_append_that_fails_is_refused_with_it(tmp_path: Path, faults: Faults) -> None:
    async def scenario(node: InProcess) -> None:
        held = await faults.hold(node, B)
        first = asyncio.ensure_future(append(node, A, "one\n", **triple(0)))
        second = asyncio.ensure_future(append(node, A, "one\n", **triple(0)))
        gap = asyncio.ensure_future(append(node, A, "three\n", **triple(2)))
        await queued(node, 2)
        faults.release(Fault.NOTHING_STORED)
        assert {code(answer) for answer in await asyncio.gather(held, first, second, gap)} == {UNKNOWN}
        await healthy(node)
        assert (await append(node, A, "one\n", **triple(0))).status == 200

    run(tmp_path, scenario)


def test_while_it_is_broken_nothing_is_confirmed_that_is_not_stored(tmp_path: Path, faults: Faults) -> None:
    """Memory holds decisions of the failed batch: a retry must not be told that it is a duplicate, or closed."""

    async def scenario(node: InProcess) -> None:
        assert (await append(node, A, "one\n", **triple(0))).status == 200
        faults.recovers = False
        held = await faults.hold(node, A)
        close = {"stream-closed": "true"}
        changes = [
            asyncio.ensure_future(request)
            for request in (
                append(node, A, "two\n", **triple(1)),
                node.request("POST", B, close),
                node.request("PUT", A + "2", TEXT),
            )
        ]
        await queued(node, 4)
        faults.release(Fault.NOTHING_STORED)
        assert {code(answer) for answer in await asyncio.gather(held, *changes)} == {UNKNOWN}
        retried = await asyncio.gather(
            append(node, A, "two\n", **triple(1)),
            append(node, A, "one\n", **triple(0)),
            append(node, A, "four\n", **triple(3)),
            node.request("POST", B, close),
            append(node, B, "x\n"),
            node.request("PUT", B, {**TEXT, **close}),
            node.request("PUT", A + "2", TEXT),
            node.request("DELETE", A),
        )
        assert {code(answer) for answer in retried} == {(503, "unavailable")}
        assert {answer.headers["retry-after"] for answer in retried} == {"5"}
        faults.recovers = True
        await healthy(node)
        assert (await append(node, A, "two\n", **triple(1))).status == 200
        assert (await append(node, B, "open\n")).status == 204

    run(tmp_path, scenario)


def test_while_it_is_broken_reads_show_what_is_stored(tmp_path: Path, faults: Faults) -> None:
    """Also entries whose heads have not been written yet, and never one of the failed batch."""

    async def scenario(node: InProcess) -> None:
        for number in range(5):
            assert (await append(node, A, f"{number}\n")).status == 204
        faults.recovers = False
        faults.plan = [Fault.NOTHING_STORED]
        assert code(await append(node, A, "never\n")) == UNKNOWN
        ready = await node.request("GET", "/readyz")
        assert ready.status == 503
        assert "commit_failed" in json.loads(ready.body)["reasons"][0]
        for _ in range(2):
            read = await node.request("GET", f"{A}?offset=-1")
            assert (read.status, read.body, read.headers["stream-up-to-date"]) == (200, b"0\n1\n2\n3\n4\n", "true")
            assert place((await node.request("HEAD", A)).headers["stream-next-offset"]).seq == 5
            again = await node.request("GET", f"{A}?offset={read.headers['stream-next-offset']}")
            assert (again.status, again.body) == (200, b"")
        faults.recovers = True
        await healthy(node)
        assert await text_of(node, A) == "0\n1\n2\n3\n4\n"

    run(tmp_path, scenario)


@pytest.mark.parametrize("fault", Fault)
def test_live_readers_end_and_resume_without_a_gap(tmp_path: Path, faults: Faults, fault: Fault) -> None:
    async def scenario(node: InProcess) -> None:
        stream = node.start("GET", f"{A}?offset=-1&live=sse")
        poll = node.start("GET", f"{A}?offset=now&live=long-poll&timeout_ms=3000")
        assert (await append(node, B, "unrelated\n")).status == 204
        await stream.until(b"upToDate")
        faults.plan = [fault]
        assert code(await append(node, A, "one\n")) == UNKNOWN
        await healthy(node)
        async with asyncio.timeout(2):
            await stream.task
            await poll.task
        assert (stream.head["status"], poll.head["status"]) in {(200, 204), (200, 200)}
        assert b"one" not in stream.body
        assert (await append(node, A, "two\n")).status == 204
        stored = "one\n" if fault is Fault.ANSWER_LOST else ""
        resumed = await node.request("GET", f"{A}?offset=-1&live=long-poll")
        assert resumed.body.decode() == f"{stored}two\n"

    run(tmp_path, scenario)


@pytest.mark.parametrize("fault", Fault)
def test_creates_and_deletes_of_the_failed_batch_are_whole_or_not_at_all(
    tmp_path: Path, faults: Faults, fault: Fault
) -> None:
    async def scenario(node: InProcess) -> None:
        for path in ("/bkt1", "/bkt1/kept", "/bkt1/dropped"):
            assert (await node.request("PUT", path, TEXT, b"")).status == 201
        assert (await append(node, "/bkt1/dropped", "old\n")).status == 204
        held = await faults.hold(node, A)
        changes = [
            asyncio.ensure_future(request)
            for request in (
                node.request("DELETE", "/bkt1/dropped"),
                node.request("PUT", "/bkt1/made", TEXT, b"new\n"),
                node.request("PUT", "/bkt2", {}),
                node.request("PUT", "/v1/stream/bkt3/made", TEXT),
            )
        ]
        await queued(node, 5)
        faults.release(None, fault)
        assert (await held).status == 204
        assert {code(answer) for answer in await asyncio.gather(*changes)} == {UNKNOWN}
        await healthy(node)
        stored = fault is Fault.ANSWER_LOST
        listed = json.loads((await node.request("GET", "/bkt1/streams")).body)["streams"]
        assert [entry["stream_id"] for entry in listed] == (["kept", "made"] if stored else ["dropped", "kept"])
        assert json.loads((await node.request("GET", "/bkt1")).body)["streams"] == 2
        asked = [("DELETE", "/bkt1/dropped"), ("PUT", "/bkt1/made"), ("PUT", "/bkt2"), ("GET", "/bkt3")]
        statuses = [(await node.request(method, path, TEXT)).status for method, path in asked]
        assert statuses == ([404, 200, 409, 200] if stored else [204, 201, 201, 404])

    run(tmp_path, scenario)


def test_a_full_disk_refuses_and_comes_back_by_itself(tmp_path: Path) -> None:
    """SQLite itself says that it is full: no fault of the test's making."""

    async def scenario(node: InProcess) -> None:
        writer = node.context.database.writer
        pages = await writer.run(lambda db: db.execute("PRAGMA page_count").fetchone()[0])
        await writer.run(lambda db: db.execute(f"PRAGMA max_page_count = {pages + 4}").fetchone())
        stored, answer = 0, await append(node, A, "x" * 4000)
        while answer.status == 204:
            stored, answer = stored + 1, await append(node, A, "x" * 4000)
        assert code(answer) == UNKNOWN
        await writer.run(lambda db: db.execute("PRAGMA max_page_count = 1000000").fetchone())
        await healthy(node)
        last = await append(node, A, "end")
        assert (last.status, place(last.headers["stream-next-offset"]).seq) == (204, stored + 1)
        assert await text_of(node, A) == "x" * 4000 * stored + "end"

    run(tmp_path, scenario)


def test_many_failures_in_a_row_skip_no_offset(tmp_path: Path, faults: Faults) -> None:
    async def scenario(node: InProcess) -> None:
        expected = ""
        for number in range(40):
            fault = (None, Fault.NOTHING_STORED, Fault.ANSWER_LOST)[number % 3]
            faults.plan = [fault]
            answer = await append(node, A, f"{number}\n", **triple(0, f"producer-{number}"))
            assert answer.status == (200 if fault is None else 503)
            await healthy(node)
            if fault is Fault.NOTHING_STORED:
                assert (await append(node, A, f"{number}\n", **triple(0, f"producer-{number}"))).status == 200
            expected += f"{number}\n"
        assert await text_of(node, A) == expected
        assert place((await node.request("HEAD", A)).headers["stream-next-offset"]).seq == 40

    run(tmp_path, scenario, heads_flush_rows=3)


def test_a_mistake_after_the_commit_is_handled_like_a_failed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is on disk and memory was not told: going on from there would leave a gap in the log."""

    async def scenario(node: InProcess) -> None:
        def fails(_: object) -> None:
            monkeypatch.undo()
            raise RuntimeError("a mistake in telling the readers")

        monkeypatch.setattr(node.context.ledger, "_published", fails)
        assert code(await append(node, A, "one\n")) == UNKNOWN
        await healthy(node)
        assert (await append(node, A, "two\n")).status == 204
        assert await text_of(node, A) == "one\ntwo\n"

    run(tmp_path, scenario)


class FullDisk(io.StringIO):
    @override
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_log_that_cannot_be_written_breaks_nothing(
    tmp_path: Path, faults: Faults, form: Literal["console", "json"]
) -> None:
    """The log often lies on the disk that is full."""

    async def scenario(node: InProcess) -> None:
        faults.plan = [Fault.NOTHING_STORED]
        assert code(await append(node, A, "one\n")) == UNKNOWN
        await healthy(node)
        assert (await append(node, A, "two\n")).status == 204

    logs.configure(form, "debug", FullDisk())
    try:
        run(tmp_path, scenario)
    finally:
        structlog.reset_defaults()
        root = logging.getLogger()
        root.handlers = [each for each in root.handlers if each.get_name() != logs._HANDLER_NAME]
