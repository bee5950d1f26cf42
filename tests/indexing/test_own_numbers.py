"""The node's own numbers start no driver, and are indexed when one runs."""

from pathlib import Path
from typing import Any

from streams_node.metering import NAME, Metering
from streams_node.objects import RequestCounts
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
    sealed,
    spans,
)

USED = "/v1/stream/used"
OWN = f"/v1/stream/{NAME.stream}"
DUE: dict[str, Any] = {"index_due_ms": 0, "index_due_bytes": 0}


def wants(node: InProcess) -> bool:
    return desk_of(node).wanted


@on_loop
async def test_the_nodes_own_numbers_start_no_driver_and_are_indexed_with_others(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node", **DUE) as node:
        metering = Metering(node.context.ledger, node.context.metrics, RequestCounts(), instance="7-abcdef")
        metering.begin()
        await create(node, USED)
        await metering.tell()
        await sealed(node)
        desk = desk_of(node)
        await desk.follow()
        assert desk.planned == 2
        assert len(desk._due) == 1
        assert desk.outlook()[:3] == (0, 0, 0)
        assert not wants(node)
        await append(node, USED, [{"k": "x"}] * 5)
        await sealed(node)
        assert desk.outlook().streams == 1
        assert wants(node)
        await FakeDriver(node).finish()
        assert spans(await covered(node, USED)) == [(0, 5)]
        (numbers,) = spans(await covered(node, OWN), "metrics")
        assert numbers[0] == 0
        assert not desk._due


@on_loop
async def test_a_rebuild_of_the_nodes_own_numbers_starts_a_driver(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node", **DUE) as node:
        metering = Metering(node.context.ledger, node.context.metrics, RequestCounts(), instance="7-abcdef")
        metering.begin()
        await create(node, USED)
        await metering.tell()
        await sealed(node)
        await desk_of(node).follow()
        assert not wants(node)
        assert (await ask(node, "POST", f"{OWN}/_index/rebuild")).status == 202
        assert wants(node)
        await FakeDriver(node).finish()
        assert not wants(node)
