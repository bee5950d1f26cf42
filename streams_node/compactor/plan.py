"""What the compaction does next: decided from facts alone.

Merges of packs, merges of segments and the removal of dead entries take turns, so that none of them waits for ever.
What costs nothing, objects in which everything is dead, goes first.
"""

from collections.abc import Collection
from itertools import islice

from streams_node.compactor.jobs import DROPS_MAX, Backlog, Job, Limits
from streams_node.compactor.merges import next_merge
from streams_node.compactor.windows import next_windows
from streams_node.placement.backlog import Pack
from streams_node.placement.made import ObjectFacts


def next_job(backlog: Backlog, blocked: Collection[str], limits: Limits, *, now_us: int, turn: int = 0) -> Job | None:
    """The next job, or None if nothing is due. `blocked` are objects in use or not usable now; `turn` counts jobs."""
    if drop := _drop(backlog, blocked):
        return drop
    choices = (
        lambda: next_merge([pack.facts for pack in backlog.packs], blocked, limits),
        lambda: next_windows(backlog.small, blocked, limits),
        lambda: _clean(backlog.packs, blocked, limits, now_us),
    )
    for at in range(len(choices)):
        if job := choices[(turn + at) % len(choices)]():
            return job
    return None


def _drop(backlog: Backlog, blocked: Collection[str]) -> Job | None:
    dead = [pack.facts for pack in backlog.packs if pack.dead_entries >= pack.facts.entries]
    free = (facts for facts in (*backlog.gone, *dead) if facts.made not in blocked)
    inputs: tuple[ObjectFacts, ...] = tuple(islice(free, DROPS_MAX))
    return Job("drop", inputs) if inputs else None


def _clean(packs: Collection[Pack], blocked: Collection[str], limits: Limits, now_us: int) -> Job | None:
    """The pack with the largest dead share, of those where it is half or where some of it is too old."""
    due = [
        pack
        for pack in packs
        if pack.facts.made not in blocked
        and pack.dead_entries
        and (2 * pack.dead_entries >= pack.facts.entries or now_us - pack.dead_since_us >= limits.dead_us_max)
    ]
    if not due:
        return None
    facts = max(due, key=lambda pack: pack.dead_entries / pack.facts.entries).facts
    return Job("clean", (facts,), facts.level, facts.first_row, facts.last_row)
