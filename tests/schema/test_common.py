"""What streams that are declared alike share, and what that is bounded by."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from streams_node.meaning.common import RECENT, Commons
from streams_node.meaning.meaning import Meaning
from streams_node.meaning.standing import Standing
from streams_node.profiles import installed
from streams_node.schema.jsontext import dumps
from streams_node.schema.registry import Boundary, Registry, Update, evolved, parse_update
from streams_node.testing.inprocess import InProcess, in_process
from tests.schema.messages import JSON, OPS, V1, V2, append, create, lens, read, update

STREAMS = 300
TWO = 2  # declarations that are different


def declared(name: str, schema: Any, *, config: dict[str, Any] | None = None) -> Standing:
    return Standing(evolved(Registry(name), Update(schema), 0), "generic", config or {})


def profiled(name: str, kind: str) -> Standing:
    return Standing(evolved(Registry(name), parse_update(dumps(installed(kind))), 0), kind)


def commons_of(node: InProcess) -> Commons:
    return node.context.ledger.workshop.commons


def test_a_thousand_streams_of_a_profile_are_parsed_once(tmp_path: Path) -> None:
    paths = [f"/v1/stream/s{at}" for at in range(STREAMS)]
    kinds = ["metrics", "evlog"]

    async def main() -> None:
        async with in_process(tmp_path / "node") as node:
            shown = []
            for at, path in enumerate(paths):
                await create(node, path)
                body = json.dumps({"profile": {"kind": kinds[at % 2]}}).encode()
                assert (await node.request("POST", f"{path}/_profile", JSON, body)).status == 200
                shown.append((await node.request("GET", f"{path}/_schema")).body)
                assert json.loads(shown[-1])["schema"] == f"s{at}"
            commons = commons_of(node)
            assert (commons.made, len(commons)) == (TWO, TWO)
            states = list(node.context.ledger.states)
            first = states[0].meaning
            assert first is not None
            alike = [state.meaning for state in states if state.meaning is not None and state.profile == "metrics"]
            assert len(alike) == STREAMS / 2
            assert {id(each.validator) for each in alike} == {id(first.validator)}
            assert {id(each.registry.schemas) for each in alike} == {id(first.registry.schemas)}
            assert {id(each.registry.search) for each in alike} == {id(first.registry.search)}
            assert max(each.size for each in alike) * STREAMS < 2 * commons.size * STREAMS / 20
        async with in_process(tmp_path / "node") as node:  # and out of the database
            assert [(await node.request("GET", f"{path}/_schema")).body for path in paths] == shown
            assert (commons_of(node).made, len(commons_of(node))) == (TWO, TWO)
            for path in paths[:4]:
                record = {"metric": "m", "unit": "u", "windowStart": 1, "windowEnd": 2, "count": 1, "sum": 1}
                assert (await append(node, [record], path)).status == 204
                assert (await append(node, [7], path)).status == 400

    anyio.run(main)


def test_streams_share_lenses_under_their_own_names_and_boundaries(tmp_path: Path) -> None:
    async def main() -> None:
        async with in_process(tmp_path / "node") as node:
            for at in range(3):
                path = f"/v1/stream/s{at}"
                await create(node, path)
                assert (await update(node, {"schema": V1}, path)).status == 200
                for _ in range(at + 1):
                    assert (await append(node, [{"a": "x"}], path)).status == 204
                answer = await update(node, {"schema": V2, "lens": lens(*OPS, schema=f"s{at}")}, path)
                assert answer.status == 200
        async with in_process(tmp_path / "node") as node:
            for at in range(3):
                path = f"/v1/stream/s{at}"
                found = json.loads((await node.request("GET", f"{path}/_schema")).body)
                assert (found["schema"], found["lenses"]["1"]["schema"]) == (f"s{at}", f"s{at}")
                assert found["boundaries"] == [{"offset": 0, "version": 1}, {"offset": at + 1, "version": 2}]
                assert (await read(node, path=path)).body == b"[%b]" % b",".join([b'{"c":"x","n":7}'] * (at + 1))
            assert commons_of(node).made == 1
            changed = await update(node, {"search": None, "routingKey": None}, "/v1/stream/s1")
            assert changed.status == 400
            grown = lens({"op": "add", "path": "/z", "schema": {"type": "integer"}}, at=2, schema="s1")
            third = {**V2, "properties": {**V2["properties"], "z": {"type": "integer", "default": 1}}}
            assert (await update(node, {"schema": third, "lens": grown}, "/v1/stream/s1")).status == 200
            assert commons_of(node).made == TWO
            assert (await read(node, path="/v1/stream/s1")).body == b'[{"c":"x","n":7,"z":1},{"c":"x","n":7,"z":1}]'
            assert (await read(node, path="/v1/stream/s2")).body == b"[%b]" % b",".join([b'{"c":"x","n":7}'] * 3)

    anyio.run(main)


@pytest.mark.parametrize(
    "other",
    [
        declared("other", {"type": "array"}),
        declared("other", V1, config={"a": 1}),
        declared("other", V1)._replace(profile="evlog"),
        declared("other", {key: V1[key] for key in reversed(V1)}),
        profiled("other", "metrics"),
    ],
)
def test_what_is_declared_otherwise_is_not_shared(other: Standing) -> None:
    commons = Commons()
    one, two = Meaning.of(declared("one", V1), commons), Meaning.of(other, commons)
    assert (one.common is two.common, commons.made) == (False, TWO)
    assert (two.registry.encode(), two.standing.profile) == (other.registry.encode(), other.profile)


def test_a_stored_declaration_is_the_one_that_was_made() -> None:
    commons = Commons()
    for standing in (profiled("p", "evlog"), declared("q", V1, config={"a": [1]}), Standing(Registry("r"))):
        made, stored = Meaning.of(standing, commons), Meaning.stored(standing.encode(), commons)
        assert stored.common is made.common
        assert stored.standing == made.standing == standing
        assert stored.standing.encode() == standing.encode()
    moved = Meaning.of(declared("q", V1), commons).beginning_at(9)
    assert moved.registry.boundaries == (Boundary(9, 1),)
    assert Meaning.stored(moved.standing.encode(), commons).standing == moved.standing


def test_what_is_shared_goes_with_the_last_stream_but_for_a_few() -> None:
    commons = Commons()
    kept = [Meaning.of(declared("s", {"const": at}), commons) for at in range(3 * RECENT)]
    assert (len(commons), commons.made) == (3 * RECENT, 3 * RECENT)
    kept.clear()
    assert len(commons) == RECENT
    again = Meaning.of(declared("t", {"const": 3 * RECENT - 1}), commons)
    assert (again.registry.name, commons.made) == ("t", 3 * RECENT)


def test_what_is_beyond_the_bound_is_charged_to_its_streams() -> None:
    size = Meaning.of(declared("s", {"const": 10}), Commons()).common.size
    commons = Commons(bytes_max=10 * size)
    kept = [Meaning.of(declared("s", {"const": 10 + at}), commons) for at in range(20)]
    assert [each.common.shared for each in kept] == [True] * 10 + [False] * 10
    assert commons.size == 10 * size
    assert {each.size for each in kept[10:]} == {kept[0].size + size}
    assert Meaning.of(declared("t", {"const": 25}), commons).common.shared is False
    del kept[5]
    kept.append(Meaning.of(declared("t", {"const": 25}), commons))
    assert (kept[-1].common.shared, commons.size) == (True, 10 * size)


def test_there_are_never_too_many_to_count() -> None:
    commons = Commons(known_max=9)
    kept = [Meaning.of(declared("s", {"const": at}), commons) for at in range(20)]
    assert [each.common.shared for each in kept].count(True) == len(commons) == 9
