"""What the node must reach against each peer, and whether a run showed it; pure."""

from dataclasses import dataclass

from ops.bench.cell import Better, Sample
from ops.bench.stats import Spread, paired_ratios, spread

PER_SIZE = ("c16", "c64", "c64-s64")


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on ours / peer for one number of one cell."""

    cell: str
    key: str
    peer: str
    better: Better
    bound: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target beside what was measured. `ratios` is missing when one side has no valid round."""

    target: Target
    ratios: Spread | None

    @property
    def met(self) -> bool:
        """The better quartile of the rounds decides; `met_by_median` is the stricter reading, printed beside it."""
        return self.ratios is not None and self._reaches(self.ratios.better_quartile(self.target.better))

    @property
    def met_by_median(self) -> bool:
        return self.ratios is not None and self._reaches(self.ratios.median)

    def _reaches(self, ratio: float) -> bool:
        return ratio >= self.target.bound if self.target.better == "higher" else ratio <= self.target.bound


def _at_least(cell: str, key: str, peer: str, bound: float) -> Target:
    return Target(cell, key, peer, "higher", bound)


def _at_most(cell: str, key: str, peer: str, bound: float) -> Target:
    return Target(cell, key, peer, "lower", bound)


TARGETS = (
    _at_least("append-200-c16", "appends_s", "prisma-tuned", 1.2),
    _at_least("append-200-c64", "appends_s", "prisma-tuned", 0.95),
    _at_most("append-200-c64", "p99_ms", "prisma-tuned", 1.2),
    _at_least("append-200-c64-s64", "appends_s", "prisma-tuned", 0.95),
    _at_most("append-200-c64-s64", "p99_ms", "prisma-tuned", 1.2),
    *(_at_least(f"append-64k-{shape}", "appends_s", "prisma-tuned", 0.95) for shape in PER_SIZE),
    _at_least("json-batch", "mb_s", "prisma-tuned", 2.0),
    _at_least("json-batch-checked", "mb_s", "prisma-tuned", 2.0),
    _at_least("catchup", "mb_s", "prisma-tuned", 3.0),
    _at_most("sse", "p50_ms", "prisma-tuned", 0.5),
    *(
        _at_least(f"append-{size}-{shape}", "appends_s", "reference", 10.0)
        for size in ("200", "1k")
        for shape in PER_SIZE
    ),
)


def verdicts(samples: list[Sample]) -> list[Verdict]:
    return [Verdict(target, ratio_spread(samples, target.cell, target.key, target.peer)) for target in TARGETS]


def ratio_spread(samples: list[Sample], cell: str, key: str, peer: str) -> Spread | None:
    """Divide ours by the peer's in every round that both have."""
    return spread(paired_ratios(by_round(samples, cell, "ours", key), by_round(samples, cell, peer, key)))


def by_round(samples: list[Sample], cell: str, server: str, key: str) -> dict[int, float]:
    return {
        sample.round_index: sample.metrics[key]
        for sample in samples
        if sample.cell == cell and sample.server == server and not sample.void and key in sample.metrics
    }
