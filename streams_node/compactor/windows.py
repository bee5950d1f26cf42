"""Which small segments of a stream are merged next.

A segment is small below half of `segment_bytes` and half of `segment_entries`: two small neighbours always fit into a
full one. A window of small neighbours is merged when it fills a segment or has `compaction_packs` of them, and only if
its largest one is at most half of it: so a rewritten entry ends up in a segment at least twice as large, and is
rewritten a logarithmic number of times.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from streams_node.compactor.jobs import SEGMENTS_MAX, Job, Limits
from streams_node.placement.made import ObjectFacts


def is_small(facts: ObjectFacts, limits: Limits) -> bool:
    return facts.payload_bytes * 2 < limits.segment_bytes and facts.entries * 2 < limits.segment_entries


def next_windows(small: Mapping[int, Sequence[ObjectFacts]], blocked: Collection[str], limits: Limits) -> Job | None:
    """Windows of as many streams as one job may take: one generation of the catalogue for all of them."""
    chosen: list[ObjectFacts] = []
    left = limits.job_bytes
    for segments in small.values():
        for run in _neighbours(segments, blocked, limits):
            window = _best(run, limits)
            size = sum(facts.payload_bytes for facts in window)
            if window and (not chosen or (size <= left and len(chosen) + len(window) <= SEGMENTS_MAX)):
                chosen.extend(window)
                left -= size
        if len(chosen) >= SEGMENTS_MAX or left <= 0:
            break
    if not chosen:
        return None
    level = max(facts.level for facts in chosen) + 1
    return Job(
        "segments",
        tuple(chosen),
        level,
        min(facts.first_row for facts in chosen),
        max(facts.last_row for facts in chosen),
    )


def _neighbours(
    segments: Sequence[ObjectFacts], blocked: Collection[str], limits: Limits
) -> Iterator[list[ObjectFacts]]:
    """Small ones, of one stream and in order, that follow each other without a gap."""
    run: list[ObjectFacts] = []
    for facts in segments:
        usable = is_small(facts, limits) and facts.made not in blocked
        if run and (not usable or facts.first_seq != run[-1].end_seq):
            yield run
            run = []
        if usable:
            run.append(facts)
    if run:
        yield run


def _best(run: Sequence[ObjectFacts], limits: Limits) -> Sequence[ObjectFacts]:
    """The window that takes most objects away for the bytes that it writes; empty if none is due."""
    best: Sequence[ObjectFacts] = ()
    price = float("inf")
    for start in range(len(run) - 1):
        size = entries = largest = 0
        for end, facts in enumerate(run[start : start + SEGMENTS_MAX], start=start + 1):
            size += facts.payload_bytes
            entries += facts.entries
            largest = max(largest, facts.payload_bytes)
            full = size >= limits.segment_bytes or entries >= limits.segment_entries
            if (full or end - start >= limits.packs) and largest * 2 <= size and size < price * (end - start - 1):
                best, price = run[start:end], size / (end - start - 1)
            if full:
                break
    return best
