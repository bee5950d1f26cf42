"""What is shown is never older than the question."""

import asyncio
from pathlib import Path

from streams_node.details import Shown
from streams_node.ingest.state import StreamState
from streams_node.testing.inprocess import InProcess
from streams_node.wal.lookup import Name
from tests.indexing.world import create, desk_of, indexed, on_loop

A = "/v1/stream/a"


class Looks:
    """Makes a body of what is true now, when it may."""

    def __init__(self, node: InProcess) -> None:
        self._node = node
        self.truth = "old"
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def make(self, state: StreamState) -> Shown:
        self.begun.set()
        seen = self.truth
        await self.may_end.wait()
        context = self._node.context
        version = context.subscriptions.registry.version
        return Shown(seen, seen.encode(), state.change, context.tiers.generation, version)


@on_loop
async def test_who_asks_while_others_look_is_not_told_what_was_before_the_index_changed(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A)
        state = await node.context.ledger.living(Name("_default", "a"))
        watches, looks = node.context.details, Looks(node)
        looks.may_end.set()
        assert (await watches.shown("details", state, looks.make)).tag == "old"
        looks.begun.clear()
        looks.may_end.clear()
        looks.truth = "new"
        desk_of(node).changed(state.id)
        first = asyncio.ensure_future(watches.shown("details", state, looks.make))
        await looks.begun.wait()
        second = asyncio.ensure_future(watches.shown("details", state, looks.make))
        await asyncio.sleep(0)  # it has asked
        looks.truth = "newer"
        desk_of(node).changed(state.id)
        third = asyncio.ensure_future(watches.shown("details", state, looks.make))
        await asyncio.sleep(0)
        looks.may_end.set()
        shown = [each.tag for each in await asyncio.gather(first, second, third)]
        assert "old" not in shown
        assert shown[2] == "newer"
