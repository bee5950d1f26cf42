"""What an older version indexed in a format of its own is indexed anew, once the node has started."""

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest

from indexers.plan import _FORMATS
from streams_node.wal.folder import DATABASE
from tests.indexing.world import KEYED, SEARCH, FakeDriver, append, covered, create, indexed, on_loop, rows, sealed

A = "/v1/stream/a"
ROLLUPS = {"per_k": {"dimensions": ["k"], "intervals": ["1m"], "measures": {"events": {"kind": "count"}}}}
DECLARED = {**KEYED, "search": {**SEARCH, "rollups": ROLLUPS}}
CHANGED = sorted(family for family, number in _FORMATS.items() if number > 1)
OLD = "0123456789abcdef0123456789abcdef"  # as hashes of the first format are


def make_old(folder: Path, family: str) -> None:
    db = sqlite3.connect(folder / DATABASE)
    with db:
        (configs,) = db.execute("SELECT configs FROM index_plans ORDER BY stream").fetchone()
        known = json.loads(configs)
        assert known[family].startswith(f"{_FORMATS[family]}-")  # type: ignore[index]
        older = json.dumps(known | {family: OLD}, separators=(",", ":"))
        assert db.execute("UPDATE index_plans SET configs = ? WHERE configs = ?", (older, configs)).rowcount == 1
        assert db.execute("UPDATE index_covers SET config = ? WHERE family = ?", (OLD, family)).rowcount
    db.close()


@pytest.mark.parametrize("family", CHANGED)
@on_loop
async def test_indexes_of_an_older_format_are_built_anew(family: str, tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, DECLARED)
        await append(node, A, [{"k": "x", "text": "some", "at": at} for at in range(5)])
        await sealed(node)
        await FakeDriver(node).finish()
        before = {each.made for each in await covered(node, A) if each.family != family}
    await asyncio.to_thread(make_old, tmp_path / "node", family)
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        async with asyncio.timeout(20):
            while not await driver.finish():  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
        found = await covered(node, A)
        ((configs,),) = await rows(node, "SELECT configs FROM index_plans WHERE configs <> '{}' AND stream = 1")
        assert {each.family: each.config for each in found} == json.loads(configs)
        assert OLD not in configs
        assert before == {each.made for each in found if each.family != family}
        assert {(each.first_seq, each.end_seq) for each in found} == {(0, 5)}
