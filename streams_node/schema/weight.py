"""How much work a schema can make of a document: a bound from above, as the validator itself cannot be interrupted.

A unit is about a tenth of a microsecond. For every place of a document the bound adds up all parts of the schema that
can meet there: what stands beside each other in `allOf` and its like does, alternatives of names do not.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

NODES_MAX = 20_000  # values in a schema document, of any kind
_COMPARED = 8  # units to compare one value of an array or object with an option
_CHECK = 1.0
_LISTED = 0.2  # a name in `required`, a scalar option
_PATTERN_BYTE = 0.5  # a byte of text against one pattern, at least
_POSITION_BYTE = 0.2  # and for each place of the pattern where a match may be: as many are followed at once, at worst
_REPEATED = re.compile(r"\{\s*([0-9]+)\s*(,\s*([0-9]*)\s*)?\}")
_COUNT_MAX = 1_000_000  # no pattern that compiles has as many


class Weight(NamedTuple):
    """Units for one object, array or scalar of a document, and for one byte of its text."""

    objects: float = 0.0
    arrays: float = 0.0
    scalars: float = 0.0
    text: float = 0.0

    def units(self, text: bytes) -> float:
        """For a JSON text, or for several together."""
        objects, arrays = text.count(b"{"), text.count(b"[")
        scalars = text.count(b",") + objects + arrays + 1  # and at most as many names of members
        return objects * self.objects + arrays * self.arrays + 2 * scalars * self.scalars + len(text) * self.text

    def most(self, size: int) -> float:
        """For any JSON text of so many bytes: each of them is one bracket or comma at most."""
        return (size + 1) * (max(self.objects, self.arrays) + 2 * self.scalars) + size * self.text


def weigh(schema: Any) -> Weight:
    """The weight of a schema, at its heaviest place."""
    return _heaviest([schema])


def nodes_of(value: Any) -> int:
    """How many values there are in a document, itself included."""
    count, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        count += 1
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return count


def _heaviest(schemas: Sequence[Any]) -> Weight:
    """Of all places at or below one where these schemas meet."""
    here = list(_beside(schemas))
    if not here:
        return Weight(_CHECK, _CHECK, _CHECK)
    return _most([_sum(map(_own, here)), _members(here), _items(here)])


_NOTHING = Weight()


def _beside(schemas: Iterable[Any]) -> Iterable[Mapping[str, Any]]:
    """The schemas, and all that are applied to the same value as they are."""
    waiting = [schema for schema in schemas if isinstance(schema, dict)]
    while waiting:
        schema = waiting.pop()
        yield schema
        for word in ("allOf", "anyOf", "oneOf"):
            waiting += [each for each in schema.get(word, ()) if isinstance(each, dict)]
        waiting += [schema[word] for word in ("not", "if", "then", "else") if isinstance(schema.get(word), dict)]
        waiting += [each for each in schema.get("dependencies", {}).values() if isinstance(each, dict)]


def _own(schema: Mapping[str, Any]) -> Weight:
    words = _CHECK + len(schema)
    options = sum(
        _option(each) for each in [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
    )
    names = len(schema.get("required", ())) + sum(
        len(each) if isinstance(each, list) else 1 for each in schema.get("dependencies", {}).values()
    )
    branches = sum(len(schema.get(word, ())) for word in ("allOf", "anyOf", "oneOf"))
    patterns = [*schema.get("patternProperties", ()), *([schema["pattern"]] if "pattern" in schema else ())]
    both = words + options + branches
    return Weight(both + _LISTED * names, both, both, sum(map(_pattern, patterns)))


def _pattern(pattern: str) -> float:
    return max(_PATTERN_BYTE, _POSITION_BYTE * positions(pattern))


def positions(pattern: str) -> int:
    """How many characters a pattern stands for with its counts written out: never fewer than its automaton has."""
    if _UNCLEAR.search(_ESCAPED.sub("", pattern)):
        return len(pattern) * math.prod(map(_count, _REPEATED.finditer(pattern)))
    around: list[int] = []  # of the groups that are open
    total = last = 0  # of this group, and of its last part, which a count may follow
    for token in _TOKENS.finditer(pattern):
        text = token[0]
        if (repeated := _REPEATED.fullmatch(text)) is not None:
            total, last = total + last * (_count(repeated) - 1), last * _count(repeated)
        elif text == "(":
            around.append(total)
            total, last = 1, 0
        elif text == ")" and around:
            total, last = around.pop() + total, total
        elif text not in "*+?^$":
            total, last = total + 1, 1
    return total + sum(around)


# Remarks may stand before a count, and classes in classes: where a group ends is not looked for then.
_UNCLEAR = re.compile(r"\(\?[a-zA-Z-]*x|\[[^\]]*\[")
_ESCAPED = re.compile(r"\\.", re.DOTALL)
# A count, an escape, a class, or one character.
_TOKENS = re.compile(rf"{_REPEATED.pattern}|\\(?:[pPuUx]\{{[^}}]*\}}|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)


def _count(found: re.Match[str]) -> int:
    """`{n}`, `{n,m}`, or `{n,}`, which is n and one that repeats."""
    least, more, most = found.groups()
    return max(1, *(min(int(each), _COUNT_MAX) for each in (least, most) if each)) + (more is not None and not most)


def _option(value: Any) -> float:
    return _LISTED if not isinstance(value, dict | list) else _COMPARED * nodes_of(value)


def _members(here: Sequence[Mapping[str, Any]]) -> Weight:
    """Of the members of an object: those that match a pattern, or none, may have a name as well."""
    named: dict[str, list[Any]] = {}
    others: list[Any] = []
    for schema in here:
        for name, each in schema.get("properties", {}).items():
            named.setdefault(name, []).append(each)
        others += schema.get("patternProperties", {}).values()
        others += [schema[word] for word in ("additionalProperties", "propertyNames") if word in schema]
    heaviest = _most([_heaviest(each) for each in named.values()])
    return _sum([heaviest, _heaviest(others)]) if others else heaviest


def _items(here: Sequence[Mapping[str, Any]]) -> Weight:
    inside: list[Any] = []
    for schema in here:
        items = schema.get("items")
        inside += items if isinstance(items, list) else [] if items is None else [items]
        inside += [schema[word] for word in ("additionalItems", "contains") if word in schema]
    return _heaviest(inside) if inside else _NOTHING


def _sum(weights: Iterable[Weight]) -> Weight:
    return Weight(*map(sum, zip(_NOTHING, *weights, strict=True)))


def _most(weights: Iterable[Weight]) -> Weight:
    return Weight(*map(max, zip(_NOTHING, *weights, strict=True)))
