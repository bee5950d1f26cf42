"""A claim as tasks: plain values in and out."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from indexers.intervals import INTERVAL_MS_MAX, chains
from indexers.messages import Build, Claim, Failed, IndexObject, Meaning, Merge, StoreAt
from streams_node.schema.jsontext import loads
from streams_node.schema.search_config import interval_ms

# A worker's memory was 190 MB with 17 MB of log events in a task, 310 MB with 67, 480 MB with 150; 16 MiB are about 34.
TASK_WEIGHT_MAX = 16 << 20
REASON_CHARS = 500
_ENTRY_WEIGHT = 64  # however well an entry is compressed, it takes a row of each family
_WINDOW_WEIGHT = 32  # an entry may be the only one of its windows; of one with five such rows a worker holds 500 bytes


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker does at a time, as JSON on its way there."""

    store: StoreAt
    meanings: list[Meaning]
    work: list[Build | Merge]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a task; fields as in `CommitRequest`."""

    objects: list[IndexObject]
    merged: list[list[str]]
    failed: list[Failed]


class _Bin(NamedTuple):
    work: list[Build | Merge]
    weight: int


def tasks_of(claim: Claim, workers: int, weight_max: int = TASK_WEIGHT_MAX) -> list[Task]:
    """As many tasks as workers, about equal in weight; if they would be too big, more of them for each worker, so that
    none is left alone at the end; fewer for little work.
    """
    windows = [windows_of(each) for each in claim.meanings]
    weights = {id(each): weight_of(each, windows) for each in claim.work}
    total = sum(weights.values())
    count = min(len(claim.work), workers * max(1, -(-total // (workers * weight_max))))
    bins = [_Bin([], 0) for _ in range(count)]
    for each in sorted(claim.work, key=lambda each: weights[id(each)], reverse=True):
        least = min(range(count), key=lambda at: bins[at].weight)
        bins[least] = _Bin([*bins[least].work, each], bins[least].weight + weights[id(each)])
    return [Task(store=claim.store, meanings=claim.meanings, work=each.work) for each in bins if each.work]


def weight_of(work: Build | Merge, windows: Sequence[int] = ()) -> int:
    """What has to be fetched for it, and what it is made into. `windows`: of each meaning, see there."""
    if isinstance(work, Build):
        entries = sum(each.end_seq - each.first_seq for each in work.stretches)
        rows = sum(
            windows[each.meaning] * (each.end_seq - each.first_seq)
            for each in work.stretches
            if windows and "rollups" in each.families
        )
        return work.source.bytes + _ENTRY_WEIGHT * entries + _WINDOW_WEIGHT * rows
    return sum(each.bytes for each in work.inputs)


def windows_of(meaning: Meaning) -> int:
    """How many rows of rollups a worker holds of an entry, if it shares its windows with no other one."""
    if "rollups" not in meaning.configs:
        return 0
    registry: Any = loads(bytes(meaning.registry))
    return sum(
        len(_chains(rollup["intervals"])) * sum(1 + ("histogram" in each) for each in rollup["measures"].values())
        for rollup in registry["search"]["rollups"].values()
    )


def _chains(intervals: Sequence[str]) -> list[tuple[int, ...]]:
    """Of each a worker holds the shortest windows of an entry: what longer ones add up to."""
    found = (interval_ms(text) or 0 for text in intervals)
    return chains(ms for ms in found if 0 < ms <= INTERVAL_MS_MAX)


def joined(outcomes: list[Outcome]) -> Outcome:
    """Of all tasks."""
    return Outcome(
        objects=[each for outcome in outcomes for each in outcome.objects],
        merged=[each for outcome in outcomes for each in outcome.merged],
        failed=[each for outcome in outcomes for each in outcome.failed],
    )


def halves(tasks: list[Task]) -> list[list[Task]]:
    """The same work as two jobs, of tasks that are no bigger; nothing if it is one object's, or one merge's."""
    if len(tasks) > 1:
        middle = len(tasks) // 2
        return [tasks[:middle], tasks[middle:]]
    (task,) = tasks
    middle = len(task.work) // 2
    parts = [task.work[:middle], task.work[middle:]] if middle else []
    return [[msgspec.structs.replace(task, work=part)] for part in parts]


def failed_of(tasks: list[Task], reason: str) -> Outcome:
    """Nothing came of any of them, as they end their worker: the sources and inputs are named."""
    failed = [
        Failed(made=made, reason=reason[:REASON_CHARS], ended=True)
        for task in tasks
        for work in task.work
        for made in ([work.source.made] if isinstance(work, Build) else [each.made for each in work.inputs])
    ]
    return Outcome(objects=[], merged=[], failed=failed)
