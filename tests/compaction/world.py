"""A node's objects as plain lists, and jobs done to them as the builder does: what plans are held against."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from streams_node.compactor.jobs import OLDER_RUNS_MAX, Backlog, Job, Limits
from streams_node.compactor.plan import next_job
from streams_node.compactor.slots import cuts
from streams_node.compactor.windows import is_small
from streams_node.placement.backlog import Pack
from streams_node.placement.made import ObjectFacts

_NOW_US = 1_790_000_000_000_000


@dataclass(frozen=True)
class Run:
    """Entries [first, end) of a stream."""

    stream: int
    first: int
    end: int
    size: int

    @property
    def count(self) -> int:
        return self.end - self.first


@dataclass
class World:
    limits: Limits
    seed: int = 0
    now_us: int = _NOW_US
    next_seq: dict[int, int] = field(default_factory=dict)  # of living streams
    live: dict[str, tuple[ObjectFacts, list[Run]]] = field(default_factory=dict)
    row: int = 0
    made: int = 0
    jobs: int = 0
    puts: int = 0
    rewritten: int = 0
    flushed: int = 0
    largest_job: int = 0
    blocked: set[str] = field(default_factory=set)
    died_us: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    # --- what clients do ---

    def flush(self, appends: Mapping[int, tuple[int, int]]) -> None:
        """Entries and bytes of some streams, sealed: large ones by themselves, the others in one pack."""
        first_row, self.row = self.row + 1, self.row + max(1, len(appends))
        packed: list[Run] = []
        for stream, (count, size) in sorted(appends.items()):
            first = self.next_seq.get(stream, 0)
            self.next_seq[stream] = first + count
            run = Run(stream, first, first + count, size)
            self.flushed += size
            if size >= self.limits.own_segment_bytes:
                self.add_segments(run, 0, first_row, self.row)
            else:
                packed.append(run)
        self.add_pack(packed, 0, first_row, self.row)

    def delete(self, stream: int) -> None:
        del self.next_seq[stream]

    # --- what the node does ---

    def backlog(self) -> Backlog:
        packs = []
        gone = []
        small: dict[int, list[ObjectFacts]] = {}
        for facts, runs in self.live.values():
            if facts.stream is not None:
                if facts.stream not in self.next_seq:
                    gone.append(facts)
                elif is_small(facts, self.limits):
                    small.setdefault(facts.stream, []).append(facts)
                continue
            dead = sum(run.count for run in runs if run.stream not in self.next_seq)
            since = self.died_us.setdefault(facts.made, self.now_us) if dead else 0
            packs.append(Pack(facts, dead, since))
        for segments in small.values():
            segments.sort(key=lambda facts: facts.first_seq)
        return Backlog(packs, small, gone)

    def step(self) -> Job | None:
        """One job, planned and done."""
        job = next_job(self.backlog(), self.blocked, self.limits, now_us=self.now_us, turn=self.jobs)
        if job is not None:
            assert not {facts.made for facts in job.inputs} & self.blocked
            self.do(job)
        return job

    def settle(self, steps_max: int = 10_000) -> int:
        """Jobs until nothing is due; returns how many."""
        for step in range(steps_max):
            if self.step() is None:
                return step
        raise AssertionError("the plan never rests")

    def do(self, job: Job) -> None:
        runs = sorted(
            (run for facts in job.inputs for run in self.live.pop(facts.made)[1] if run.stream in self.next_seq),
            key=lambda run: (run.stream, run.first),
        )
        self.jobs += 1
        if job.kind == "drop":
            assert not runs
            return
        self.rewritten += sum(run.size for run in runs)
        self.largest_job = max(self.largest_job, job.payload_bytes)
        chains = chained(runs)
        if job.kind == "merge":
            self._check_gaps(chains)
        newest = {chain.stream: chain for chain in chains}
        own = {chain for chain in chains if chain.size >= self.limits.own_segment_bytes or job.kind == "segments"}
        older = [chain for chain in chains if chain not in own and newest[chain.stream] is not chain]
        if len(older) <= OLDER_RUNS_MAX:
            own |= set(older)
            older = []
        for chain in sorted(own, key=lambda chain: (chain.stream, chain.first)):
            self.add_segments(chain, job.level, job.first_row, job.last_row)
        packed = [chain for chain in chains if chain not in own and newest[chain.stream] is chain]
        begins = job.cuts or cuts(
            [chain.stream for chain in packed],
            list(accumulate((chain.size for chain in packed), initial=0)),
            self.limits.pack_bytes,
        )
        self.add_cut(packed, list(begins), job)
        while older:
            last = {chain.stream: chain for chain in older}
            self.add_cut(list(last.values()), [], job)
            older = [chain for chain in older if last[chain.stream] is not chain]

    def _check_gaps(self, chains: list[Run]) -> None:
        """Between the entries that a merge takes of a stream there are only segments."""
        torn = {one.stream for one, other in pairwise(chains) if one.stream == other.stream}
        for facts, runs in self.live.values():
            for run in runs:
                if run.stream in torn and facts.stream is None:
                    mine = [chain for chain in chains if chain.stream == run.stream]
                    assert run.end <= mine[0].first or run.first >= mine[-1].end, "packs were not next to each other"

    def add_cut(self, chains: list[Run], begins: list[int], job: Job) -> None:
        for start, end in zip([0, *begins], [*begins, 1 << 63], strict=True):
            part = [chain for chain in chains if start <= chain.stream < end]
            self.add_pack(part, job.level, job.first_row, job.last_row)

    def add_pack(self, runs: list[Run], level: int, first_row: int, last_row: int) -> None:
        if runs:
            self._add(runs, None, level, first_row, last_row)

    def add_segments(self, run: Run, level: int, first_row: int, last_row: int) -> None:
        parts = max(-(-run.size // self.limits.segment_bytes), -(-run.count // self.limits.segment_entries))
        parts = min(parts, run.count)
        for at in range(parts):
            first, end = run.first + run.count * at // parts, run.first + run.count * (at + 1) // parts
            size = run.size * (at + 1) // parts - run.size * at // parts
            self._add([Run(run.stream, first, end, size)], run.stream, level, first_row, last_row)

    def _add(self, runs: list[Run], stream: int | None, level: int, first_row: int, last_row: int) -> None:
        self.made += 1
        self.puts += 1
        made = f"{self.made:032x}"
        size = sum(run.size for run in runs)
        facts = ObjectFacts(
            made=made,
            kind="pack" if stream is None else "segment",
            level=level,
            stream=stream,
            first_seq=0 if stream is None else runs[0].first,
            end_seq=0 if stream is None else runs[0].end,
            min_stream=runs[0].stream,
            max_stream=runs[-1].stream,
            streams=len(runs),
            entries=sum(run.count for run in runs),
            bytes=size,
            sha256="",
            payload_bytes=size,
            min_ts=self.now_us,
            max_ts=self.now_us,
            first_row=first_row,
            last_row=last_row,
        )
        self.live[made] = facts, runs

    # --- what must hold ---

    def check(self) -> None:
        """Every living entry is in exactly one object, and in a pack a stream's entries follow each other."""
        found: dict[int, list[Run]] = {}
        for facts, runs in self.live.values():
            assert len({run.stream for run in runs}) == len(runs), facts
            for run in runs:
                found.setdefault(run.stream, []).append(run)
        for stream, next_seq in self.next_seq.items():
            runs = sorted(found.get(stream, []), key=lambda run: run.first)
            assert [run.first for run in runs] == [0, *(run.end for run in runs)][: len(runs)], stream
            assert (runs[-1].end if runs else 0) == next_seq

    def objects_of(self, stream: int) -> int:
        """Objects that a read of all its entries opens."""
        return sum(any(run.stream == stream for run in runs) for _, runs in self.live.values())

    @property
    def packs(self) -> list[ObjectFacts]:
        return [facts for facts, _ in self.live.values() if facts.stream is None]


def chained(runs: list[Run]) -> list[Run]:
    """Runs that follow each other as one."""
    chains: list[Run] = []
    for run in runs:
        last = chains[-1] if chains else None
        if last and last.stream == run.stream:
            assert last.end <= run.first, "an entry is in two objects"
        if last and last.stream == run.stream and last.end == run.first:
            chains[-1] = Run(run.stream, last.first, run.end, last.size + run.size)
        else:
            chains.append(run)
    return chains
