"""What a node does without while its memory is tight: searches and index work, and never appends or reads."""

import asyncio
from typing import TYPE_CHECKING

from streams_node.observe.process import give_back
from streams_node.observe.vitals import State

if TYPE_CHECKING:
    from streams_node.http.context import Context

_SCAN_SHARE = {"calm": 1, "tight": 4, "critical": 16}  # of what searches may scan: one part in so many


class Pressure:
    """Hears of each change of the state."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._groups_max: int | None = None
        self._giving: asyncio.Future[None] | None = None

    def changed(self, state: State) -> None:
        """Fewer searches, each of less, and no driver beside the node; all of it again when memory is calm."""
        context = self._context
        settings, searches = context.settings, context.searches
        at_once, waiting = settings.search_concurrency, settings.search_queue_max
        if state == "tight":
            at_once = max(1, at_once // 2)
        elif state == "critical":
            at_once, waiting = 1, 0
        searches.bound(at_once, waiting)
        scan = max(1, settings.search_scan_bytes_max // _SCAN_SHARE[state])
        searches.scan_bytes = scan
        context.aggregates.bound_scans(scan)
        context.aggregates.kept.bound(settings.search_rollups_bytes_max // _SCAN_SHARE[state])
        reader = context.tiers.reader
        if reader is not None:
            reader.groups.bound(settings.decoded_bytes_max // _SCAN_SHARE[state])
        context.tiers.hold_driver(hold=state != "calm", end=state == "critical")
        if state != "calm" and (self._giving is None or self._giving.done()):
            self._giving = asyncio.get_running_loop().run_in_executor(None, give_back)
