"""What is sealed gets covered, once, whatever happens to streams, objects and nodes meanwhile."""

from pathlib import Path

from indexers.messages import Build, Merge
from tests.http.wire import ask
from tests.indexing.world import (
    JSON,
    KEYED,
    SEARCH,
    FakeDriver,
    append,
    covered,
    create,
    declare,
    desk_of,
    indexed,
    on_loop,
    rows,
    sealed,
    spans,
    told,
)
from tests.tiers.node import until

A, B = "/v1/stream/a", "/v1/stream/b"


@on_loop
async def test_what_is_sealed_is_covered_once(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A)
        await create(node, B, declared=None)
        for turn in range(3):
            await append(node, A, [{"k": f"k{turn}-{at}"} for at in range(10)])
            await append(node, B, [{"n": at} for at in range(10)])
            await sealed(node)
            await driver.finish()
            assert spans(await covered(node, A)) == [(0, 10 * (turn + 1))]
        assert await covered(node, B) == []
        assert not await driver.round()


@on_loop
async def test_a_small_stream_waits_until_it_has_enough(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node", index_stream_entries=25) as node:
        driver = FakeDriver(node)
        await create(node, A)
        for _ in range(2):
            await append(node, A, [{"k": "x"}] * 10)
            await sealed(node)
            assert not await driver.round()
        await append(node, A, [{"k": "x"}] * 10)
        await sealed(node)
        assert await driver.finish() == 1
        assert spans(await covered(node, A)) == [(0, 30)]


@on_loop
async def test_a_rebuild_takes_what_is_too_small(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node", index_stream_entries=1000) as node:
        driver = FakeDriver(node)
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 10)
        await sealed(node)
        assert not await driver.round()
        reply = await ask(node, "POST", f"{A}/_index/rebuild", JSON)
        assert reply.status == 202, reply
        assert told(reply) == {"stream": "a", "anew": False, "entries": {"lexicon": 10}}
        assert desk_of(node).wanted
        await driver.finish()
        assert spans(await covered(node, A)) == [(0, 10)]
        before = {each.made for each in await covered(node, A)}
        reply = await ask(node, "POST", f"{A}/_index/rebuild", JSON, b'{"anew": true, "families": ["lexicon"]}')
        assert reply.status == 202, reply
        assert await covered(node, A) == []
        await driver.finish()
        assert spans(await covered(node, A)) == [(0, 10)]
        assert not before & {each.made for each in await covered(node, A)}


@on_loop
async def test_covers_stay_when_sealed_objects_are_merged(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node", compaction_packs=2) as node:
        driver = FakeDriver(node)
        await create(node, A)
        for turn in range(8):
            await append(node, A, [{"k": f"{turn}"}] * 5)
            await sealed(node)
            await driver.finish()
        before = await covered(node, A)
        assert spans(before) == [(0, 40)]

        async def merged() -> bool:
            return bool(await rows(node, "SELECT 1 FROM objects WHERE level > 0 AND dead_us IS NULL"))

        await until(merged, "sealed objects are merged")
        assert await covered(node, A) == before
        assert not await driver.round()
        await append(node, A, [{"k": "last"}])
        await sealed(node)
        await driver.finish()
        assert spans(await covered(node, A)) == [(0, 41)]


@on_loop
async def test_sixteen_index_objects_become_one(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A)
        for turn in range(16):
            await append(node, A, [{"k": f"k{turn:02}"}, {"k": "always"}])
            await sealed(node)
            claim = await driver.claim()
            assert claim is not None
            assert isinstance(claim.work[0], Build)
            assert (await driver.commit(driver.built(claim))).status == 200
        claim = await driver.claim()
        assert claim is not None
        (order,) = claim.work
        assert isinstance(order, Merge)
        assert (order.family, order.level, len(order.inputs)) == ("lexicon", 1, 16)
        reply = await driver.commit(driver.built(claim))
        assert reply.status == 200, reply
        after = await covered(node, A)
        assert {each.level for each in after} == {1}
        assert spans(after) == [(0, 32)]
        assert (await rows(node, "SELECT count(*) FROM index_objects WHERE dead_us IS NULL"))[0][0] == 1
        assert (await rows(node, "SELECT count(*) FROM index_objects WHERE dead_us IS NOT NULL"))[0][0] == 16
        assert not await driver.round()


@on_loop
async def test_a_stream_that_dies_meanwhile_is_left_out(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A)
        await create(node, B)
        await append(node, A, [{"k": "x"}] * 5)
        await append(node, B, [{"k": "y"}] * 5)
        await sealed(node)
        claim = await driver.claim()
        assert claim is not None
        request = driver.built(claim)
        assert (await ask(node, "DELETE", A)).status == 204
        await create(node, A)
        await node.context.ledger.committer.settled()
        reply = await driver.commit(request)
        assert reply.status == 200, reply
        assert told(reply)["left_out"] == 1
        assert await covered(node, A) == []
        assert spans(await covered(node, B)) == [(0, 5)]
        await append(node, A, [{"k": "new"}] * 3)
        await sealed(node)
        await driver.finish()
        assert spans(await covered(node, A)) == [(0, 3)]


@on_loop
async def test_covers_go_with_their_stream_and_objects_with_their_covers(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node", object_grace_ms=0) as node:
        driver = FakeDriver(node)
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 5)
        await sealed(node)
        await driver.finish()
        ((made,),) = await rows(node, "SELECT made FROM index_objects")
        assert (await ask(node, "DELETE", A)).status == 204
        await node.context.ledger.committer.settled()
        assert await rows(node, "SELECT * FROM index_covers") == []
        assert await rows(node, "SELECT * FROM index_plans") == []
        await desk_of(node).tend()
        assert (await rows(node, "SELECT dead_us IS NOT NULL FROM index_objects")) == [(1,)]
        assert made


@on_loop
async def test_a_trim_takes_covers_below_it(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A)
        for _ in range(2):
            await append(node, A, [{"k": "x"}] * 5)
            await sealed(node)
            await driver.finish()
        await node.context.database.writer.run(
            lambda db: db.execute("UPDATE streams SET earliest_seq = 7 WHERE name = 'a'").rowcount
        )
        assert spans(await covered(node, A)) == [(5, 10)]


@on_loop
async def test_a_changed_configuration_serves_until_the_new_one_covers_as_much(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A, KEYED | {"search": SEARCH})
        for _ in range(3):
            await append(node, A, [{"k": "x", "text": "some words", "at": "2026-01-01T00:00:00Z"}] * 5)
            await sealed(node)
            await driver.finish()
        before = await covered(node, A)
        assert spans(before, "companion") == spans(before, "exact") == spans(before) == [(0, 15)]
        fields = {name: field for name, field in SEARCH["fields"].items() if name != "text"}
        await declare(node, A, {"search": SEARCH | {"fields": fields}})
        after = await covered(node, A)
        assert after == before  # they serve
        claim = await driver.claim()
        assert claim is not None
        families = {
            family
            for work in claim.work
            if isinstance(work, Build)
            for each in work.stretches
            for family in each.families
        }
        assert families == {"companion"}
        assert (await driver.commit(driver.built(claim))).status == 200
        await driver.finish()
        last = await covered(node, A)
        assert {each.config for each in last if each.family == "companion"} == {claim.meanings[0].configs["companion"]}
        assert spans(last, "companion") == [(0, 15)]
        assert [each for each in last if each.family != "companion"] == [
            each for each in before if each.family != "companion"
        ]


@on_loop
async def test_a_family_that_is_not_wanted_any_more_goes(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A, KEYED | {"search": SEARCH})
        await append(node, A, [{"k": "x"}] * 5)
        await sealed(node)
        await driver.finish()
        await declare(node, A, {"search": None})
        await desk_of(node).tend()
        assert {each.family for each in await covered(node, A)} == {"lexicon"}


@on_loop
async def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 5)
        await sealed(node)
        await FakeDriver(node).finish()
        await append(node, A, [{"k": "y"}] * 5)
        await sealed(node)
        claim = await FakeDriver(node).claim()
        assert claim is not None
        request = FakeDriver(node).built(claim)
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        late = await driver.commit(request)
        assert (late.status, told(late)["error"]["code"]) == (409, "lease_ended")
        again = await driver.claim()
        assert again is not None
        assert again.fence > claim.fence
        assert (await driver.commit(driver.built(again))).status == 200
        assert spans(await covered(node, A)) == [(0, 10)]


@on_loop
async def test_a_commit_that_was_stored_before_the_node_died_is_confirmed(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 5)
        await sealed(node)
        claim = await driver.claim()
        assert claim is not None
        request = driver.built(claim)
        first = await driver.commit(request)
        again = await driver.commit(request)
        assert (first.status, again.status, first.body) == (200, 200, again.body)
    async with indexed(tmp_path / "node") as node:
        reply = await FakeDriver(node).commit(request)
        assert (reply.status, reply.body) == (200, first.body)
        assert spans(await covered(node, A)) == [(0, 5)]
