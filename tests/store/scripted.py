"""A faulty store whose next faults a test names one by one, instead of drawing them."""

from dataclasses import dataclass, field

from typing_extensions import override

from streams_node.objects import Fault, FaultPlan, FaultyStore, ObjectStore
from streams_node.objects.counts import Op


@dataclass
class _Script(FaultPlan):
    left: list[Fault | None] = field(default_factory=list)
    asked: list[Op] = field(default_factory=list)

    @override
    def draw(self, op: Op) -> Fault | None:
        self.asked.append(op)
        return self.left.pop(0) if self.left else None


class Scripted:
    """`script` is what happens to the next requests, None for nothing; `asked` is what came since it was set."""

    def __init__(self, inner: ObjectStore) -> None:
        self.plan = _Script(seed=0)
        self.store = FaultyStore(inner, self.plan)

    @property
    def asked(self) -> list[Op]:
        return self.plan.asked

    @property
    def script(self) -> list[Fault | None]:
        return self.plan.left

    @script.setter
    def script(self, faults: "list[Fault | None] | list[Fault]") -> None:
        self.plan.left = list(faults)
        self.plan.asked.clear()
