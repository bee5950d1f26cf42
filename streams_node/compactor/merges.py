"""Which packs are merged next: levels along the log, slots along the stream ids.

A *group* is what one flush, or one merge, made: packs of one level and one stretch of log rows, in slots of their own.
`compaction_packs` groups of a level that follow each other in the log become one group of the next level, whose stretch
spans theirs. A merge is done a *region* at a time, each a job of its own: a slot that takes no pack in part. Until its
last region is done the rest of a merge is found again by its stretch, which lies inside that of the new group; nothing
else is written down.

Keeps  for each stream the stretches of the packs that may hold it do not overlap, and every merge takes packs that are
       next to each other in the log: between the entries that it takes of a stream there are only segments.
       A pack that is alone in its region is not rewritten: it counts as a member of the new group where it is.
       No job takes more than `job_bytes`, but for a pair of groups (twice that), so it is never too large for both.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from streams_node.compactor.jobs import Job, Limits
from streams_node.compactor.slots import Slot
from streams_node.placement.made import ObjectFacts


class _Region(NamedTuple):
    slot: Slot
    packs: tuple[ObjectFacts, ...]
    weight: int
    settled: bool = False  # it holds packs of the new group: nothing may be joined to it


@dataclass
class _Group:
    level: int
    first_row: int
    last_row: int
    packs: list[ObjectFacts] = field(default_factory=list)
    regions: list[_Region] = field(default_factory=list)  # that are still to be merged into it

    def spans(self, other: "_Group") -> bool:
        return self.first_row <= other.first_row and other.last_row <= self.last_row


def next_merge(packs: Iterable[ObjectFacts], blocked: Collection[str], limits: Limits) -> Job | None:
    """The next job, or None if nothing is worth it. `blocked` are objects that must be left alone now."""
    groups = list(_in_log_order(packs, limits))
    for group in groups:
        for region in group.regions:
            if not _any_blocked(region.packs, blocked):
                return _job(region, group.level, group.first_row, group.last_row)
    while True:
        merge = _due_merge(groups, blocked, limits)
        if merge is None or isinstance(merge, Job):
            return merge
        # Every pack is alone in its region: the merge needs no rewriting, and those after it are looked at.
        at, count, merged = merge
        groups[at : at + count] = [merged]


def _in_log_order(packs: Iterable[ObjectFacts], limits: Limits) -> Iterator[_Group]:
    """Groups that no other group spans, oldest first, levels never rising towards the end of the log."""
    found: dict[tuple[int, int, int], _Group] = {}
    for facts in packs:
        name = facts.level, facts.first_row, facts.last_row
        found.setdefault(name, _Group(*name)).packs.append(facts)
    top: list[_Group] = []
    inside: dict[int, list[ObjectFacts]] = {}
    for group in sorted(found.values(), key=lambda group: (group.first_row, -group.last_row, -group.level)):
        if top and top[-1].spans(group):
            inside.setdefault(len(top) - 1, []).extend(group.packs)
        else:
            top.append(group)
    for at, members in inside.items():
        _take_in(top[at], members, limits)
    level = 0
    for group in reversed(top):
        # What was left behind, as it was blocked while its neighbours were merged, belongs with them from now on.
        group.level = level = max(level, group.level)
    return iter(top)


def _take_in(group: _Group, members: list[ObjectFacts], limits: Limits) -> None:
    """Packs that belong to a merge that has begun: alone in their region they stay as they are."""
    settled = list(group.packs)
    for region in _regions(members, limits, settled):
        if len(region.packs) == 1:
            group.packs.extend(region.packs)
        elif region.packs:
            group.regions.append(region)


def _due_merge(
    groups: Sequence[_Group], blocked: Collection[str], limits: Limits
) -> Job | tuple[int, int, _Group] | None:
    """A job of the newest merge that is due, or a merge that needs none."""
    for at, run in _runs(groups, blocked):
        count, regions = _chosen(run, limits)
        if not count:
            continue
        level, first_row, last_row = run[0].level + 1, run[0].first_row, run[count - 1].last_row
        work = [region for region in regions if len(region.packs) > 1]
        if not work:
            packs = [facts for group in run[:count] for facts in group.packs]
            return at, count, _Group(level, first_row, last_row, packs)
        large = max(work, key=lambda region: region.weight)
        if large.weight > 2 * limits.job_bytes and (split := _split(large, limits)):
            return split
        return _job(work[0], level, first_row, last_row)
    return None


def _runs(groups: Sequence[_Group], blocked: Collection[str]) -> Iterator[tuple[int, Sequence[_Group]]]:
    """Groups of one level that follow each other and may be touched, with the index of the first; the newest first."""
    end = len(groups)
    while end:
        start = end - 1
        if not _closed(groups[start], blocked):
            while start and groups[start - 1].level == groups[start].level and not _closed(groups[start - 1], blocked):
                start -= 1
            yield start, groups[start:end]
        end = start


def _closed(group: _Group, blocked: Collection[str]) -> bool:
    """A group that is not complete, or that holds a blocked object, takes no part: what is around it goes on."""
    return bool(group.regions) or _any_blocked(group.packs, blocked)


def _chosen(run: Sequence[_Group], limits: Limits) -> tuple[int, list[_Region]]:
    """How many of the oldest groups are merged, and their regions; 0 if it is worth waiting for more of them."""
    packs = list(run[0].packs)
    regions: list[_Region] = []
    for count, group in enumerate(run[1 : limits.packs], start=1):
        packs.extend(group.packs)
        larger = _regions(packs, limits)
        too_large = any(len(region.packs) > 1 and region.weight > limits.job_bytes for region in larger)
        if too_large and count > 1:
            return count, regions
        regions = larger
        if too_large or count + 1 == limits.packs:
            return count + 1, regions
    return 0, []


def _split(region: _Region, limits: Limits) -> Job | None:
    """Cut one of the packs that hold the region together, so that the parts can be merged apart."""
    wide = [facts for facts in region.packs if _slot(facts) == region.slot]
    rest = [facts for facts in region.packs if _slot(facts) != region.slot]
    cuts = tuple(_cuts(region.slot, rest, limits))
    if not cuts or not wide:
        return None
    facts = max(wide, key=limits.weight)
    return Job("split", (facts,), facts.level, facts.first_row, facts.last_row, cuts)


def _cuts(slot: Slot, packs: Sequence[ObjectFacts], limits: Limits) -> Iterator[int]:
    """The first ids of halves, of halves of halves, … until no part has more than `bytes_max`."""
    inner = [facts for facts in packs if slot.holds(_slot(facts)) and _slot(facts) != slot]
    if slot.bits and sum(map(limits.weight, inner)) > limits.job_bytes:
        yield from _cuts(Slot(slot.bits - 1, slot.number * 2), inner, limits)
        yield slot.middle
        yield from _cuts(Slot(slot.bits - 1, slot.number * 2 + 1), inner, limits)


def _regions(packs: Iterable[ObjectFacts], limits: Limits, settled: Iterable[ObjectFacts] = ()) -> list[_Region]:
    """The slots that take no pack in part; small neighbours are taken together as long as one pack can hold them."""
    items = [(_slot(facts), facts, False) for facts in packs] + [(_slot(facts), facts, True) for facts in settled]
    items.sort(key=lambda item: (item[0].first, -item[0].bits))
    apart: list[_Region] = []
    for slot, facts, is_settled in items:
        if apart and apart[-1].slot.holds(slot):
            apart[-1] = _with(apart[-1], facts, limits.weight(facts), is_settled=is_settled)
        else:
            apart.append(_with(_Region(slot, (), 0), facts, limits.weight(facts), is_settled=is_settled))
    # What is settled weighs too much for any neighbour to be joined to it.
    weights = [limits.pack_bytes + 1 if region.settled else region.weight for region in apart]
    sums = list(accumulate(weights, initial=0))
    return list(_joined(apart, sums, 0, len(apart), limits.pack_bytes))


def _with(region: _Region, facts: ObjectFacts, weight: int, *, is_settled: bool) -> _Region:
    if is_settled:
        return region._replace(settled=True)
    return region._replace(packs=(*region.packs, facts), weight=region.weight + weight)


def _joined(apart: Sequence[_Region], sums: Sequence[int], start: int, end: int, pack_bytes: int) -> Iterator[_Region]:
    if end - start <= 1:
        yield from apart[start:end]
        return
    slot = Slot.around(apart[start].slot.first, apart[end - 1].slot.end - 1)
    if sums[end] - sums[start] <= pack_bytes:
        packs = tuple(facts for region in apart[start:end] for facts in region.packs)
        yield _Region(slot, packs, sums[end] - sums[start])
        return
    middle = bisect_left(apart, slot.middle, start, end, key=lambda region: region.slot.first)
    yield from _joined(apart, sums, start, middle, pack_bytes)
    yield from _joined(apart, sums, middle, end, pack_bytes)


def _job(region: _Region, level: int, first_row: int, last_row: int) -> Job:
    inputs = tuple(sorted(region.packs, key=lambda facts: (facts.first_row, facts.min_stream)))
    return Job("merge", inputs, level, first_row, last_row)


def _slot(facts: ObjectFacts) -> Slot:
    return Slot.around(facts.min_stream, facts.max_stream)


def _any_blocked(packs: Iterable[ObjectFacts], blocked: Collection[str]) -> bool:
    return any(facts.made in blocked for facts in packs)
