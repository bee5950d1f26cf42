"""A claim as tasks: plain values in and out."""

from typing import NamedTuple

import msgspec

from indexers.messages import Build, Claim, Failed, IndexObject, Meaning, Merge, StoreAt

TASK_BYTES_MAX = 48 << 20  # of sealed objects, which are compressed: a worker holds what it builds of them


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
    bytes: int


def tasks_of(claim: Claim, workers: int, bytes_max: int = TASK_BYTES_MAX) -> list[Task]:
    """As many tasks as workers, about equal in bytes; more if they would be too big, fewer if there is little to do."""
    total = sum(map(bytes_of, claim.work))
    count = min(len(claim.work), max(workers, -(-total // bytes_max)))
    bins = [_Bin([], 0) for _ in range(count)]
    for each in sorted(claim.work, key=bytes_of, reverse=True):
        least = min(range(count), key=lambda at: bins[at].bytes)
        bins[least] = _Bin([*bins[least].work, each], bins[least].bytes + bytes_of(each))
    return [Task(store=claim.store, meanings=claim.meanings, work=each.work) for each in bins if each.work]


def bytes_of(work: Build | Merge) -> int:
    """What has to be fetched for it."""
    if isinstance(work, Build):
        return work.source.bytes
    return sum(each.bytes for each in work.inputs)


def joined(outcomes: list[Outcome]) -> Outcome:
    """Of all tasks."""
    return Outcome(
        objects=[each for outcome in outcomes for each in outcome.objects],
        merged=[each for outcome in outcomes for each in outcome.merged],
        failed=[each for outcome in outcomes for each in outcome.failed],
    )
