"""The syntax tree of a query, as it was written: no field is looked up, no value is understood yet.

Keeps    a tree is immutable and comparable; positions say where in the query a part began, and do not count when trees
         are compared. `And` and `Or` hold two parts or more; parentheses leave no trace but the nesting.
"""

from dataclasses import dataclass, field
from enum import StrEnum


class Op(StrEnum):
    EQ = "="
    GT = ">"
    GE = ">="
    LT = "<"
    LE = "<="


@dataclass(frozen=True, slots=True)
class Literal:
    text: str
    quoted: bool = False
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Has:
    """`has:field`"""

    name: str
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Fielded:
    """`field:value`, `field:>=value`"""

    name: str
    op: Op
    value: Literal
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Bare:
    """A term without a field; `q` only."""

    value: Literal


@dataclass(frozen=True, slots=True)
class Not:
    part: "Node"


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple["Node", ...]


Node = Has | Fielded | Bare | Not | And | Or
