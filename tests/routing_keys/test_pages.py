"""Pages of routing keys against a plain list, whatever is indexed, sealed, in the log, trimmed or damaged."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from tests.http.wire import ask
from tests.routing_keys.world import JSON, PATH, TRICKY, KeyWorld, key_world
from tests.tiers.node import until

FIELDS = {"stream", "source", "took_ms", "coverage", "timing", "keys", "next_after"}


def run(folder: Path, test: Callable[[KeyWorld, random.Random], Awaitable[None]], **settings: Any) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - to run it again
    chance = random.Random(seed)

    async def main() -> None:
        async with key_world(folder / "node", chance, **settings) as world:
            await test(world, chance)

    anyio.run(main)


async def appended(world: KeyWorld, chance: random.Random, count: int) -> None:
    for _ in range(count):
        await world.append([chance.choice([*TRICKY, None, f"n{chance.randrange(200)}"]) for _ in range(4)])


async def check(world: KeyWorld, chance: random.Random) -> bool:
    """Every page is in order and shows what is there; if each says that nothing is missing, nothing is."""
    truth = await world.truth()
    found, complete = await world.walk(chance.choice((1, 3, 10, 500)) if len(truth) < 60 else chance.choice((10, 500)))
    assert found == sorted(set(found), key=lambda key: key.encode())
    assert set(found) <= set(truth)
    if complete:
        assert found == truth
    return complete


async def released(world: KeyWorld) -> None:
    await world.seal()
    tail = (await world.state()).tail.seq

    async def gone() -> bool:
        return await world.sealed_end() == tail

    await until(gone, "the log is released")


@pytest.mark.parametrize("own_bytes", [400, 1 << 20])
def test_pages_are_the_plain_list_at_every_stage(tmp_path: Path, own_bytes: int) -> None:
    async def test(world: KeyWorld, chance: random.Random) -> None:
        assert await check(world, chance)
        await appended(world, chance, 10)
        assert await check(world, chance)  # all of it is in the log
        for _ in range(6):
            await released(world)
            await check(world, chance)
            await appended(world, chance, chance.randint(1, 8))
            await check(world, chance)
            end = await world.sealed_end()
            match chance.randrange(4):
                case 0:
                    await world.index_rest(end, chance)
                case 1:
                    await world.index_rest(chance.randint(0, end), chance)
                case 2 if len(world.indexer.runs) > 1:
                    await world.indexer.merged(chance.sample(world.indexer.runs, 2))
                case _ if chance.random() < 0.5:
                    earliest = (await world.state()).earliest_seq
                    await world.trim(chance.randint(earliest, len(world.keys)))
                case _:
                    pass
            await check(world, chance)
        await world.index_rest(await world.sealed_end(), chance)
        assert await check(world, chance)

    run(tmp_path, test, own_segment_bytes=own_bytes)


def test_a_damaged_index_hides_no_key_and_is_told(tmp_path: Path) -> None:
    async def test(world: KeyWorld, chance: random.Random) -> None:
        doubted: set[str] = set()
        world.indexes.runs.on_doubt = lambda made, _reason: doubted.add(made)
        for how in ("flipped", "cut", "gone"):
            await appended(world, chance, 3)
            await released(world)
            await world.index_rest(await world.sealed_end(), chance)
            run = world.indexer.runs[-1]
            world.indexer.spoil(run, how)
            complete = await check(world, chance)
            assert doubted == {run.made}
            page = await world.page(limit=500)
            assert page["coverage"]["complete"] is complete
            assert page["timing"]["lexicon_runs_loaded"] == len(world.indexer.runs) - 1
            await world.indexer.drop([run])  # the node has it made again
            world.covered = [pair for pair in world.covered if pair not in [(s.first, s.end) for s in run.sources]]
            await world.index_rest(await world.sealed_end(), chance)
            assert await check(world, chance)
            doubted.clear()

    run(tmp_path, test)


def test_a_store_that_is_away_leaves_the_rest_of_the_answer(tmp_path: Path) -> None:
    async def test(world: KeyWorld, chance: random.Random) -> None:
        await appended(world, chance, 5)
        await released(world)
        await world.index_rest(len(world.keys), chance)
        await world.append(["fresh"])
        await world.evict()
        with world.bucket.away():
            page = await world.page()
            assert page["keys"] == ["fresh"]
            assert (page["next_after"], page["coverage"]["complete"]) == ("fresh", False)
            assert page["coverage"]["possible_missing_uploaded_segments"] >= 1
        world.indexes.runs._shunned.clear()
        assert await check(world, chance)

    run(tmp_path, test)


def test_one_object_that_nothing_covers_is_read_and_the_others_are_counted(tmp_path: Path) -> None:
    async def test(world: KeyWorld, chance: random.Random) -> None:  # noqa: ARG001
        for at in range(3):
            await world.append([f"{at}{letter}" * 40 for letter in "abc"])
            await released(world)
        page = await world.page(limit=500)
        coverage = page["coverage"]
        assert page["keys"] == [f"2{letter}" * 40 for letter in "abc"]
        assert page["next_after"] == page["keys"][-1]
        assert coverage == {
            "complete": False, "indexed_segments": 0, "scanned_uploaded_segments": 1, "scanned_local_segments": 0,
            "scanned_wal_rows": 0, "possible_missing_uploaded_segments": 2, "possible_missing_local_segments": 0,
        }  # fmt: skip
        await world.index([(0, 3)])
        coverage = (await world.page())["coverage"]
        assert (coverage["indexed_segments"], coverage["possible_missing_uploaded_segments"]) == (1, 1)
        await world.index([(3, 6)])
        await world.append(["x", None])
        page = await world.page()
        assert (page["coverage"]["complete"], page["next_after"], len(page["keys"])) == (True, None, 10)
        assert page["coverage"]["scanned_wal_rows"] == 2

    run(tmp_path, test, compaction_packs=99, own_segment_bytes=1)


def test_what_was_in_the_log_is_not_read_again_when_it_has_left_it(tmp_path: Path) -> None:
    async def test(world: KeyWorld, chance: random.Random) -> None:  # noqa: ARG001
        for at in range(3):
            await world.append([f"{at}{letter}" * 40 for letter in "abc"])
            assert (await world.page())["coverage"]["complete"]
            await released(world)
        page = await world.page()
        assert len(page["keys"]) == 9
        assert page["coverage"]["complete"]
        assert page["coverage"]["scanned_uploaded_segments"] == 0
        await world.trim(4)
        page = await world.page()
        assert page["keys"] == sorted(key for key in world.keys[6:] if key)
        assert page["coverage"]["possible_missing_uploaded_segments"] == 1

    run(tmp_path, test, compaction_packs=99, own_segment_bytes=1)


def test_more_keys_than_memory_holds_come_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams_node.answers.keys._ONE_BYTES_MAX", 2000)

    async def test(world: KeyWorld, chance: random.Random) -> None:
        keys = [f"{n:04}" for n in range(300)]
        chance.shuffle(keys)
        for at in range(0, 300, 50):
            await world.append(list(keys[at : at + 50]))
        assert (await world.walk(7)) == (sorted(keys), True)
        assert world.indexes._remembered.bytes == 0
        await released(world)
        if (await world.page())["coverage"]["complete"]:
            assert (await world.walk(90)) == (sorted(keys), True)

    run(tmp_path, test, own_segment_bytes=1)


def test_keys_of_ten_kilobytes_and_cursors_in_percent_encoding(tmp_path: Path) -> None:
    async def test(world: KeyWorld, chance: random.Random) -> None:
        keys = [letter * 10_000 for letter in "abAB"] + [*TRICKY, "\U0001f600" * 2500]
        for key in keys:
            await world.append([key])
        for _ in range(2):
            assert (await world.walk(1))[0] == await world.truth()
            await released(world)
            await world.index_rest(len(keys), chance)
        for after, first in (("%F0%9F%98%80", "\U0001f600" * 2500), ("%EE%80%80", "\uffff"), ("", "\0")):
            reply = await ask(world.node, "GET", f"{PATH}/_routing_keys?after={after}&limit=1")
            assert json.loads(reply.body)["keys"] == [first]

    run(tmp_path, test, routing_key_bytes_max=64 << 10)


def test_what_is_asked_wrongly_is_refused(tmp_path: Path) -> None:
    async def test(world: KeyWorld, chance: random.Random) -> None:  # noqa: ARG001
        for query in ("limit=0", "limit=501", "limit=-1", "limit=x", "limit=1.5", "limit=", "limit=1&limit=1",
                      "limit=99999999999999999999999", "after=%ED%A0%80", "after=%FF", "after=a&after=b",
                      "limit=%C2%B2"):  # fmt: skip
            reply = await ask(world.node, "GET", f"{PATH}/_routing_keys?{query}")
            assert reply.status == 400, query
        for path, status in ((f"{PATH}-missing", 404), ("/v1/stream/plain", 400), ("/v1/stream/bytes", 400)):
            if status == 400:
                kind = JSON if path.endswith("plain") else {"content-type": "text/plain"}
                assert (await ask(world.node, "PUT", path, kind)).status == 201
            reply = await ask(world.node, "GET", f"{path}/_routing_keys")
            assert reply.status == status
            if status == 400:
                assert json.loads(reply.body)["error"]["message"] == "routing key not configured"
        for method in ("POST", "PUT", "DELETE"):
            assert (await ask(world.node, method, f"{PATH}/_routing_keys", JSON, b"{}")).status in {400, 405}
        assert (await ask(world.node, "HEAD", f"{PATH}/_routing_keys")).status == 200

    run(tmp_path, test)


def test_a_stream_that_is_declared_to_have_no_key_any_more_is_refused_and_both_addresses_answer_alike(
    tmp_path: Path,
) -> None:
    async def test(world: KeyWorld, chance: random.Random) -> None:  # noqa: ARG001
        await world.append(["b", "a", None, "b"])
        page = await world.page()
        assert set(page) == FIELDS
        assert (page["stream"], page["keys"], page["next_after"]) == ("s", ["a", "b"], None)
        assert page["source"] == {"kind": "routing_key", "name": ""}
        assert all(isinstance(number, int) and number >= 0 for number in page["timing"].values())
        reply = await ask(world.node, "GET", "/_default/s/_routing_keys?limit=1")
        assert json.loads(reply.body)["next_after"] == "a"
        assert reply.headers["cache-control"] == "no-store"
        gone = await ask(world.node, "POST", f"{PATH}/_schema", JSON, b'{"routingKey":null}')
        assert gone.status == 200
        assert (await ask(world.node, "GET", f"{PATH}/_routing_keys")).status == 400

    run(tmp_path, test)


def test_another_life_of_a_name_has_none_of_the_keys_of_the_one_before(tmp_path: Path) -> None:
    async def test(world: KeyWorld, chance: random.Random) -> None:
        await world.append(["old"])
        await released(world)
        await world.index_rest(1, chance)
        assert (await world.page())["keys"] == ["old"]
        assert (await ask(world.node, "DELETE", PATH)).status == 204
        assert (await ask(world.node, "GET", f"{PATH}/_routing_keys")).status == 404
        assert (await ask(world.node, "PUT", PATH, JSON)).status == 201
        assert (await ask(world.node, "GET", f"{PATH}/_routing_keys")).status == 400
        body = b'{"schema":true,"routingKey":{"jsonPointer":"/k","required":false}}'
        assert (await ask(world.node, "POST", f"{PATH}/_schema", JSON, body)).status == 200
        assert (await world.page())["keys"] == []

    run(tmp_path, test)


def test_a_cursor_beyond_everything_ends(tmp_path: Path) -> None:
    async def test(world: KeyWorld, chance: random.Random) -> None:  # noqa: ARG001
        await world.append(["a"])
        page = await world.page(after="b")
        assert (page["keys"], page["next_after"]) == ([], None)
        assert (await world.page(after="a"))["keys"] == []
        assert quote("a") == "a"

    run(tmp_path, test)


def test_pages_beside_appends_flushes_merges_and_indexing_have_what_was_there(tmp_path: Path) -> None:
    """A page has what was stored before it was asked for, and nothing that was not stored when it came."""

    async def test(world: KeyWorld, chance: random.Random) -> None:
        done = False

        async def live() -> None:
            nonlocal done
            for _ in range(8):
                await appended(world, chance, 2)
                await released(world)
                if chance.random() < 0.5:
                    await world.index_rest(await world.sealed_end(), chance)
                if len(world.indexer.runs) > 1 and chance.random() < 0.5:
                    await world.indexer.merged(world.indexer.runs[:2])
            done = True

        async def look() -> int:
            pages = 0
            while not done:
                before = set(await world.truth())
                page = await world.page(limit=500)
                # What is being appended may be shown before the test has heard of it.
                possible = {*world.keys, *TRICKY, *(f"n{number}" for number in range(200))}
                assert set(page["keys"]) <= possible
                if page["coverage"]["complete"]:
                    assert before <= set(page["keys"])
                    pages += 1
            return pages

        _, first, second = await asyncio.gather(live(), look(), look())
        assert first + second > 0
        await world.index_rest(await world.sealed_end(), chance)
        assert await check(world, chance)

    run(tmp_path, test)


def test_a_key_goes_with_the_last_entry_that_has_it(tmp_path: Path) -> None:
    async def test(world: KeyWorld, chance: random.Random) -> None:  # noqa: ARG001
        for keys in (["a"], ["b"], ["a", "c"]):
            await world.append(keys)
        await released(world)
        await world.index([(0, 1), (1, 2), (2, 4)])
        for earliest, keys in ((0, ["a", "b", "c"]), (1, ["a", "b", "c"]), (2, ["a", "c"]), (3, ["c"]), (4, [])):
            await world.trim(earliest)
            page = await world.page()
            assert (page["keys"], page["coverage"]["complete"], page["next_after"]) == (keys, True, None)
            # Of a cover that was cut in two only the entries know what is left.
            assert page["coverage"]["scanned_uploaded_segments"] == (1 if earliest == 3 else 0)

    run(tmp_path, test)
