"""The typed plan of a query: what was written, understood against one search configuration.

Keeps    a plan is immutable and can be pickled; every field is declared, every literal is a canonical value. It is
         bound to no schema version: `matcher` and `scorer` choose the binding. `q` and `filter` become the same nodes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from search.language.syntax import Op
from search.language.values import Canonical
from streams_node.schema.search_config import Field


@dataclass(frozen=True, slots=True)
class Exists:
    field: Field


@dataclass(frozen=True, slots=True)
class Compare:
    """Some value of the field is equal to, or stands in an order to, the literal. Only EQ for keywords."""

    field: Field
    op: Op
    value: Canonical


@dataclass(frozen=True, slots=True)
class Prefix:
    """Some value of a keyword begins so."""

    field: Field
    prefix: str


@dataclass(frozen=True, slots=True)
class Target:
    """One field in which a text clause looks, with the tokens that it has there: for a keyword one, the whole term."""

    field: Field
    boost: float
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """Some target matches. The only clause that has a score."""

    targets: tuple[Target, ...]
    phrase: bool
    prefix: bool  # the last token of a target may go on


@dataclass(frozen=True, slots=True)
class NotOf:
    part: "Plan"


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple["Plan", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple["Plan", ...]


Clause = Exists | Compare | Prefix | Text
Plan = Clause | NotOf | AllOf | AnyOf


def clauses(plan: Plan) -> Iterator[Clause]:
    """All clauses, negated ones too, from left to right."""
    if isinstance(plan, NotOf):
        yield from clauses(plan.part)
    elif isinstance(plan, AllOf | AnyOf):
        for part in plan.parts:
            yield from clauses(part)
    else:
        yield plan


def shape(plan: Plan, parts_max: int) -> int | None:
    """The same number for plans that differ in their words and values alone; None for one that has too many parts."""
    found: list[object] = []
    return hash(tuple(found)) if _shaped(plan, found, 2 * parts_max) else None


def _shaped(plan: Plan, found: list[object], most: int) -> bool:
    """Whether there is room for it."""
    found.append(type(plan))
    match plan:
        case AllOf(parts) | AnyOf(parts):
            found.append(len(parts))
            return len(parts) <= most and all(_shaped(part, found, most) for part in parts)
        case NotOf(part):
            return _shaped(part, found, most)
        case Text(targets, phrase, prefix):
            found += [phrase, prefix, len(targets)]
            for each in targets:
                found += [each.field.name, *[len(each.tokens)] * len(each.tokens)]
        case Compare(field, op, _):
            found += [field.name, op]
        case Exists(field) | Prefix(field):
            found.append(field.name)
    return len(found) <= most


def has_text(plan: Plan) -> bool:
    """Whether the default order is by score: some clause is about text, even a negated one."""
    if isinstance(plan, NotOf):
        return has_text(plan.part)
    if isinstance(plan, AllOf | AnyOf):
        return any(map(has_text, plan.parts))
    return isinstance(plan, Text)


def fields(plan: Plan) -> tuple[Field, ...]:
    """The fields that an evaluation looks at, each once."""
    found: dict[str, Field] = {}
    for clause in clauses(plan):
        for each in [target.field for target in clause.targets] if isinstance(clause, Text) else [clause.field]:
            found[each.name] = each
    return tuple(found.values())


def necessary(plan: Plan) -> Iterator[Plan]:
    """Parts that every match satisfies: what an index may use to leave records out. Never a NotOf."""
    if isinstance(plan, AllOf):
        for part in plan.parts:
            yield from necessary(part)
    elif isinstance(plan, NotOf):
        if isinstance(plan.part, NotOf):
            yield from necessary(plan.part.part)
        elif isinstance(plan.part, AnyOf):
            for part in plan.part.parts:
                yield from necessary(NotOf(part))
    else:
        yield plan
