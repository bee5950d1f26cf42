"""Rollups of an older configuration serve as long as they mean the same."""

import asyncio
import sqlite3
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest

from indexers.plan import plan_of
from indexers.records import Documents, Table
from indexers.rollups import parts_of
from indexers.rollups.contribute import Contributor
from streams_node.schema.registry import Registry
from streams_node.schema.search_config import SearchConfig, parse
from tests.aggregate.drawn import asked, record
from tests.aggregate.world import SEARCH, T0, A, found, recount, shown
from tests.indexing.world import FakeDriver, append, create, declare, indexed, sealed
from tests.search.world import field
from tests.tiers.bucket import folder_bucket


def _changes() -> dict[str, tuple[bool, dict[str, Any]]]:
    """What may be declared otherwise, and whether the rollups are to serve on."""
    made: dict[str, tuple[bool, dict[str, Any]]] = {}

    def change(name: str, *, serves: bool) -> dict[str, Any]:
        made[name] = serves, deepcopy(SEARCH)
        return made[name][1]

    change("one more field", serves=True)["fields"]["user"] = field("keyword", "user", exact=True)
    del change("one field less", serves=True)["fields"]["text"]
    change("another field that no rollup has", serves=True)["fields"]["text"] = field("text", "other")
    change("a dimension that is found elsewhere", serves=False)["fields"]["level"]["bindings"][0]["jsonPointer"] = "/l"
    del change("a dimension that keeps its case", serves=False)["fields"]["level"]["normalizer"]
    change("a measure of another field", serves=False)["fields"]["ms"]["bindings"][0]["jsonPointer"] = "/status"
    change("other times", serves=False)["fields"]["at"]["bindings"][0]["jsonPointer"] = "/seen"
    change("another condition", serves=False)["rollups"]["req"]["include"] = "NOT level:warn"
    change("what a measure counts", serves=False)["rollups"]["req"]["measures"]["bad"]["include"] = "status:>=200"
    change("one more window", serves=False)["rollups"]["all"]["intervals"] = ["1m", "1h"]
    turned = change("an alias that a condition means", serves=False)
    turned["fields"]["other"] = field("keyword", "other", exact=True)
    turned["rollups"]["req"]["include"] = "NOT lvl:debug"
    turned["aliases"] = {"lvl": "level"}
    again = deepcopy(turned)
    again["aliases"] = {"lvl": "other"}
    made["that alias, turned"] = False, again
    return made


CHANGES = _changes()
CONFIGS = {"as it was": parse(SEARCH), **{name: parse(each) for name, (_, each) in CHANGES.items()}}


def hash_of(config: SearchConfig) -> str:
    return plan_of(Registry(name="a", current_version=1, search=config), "generic", is_json=True).configs["rollups"]


def rows_of(config: SearchConfig, records: list[Any]) -> list[Any]:
    """All that records contribute."""
    table = Table(Documents(records, [], plain=False), 1)
    parts = [Contributor(each, config, 1).part(table, [1] * len(records)) for each in config.rollups.values()]
    return [row for rows in parts_of([part for part in parts if part is not None]) for row in rows.to_pylist()]


def test_what_has_one_hash_contributes_alike() -> None:
    random = Random(5)
    drawn = [record(random) for _ in range(300)]
    records = [{**each, "other": "debug", "l": "x", "seen": 5} for each in drawn if isinstance(each, dict)]
    made = {name: (hash_of(config), rows_of(config, records)) for name, config in CONFIGS.items()}
    for name, (hashed, rows) in made.items():
        for other, (hashed_too, rows_too) in made.items():
            assert hashed != hashed_too or rows == rows_too, (name, other)
    assert made["that alias, turned"][1] != made["an alias that a condition means"][1]


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_rollups_serve_on_as_long_as_they_mean_the_same(name: str) -> None:
    serves, _ = CHANGES[name]
    assert (hash_of(CONFIGS[name]) == hash_of(CONFIGS["as it was"])) == serves


def test_a_new_field_costs_an_aggregation_nothing(tmp_path: Path) -> None:
    random = Random(6)
    entries = [record(random) for _ in range(80)]

    async def run() -> None:
        async with indexed(tmp_path / "node", folder_bucket(tmp_path / "objects")) as node:
            await create(node, A, {"schema": True, "search": SEARCH})
            await append(node, A, entries)
            await sealed(node)
            await FakeDriver(node).finish()
            await declare(node, A, {"search": CHANGES["one more field"][1]})
            for _ in range(10):
                wanted = asked(random)
                view = await found(node, **wanted)
                assert shown(view) == recount(entries, wanted)
            whole: dict[str, Any] = {
                "rollup": "all",
                "interval": "1m",
                "begin": 0,
                "to": 8_640_000_000_000_000 // 60_000 * 60_000,
            }
            coverage = (await found(node, **whole))["coverage"]
            assert (coverage["used_rollups"], coverage["scanned_segments"]) == (True, 0)
            await declare(node, A, {"search": CHANGES["other times"][1]})
            assert not (await found(node, **whole))["coverage"]["used_rollups"]

    asyncio.run(run())


def test_a_stream_that_an_older_version_planned_is_planned_and_indexed_anew(tmp_path: Path) -> None:
    bucket = folder_bucket(tmp_path / "objects")
    entries: list[Any] = [{"at": T0 + number * 1000, "level": "info", "ms": 1} for number in range(20)]
    whole: dict[str, Any] = {"rollup": "all", "interval": "1m", "begin": T0, "to": T0 + 60_000}

    def grow_old(db: sqlite3.Connection) -> None:
        db.execute("UPDATE index_covers SET config = replace(config, '3-', '')")
        db.execute("UPDATE index_plans SET configs = replace(configs, '3-', '')")

    async def run() -> None:
        async with indexed(tmp_path / "node", bucket) as node:
            await create(node, A, {"schema": True, "search": SEARCH})
            await append(node, A, entries)
            await sealed(node)
            await FakeDriver(node).finish()
            assert (await found(node, **whole))["coverage"]["used_rollups"]
            await node.context.database.writer.run(grow_old)
        async with indexed(tmp_path / "node", bucket) as node:
            await FakeDriver(node).finish()
            view = await found(node, **whole)
            assert view["coverage"]["used_rollups"]
            assert shown(view) == recount(entries, whole)

    asyncio.run(run())
