"""Several drivers, late ones, and those that say what is not so: nothing is covered twice, or beyond a claim."""

import asyncio
import random
import socket
import time
from pathlib import Path
from typing import Any

import msgspec

from indexers.messages import Build, CommitRequest, Failed, IndexObject, Merge
from spark_index.driver.tasks import Task, failed_of
from streams_node.objects.keys import ObjectId, index_key
from tests.http.wire import ask
from tests.indexing.world import (
    JSON,
    KEYED,
    FakeDriver,
    append,
    cover,
    covered,
    create,
    declare,
    desk_of,
    indexed,
    new_id,
    on_loop,
    rows,
    sealed,
    spans,
    told,
)
from tests.tiers.bucket import memory_bucket
from tests.tiers.node import tiers_of

A, B = "/v1/stream/a", "/v1/stream/b"


def code(reply: Any) -> tuple[int, str]:
    return reply.status, told(reply)["error"]["code"]


@on_loop
async def test_two_drivers_share_the_work(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        one, other = FakeDriver(node, "one"), FakeDriver(node, "other")
        await create(node, A)
        for _ in range(4):
            await append(node, A, [{"k": "x"}] * 5)
            await sealed(node)
        first = await one.claim(bytes_max=1)  # an object at a time
        second = await other.claim(bytes_max=1)
        assert first is not None
        assert second is not None
        assert first.fence < second.fence
        assert not _entries(first) & _entries(second)
        replies = await asyncio.gather(one.commit(one.built(first)), other.commit(other.built(second)))
        assert [reply.status for reply in replies] == [200, 200]
        await asyncio.gather(one.finish(), other.finish())
        assert spans(await covered(node, A)) == [(0, 20)]


def _entries(claim: Any) -> set[tuple[int, int]]:
    return {
        (each.stream, seq)
        for work in claim.work
        if isinstance(work, Build)
        for each in work.stretches
        for seq in range(each.first_seq, each.end_seq)
    }


@on_loop
async def test_a_lease_that_ended_commits_nothing(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver, other = FakeDriver(node), FakeDriver(node, "other")
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 5)
        await sealed(node)
        claim = await driver.claim()
        assert claim is not None
        request = driver.built(claim)
        assert await other.claim() is None  # it is somebody else's
        (lease,) = desk_of(node).leases
        lease.ends = desk_of(node)._clock() - 1
        assert code(await driver.renew(claim)) == (409, "lease_ended")
        assert code(await driver.commit(request)) == (409, "lease_ended")
        assert await covered(node, A) == []
        again = await other.claim()
        assert again is not None
        assert _entries(again) == _entries(claim)
        assert code(await driver.commit(request)) == (409, "lease_ended")
        assert (await other.commit(other.built(again))).status == 200
        assert spans(await covered(node, A)) == [(0, 5)]


@on_loop
async def test_what_the_driver_of_this_node_was_at_when_it_died_is_given_out_at_once(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        host = socket.gethostname()
        dead, elsewhere = FakeDriver(node, f"{host}-12-ab"), FakeDriver(node, f"{host}-123-cd")
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 5)
        await sealed(node)
        claim = await dead.claim()
        assert claim is not None
        waiting = asyncio.ensure_future(elsewhere.claim(wait_ms=20_000))
        desk_of(node).died(123)
        assert (await dead.renew(claim)).status == 200
        desk_of(node).died(12)
        again = await waiting
        assert again is not None
        assert _entries(again) == _entries(claim)
        assert code(await dead.commit(dead.built(claim))) == (409, "lease_ended")


@on_loop
async def test_a_renewed_lease_lives_on_but_not_for_ever(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 5)
        await sealed(node)
        claim = await driver.claim()
        assert claim is not None
        (lease,) = desk_of(node).leases
        lease.ends -= 50
        reply = await driver.renew(claim, done=1)
        assert told(reply) == {"claim": claim.claim, "lease_ms": 60_000}
        assert lease.ends > desk_of(node)._clock() + 50
        lease.began -= 60 * 60
        await driver.renew(claim)
        assert code(await driver.renew(claim)) == (409, "lease_ended")


@on_loop
async def test_a_commit_that_does_not_fit_is_refused_whole(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 5)
        await sealed(node)
        assert await driver.round()
        await append(node, A, [{"k": "x"}] * 5)
        await sealed(node)
        claim = await driver.claim()
        assert claim is not None
        good = driver.built(claim)
        (made,) = good.objects
        (mine,) = made.covers
        change = msgspec.structs.replace

        def but(**changes: Any) -> CommitRequest:
            return change(good, objects=[change(made, **changes)])

        bad = {
            "beyond its claim": but(covers=[change(mine, first_seq=4, entries=6)]),
            "as nobody claimed it": but(covers=[change(mine, stream=mine.stream + 1)]),
            "nobody claimed it": but(covers=[change(mine, config="0" * 32)]),
            "overlap": but(
                covers=[
                    change(mine, end_seq=8, entries=3),
                    change(mine, first_seq=7, entries=3),
                ]
            ),
            "do not fit together": but(covers=[change(mine, entries=4)]),
            "has no": but(made=new_id()),
            "bytes in the object store": but(bytes=made.bytes + 1),
            "level 0": but(level=1),
            "named twice": change(good, objects=[made, made]),
            "no merge of this claim": change(good, merged=[[made.made, new_id()]]),
        }
        for words, request in bad.items():
            reply = await driver.commit(request)
            assert code(reply) == (409, "index_refused"), (words, reply)
            assert words in told(reply)["error"]["message"], (words, reply)
            assert spans(await covered(node, A)) == [(0, 5)]
        assert (await driver.commit(good)).status == 200
        assert spans(await covered(node, A)) == [(0, 10)]


@on_loop
async def test_a_cover_that_is_there_already_is_not_stored_again(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver, other = FakeDriver(node), FakeDriver(node, "other")
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 5)
        await sealed(node)
        claim = await driver.claim()
        assert claim is not None
        (lease,) = desk_of(node).leases
        desk_of(node).leases._living.clear()  # as if it had ended, and its driver had not noticed
        again = await other.claim()
        assert again is not None
        assert (await other.commit(other.built(again))).status == 200
        desk_of(node).leases._living[lease.claim] = lease
        reply = await driver.commit(driver.built(claim))
        assert code(reply) == (409, "index_refused")
        assert "covered" in told(reply)["error"]["message"]
        assert spans(await covered(node, A)) == [(0, 5)]


@on_loop
async def test_objects_that_failed_are_listed_and_rest(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 5)
        await sealed(node)
        claim = await driver.claim()
        assert claim is not None
        (work,) = claim.work
        assert isinstance(work, Build)
        failed = [Failed(made=work.source.made, reason="no use")]
        request = CommitRequest(claim=claim.claim, fence=claim.fence, objects=[], failed=failed)
        assert (await driver.commit(request)).status == 200
        assert await driver.claim() is None
        assert not desk_of(node).wanted
        seen = told(await ask(node, "GET", "/v1/server/_index"))
        assert [(each["object"], each["reason"], each["count"]) for each in seen["failed"]] == [
            (work.source.made, "no use", 1)
        ]
        desk = desk_of(node)
        for each in desk.failures._known.values():
            each.not_before = 0
        desk._later = dict.fromkeys(desk._later, 0.0)
        assert await driver.round()
        assert spans(await covered(node, A)) == [(0, 5)]
        assert told(await ask(node, "GET", "/v1/server/_index"))["failed"] == []


@on_loop
async def test_an_input_that_is_lost_is_given_up_and_its_entries_indexed_again(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A)
        for _ in range(16):
            await append(node, A, [{"k": "x"}])
            await sealed(node)
            assert await driver.round()
        claim = await driver.claim()
        assert claim is not None
        lost = (await covered(node, A))[3]
        driver.store.delete(index_key("lexicon", ObjectId(lost.made)))
        failed = [Failed(made=lost.made, reason="it is not there")]
        await driver.commit(CommitRequest(claim=claim.claim, fence=claim.fence, objects=[], failed=failed))
        assert spans(await covered(node, A)) == [(0, 3), (4, 16)]
        await driver.finish()
        assert spans(await covered(node, A)) == [(0, 16)]
        assert lost.made not in {each.made for each in await covered(node, A)}


@on_loop
async def test_inputs_of_a_merge_that_ends_its_worker_each_time_go_on_serving(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A)
        for _ in range(16):
            await append(node, A, [{"k": "x"}])
            await sealed(node)
            assert await driver.round()
        inputs = {each.made for each in await covered(node, A)}
        desk = desk_of(node)
        now = time.monotonic()
        for turn in range(5):
            desk.failures._clock = lambda at=now + 1e6 * turn: at  # type: ignore[misc]  # every rest is over
            desk._unmerged = None
            claim = await driver.claim()
            assert claim is not None
            assert all(isinstance(each, Merge) for each in claim.work)
            task = Task(store=claim.store, meanings=claim.meanings, work=claim.work)
            failed = failed_of([task], "Python worker exited unexpectedly").failed
            assert {each.made for each in failed} == inputs
            await driver.commit(CommitRequest(claim=claim.claim, fence=claim.fence, objects=[], failed=failed))
            assert {each.made for each in await covered(node, A)} == inputs
        told_of = told(await ask(node, "GET", "/v1/server/_index"))["failed"]
        assert {each["object"] for each in told_of} == inputs


@on_loop
async def test_fresh_entries_come_before_old_ones(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A, {"schema": {"type": "object"}})
        for _ in range(3):
            await append(node, A, [{"k": "old"}] * 5)
            await sealed(node)
        await declare(node, A, {"routingKey": KEYED["routingKey"]})
        await desk_of(node).follow()
        await append(node, A, [{"k": "new"}] * 5)
        await sealed(node)
        claim = await driver.claim(bytes_max=1)
        assert claim is not None
        assert {seq for _, seq in _entries(claim)} == set(range(15, 20))
        assert (await driver.commit(driver.built(claim))).status == 200
        await driver.finish()
        assert spans(await covered(node, A)) == [(0, 20)]


@on_loop
async def test_a_stream_with_much_to_do_does_not_hold_up_the_others(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node", own_segment_bytes=1) as node:
        driver = FakeDriver(node)
        await create(node, A)
        for _ in range(6):
            await append(node, A, [{"k": "x" * 200}] * 5)
            await sealed(node)
        await create(node, B)
        await append(node, B, [{"k": "y"}] * 5)
        await sealed(node)
        streams = []
        for _ in range(2):
            claim = await driver.claim(bytes_max=1)
            assert claim is not None
            streams.append({stream for stream, _ in _entries(claim)})
        assert len(streams[0] | streams[1]) == 2


@on_loop
async def test_a_claim_waits_for_work(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A)
        await desk_of(node).follow()
        waiting = asyncio.ensure_future(driver.claim(wait_ms=20_000))
        await asyncio.sleep(0)
        await append(node, A, [{"k": "x"}] * 5)
        await sealed(node)
        claim = await waiting
        assert claim is not None
        assert await driver.claim(wait_ms=1) is None


@on_loop
async def test_a_store_that_no_driver_reaches_has_no_claims(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node", memory_bucket()) as node:
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 5)
        await sealed(node)
        assert await FakeDriver(node).claim() is None


@on_loop
async def test_bad_bodies_are_refused_in_the_documented_shape(tmp_path: Path) -> None:
    random_ = random.Random(7)
    good = msgspec.json.encode(
        CommitRequest(
            claim=new_id(),
            fence=1,
            objects=[
                IndexObject(
                    made=new_id(),
                    family="lexicon",
                    level=0,
                    bytes=1,
                    sum="0" * 32,
                    rows=1,
                    covers=[cover(1, 0, 1, "c")],
                )
            ],
        )
    )
    bodies = [b"", b"{}", b"[]", b"null", b"\xff", b'{"driver": 5}', b"[" * 100_000, b'{"claim": "\\ud800"}', good[:-3]]
    for _ in range(200):
        spoiled = bytearray(good)
        for _ in range(random_.randint(1, 4)):
            spoiled[random_.randrange(len(spoiled))] = random_.randrange(256)
        bodies.append(bytes(spoiled))
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        for body in bodies:
            for what in ("claim", "renew", "commit"):
                reply = await driver.post(what, body)
                assert 400 <= reply.status < 500, (what, body, reply)
                error = told(reply)["error"]
                assert error["code"] in {"bad_request", "lease_ended", "index_refused"}, error
                assert error["message"]
        assert (await driver.post("claim", {"driver": "x", "wait_ms": -1})).status == 400
        assert (await driver.post("claim", {"driver": "x", "bytes_max": 0})).status == 400
        assert (await ask(node, "GET", "/v1/server/_index/claim")).status == 405
        await create(node, A)
        for body in (b"{", b'{"families": ["x"]}', b'{"more": 1}', b'{"anew": 3}'):
            assert (await ask(node, "POST", f"{A}/_index/rebuild", JSON, body)).status == 400
        assert (await ask(node, "POST", "/v1/stream/none/_index/rebuild", JSON)).status == 404
        await create(node, B, declared=None)
        assert (await ask(node, "POST", f"{B}/_index/rebuild", JSON)).status == 404


@on_loop
async def test_a_million_streams_without_a_plan_are_not_looked_at(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        for number in range(20):
            await create(node, f"/v1/stream/s{number}", declared=None)
            await append(node, f"/v1/stream/s{number}", [1, 2, 3])
        await sealed(node)
        desk = desk_of(node)
        await desk.tend()
        assert desk.planned == 0
        assert desk.outlook().streams == 0
        assert await rows(node, "SELECT * FROM index_plans") == []
        assert tiers_of(node).desk is desk


@on_loop
async def test_what_happens_is_counted(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 5)
        await sealed(node)
        await desk_of(node).follow()
        before = await metrics(node)
        assert (before["streams_index_due_streams"], before["streams_index_claims_held"]) == (1, 0)
        assert before["streams_index_due_bytes"] > 0
        assert await driver.claim() is not None
        (lease,) = desk_of(node).leases
        lease.ends = desk_of(node)._clock() - 1
        claim = await driver.claim()
        assert claim is not None
        assert (await metrics(node))["streams_index_claims_held"] == 1
        (work,) = claim.work
        assert isinstance(work, Build)
        request = driver.built(claim)
        request = msgspec.structs.replace(request, failed=[Failed(made=work.source.made, reason="late")])
        assert (await driver.commit(request)).status == 200
        (lost,) = {each.made for each in await covered(node, A)}
        driver.store.delete(index_key("lexicon", ObjectId(lost)))
        await desk_of(node).doubt(lost, "it is gone")
        after = await metrics(node)
        moved = {name.removeprefix("streams_index_") for name, value in after.items() if value > before[name]}
        assert {"commits_total", "covers_total", "leases_ended_total", "failed_total", "given_up_total"} <= moved


async def metrics(node: Any) -> dict[str, float]:
    reply = await ask(node, "GET", "/metrics")
    lines = [line.split(" ") for line in reply.body.decode().splitlines() if line.startswith("streams_index_")]
    return {name: float(value) for name, value in lines}


@on_loop
async def test_a_node_that_stops_does_not_wait_for_those_who_wait_for_work(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        waiting = asyncio.ensure_future(FakeDriver(node).claim(wait_ms=60_000))
        while not desk_of(node)._bell._waiters:  # noqa: ASYNC110 - it rings for nobody
            await asyncio.sleep(0)
        desk_of(node).end()
        assert await waiting is None
