"""Which pages are short enough for the loop: told by how long the last ones like them took.

A hop to a thread and back costs 0.15 ms of the interpreter, a third of what a page of a rare value takes. So what takes
less than a step of the loop may is looked for at once, a few in each pass. Nobody knows beforehand how long it takes,
but pages of one stream by queries of one shape take about as long, if as many documents have to be looked at
(decisions/0020).
"""

import asyncio
import math
import resource
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from weakref import WeakKeyDictionary

SHORT_S = 0.0005
GIVEN_UP_S = 0.002  # what takes longer, against all that is known, is left to a thread
_PASS_S, _BESIDE_S = 0.002, 0.001  # of a pass of the loop; and while long searches have cores, for which it waits, too
_ANSWER_S = 0.0002  # to tell what was found
_FADES = 0.8  # of a time that was longer, with each that is shorter
_UNKNOWN_S = 0.002  # before any is known: seven have to be short
_FAULT_S = 0.001  # to read a page of a file from a disk; nobody knows how long it takes the next time
_KINDS_MAX = 4096
_WHO = getattr(resource, "RUSAGE_THREAD", None)  # where threads have numbers of their own


def spent_s() -> float:
    """What this thread has worked, and has waited for files: without the time in which others had the core."""
    faults = 0 if _WHO is None else resource.getrusage(_WHO).ru_majflt
    return time.thread_time() + faults * _FAULT_S


class Short:
    """On the event loop only. What is known dies with the process, and with what was not asked for longest."""

    def __init__(self, is_busy: Callable[[], bool]) -> None:
        self._is_busy = is_busy  # whether long searches are under way
        self._known: OrderedDict[Hashable, float] = OrderedDict()
        self._views: WeakKeyDictionary[object, set[Hashable]] = WeakKeyDictionary()
        self._waiting: deque[object] = deque()
        self._left_s = _PASS_S
        self._is_told = False  # that this pass ends

    def knows(self, view: object, kind: Hashable) -> bool:
        """Whether a thread has looked for one in this view: what is read off it only once is known then."""
        return kind in self._views.get(view, ())

    def knew(self, view: object, kind: Hashable) -> None:
        kinds = self._views.setdefault(view, set())
        if len(kinds) >= _KINDS_MAX:
            kinds.clear()
        kinds.add(kind)

    def is_short(self, kind: Hashable) -> bool:
        return self._known.get(kind, math.inf) <= SHORT_S

    def took(self, kind: Hashable, seconds: float) -> None:
        """Learn it. `math.inf`: it can only be done in a thread."""
        self._known[kind] = max(seconds, self._known.get(kind, _UNKNOWN_S) * _FADES)
        self._known.move_to_end(kind)
        if len(self._known) > _KINDS_MAX:
            self._known.popitem(last=False)

    async def room(self, kind: Hashable) -> None:
        """Step aside until there is time for it in a pass of the loop. Who came first goes first."""
        mine = object()
        self._waiting.append(mine)
        try:
            while self._left_s <= 0 or self._waiting[0] is not mine:
                self._tell()
                await asyncio.sleep(0)
        finally:
            self._waiting.remove(mine)
        self._tell()
        self._left_s -= self._known.get(kind, 0.0) + _ANSWER_S

    def _tell(self) -> None:
        """So that the next pass begins anew."""
        if not self._is_told:
            self._is_told = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._is_told, self._left_s = False, _BESIDE_S if self._is_busy() else _PASS_S
