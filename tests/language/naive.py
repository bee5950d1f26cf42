"""A second evaluator, as short as the rules are: it walks the syntax tree and looks at everything, for every record.

It shares no line with the first one but the configuration's types, so it also stands for the canonical values. It reads
only the dates that tests/language/strategies.py writes.
"""

import math
import re
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Any

from search.language.syntax import And, Bare, Has, Literal, Node, Not, Or
from streams_node.schema.search_config import Field, Kind, SearchConfig

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ORDER = {
    "=": lambda a, b: a == b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
}


def evaluate(tree: Node, config: SearchConfig, record: object) -> float | None:
    """The score, or None when the record does not match."""
    if isinstance(tree, Not):
        return 0.0 if evaluate(tree.part, config, record) is None else None
    if isinstance(tree, And | Or):
        scores = [evaluate(part, config, record) for part in tree.parts]
        found = [score for score in scores if score is not None]
        needed = len(scores) if isinstance(tree, And) else 1
        return sum(found) if len(found) >= needed else None
    if isinstance(tree, Bare):
        defaults = [(config.fields[each.field], each.boost) for each in config.default_fields]
        return text_score(tree.value, defaults, record)
    field = config.resolve(tree.name)
    assert field is not None
    values = canonical_values(field, record)
    if isinstance(tree, Has):
        return 0.0 if values else None
    if field.kind is Kind.TEXT:
        return text_score(tree.value, [(field, 1.0)], record)
    literal = tree.value.text
    if field.kind is Kind.KEYWORD and field.prefix and literal.endswith("*") and len(literal) > 1:
        beginning = canonical(field, literal[:-1])
        return 0.0 if any(value.startswith(beginning) for value in values) else None
    return 0.0 if any(ORDER[tree.op](value, canonical(field, literal)) for value in values) else None


def text_score(literal: Literal, fields: list[tuple[Field, float]], record: object) -> float | None:
    prefix = literal.text.endswith("*") and len(literal.text) > 1
    term = (literal.text[:-1] if prefix else literal.text).strip()
    scores = []
    for field, boost in fields:
        for value in canonical_values(field, record):
            score = one_text(words(value), words(term), phrase=literal.quoted, prefix=prefix)
            scores += [] if score is None else [score * boost]
    return max(scores, default=None)


def one_text(document: list[str], tokens: list[str], *, phrase: bool, prefix: bool) -> float | None:
    def fits(word: str, index: int) -> bool:
        last = index == len(tokens) - 1
        return word.startswith(tokens[index]) if prefix and last else word == tokens[index]

    def here(start: int) -> bool:
        window = document[start : start + len(tokens)]
        return len(window) == len(tokens) and all(fits(word, index) for index, word in enumerate(window))

    if not tokens:
        return None
    counts = [sum(fits(word, index) for word in document) for index in range(len(tokens))]
    found = any(here(start) for start in range(len(document))) if phrase else all(counts)
    return sum(counts) + (2 * len(tokens) if phrase else 0) if found else None


def words(text: str) -> list[str]:
    letters = [c if unicodedata.category(c)[0] in "LN" else " " for c in text.lower()]
    return "".join(letters).split()


def canonical_values(field: Field, record: object) -> list[Any]:
    if not isinstance(record, dict):
        return []
    found = [canonical(field, raw) for raw in flat(record.get(field.bindings[0].pointer[1:]))]
    return [value for value in found if value is not None]


def flat(value: Any) -> list[Any]:
    return [each for item in value for each in flat(item)] if isinstance(value, list) else [value]


def canonical(field: Field, raw: Any) -> Any:
    if isinstance(raw, bool):
        return raw if field.kind is Kind.BOOL else None
    if field.kind in {Kind.KEYWORD, Kind.TEXT}:
        return (raw.lower() if field.lowercase else raw) if isinstance(raw, str) else None
    if field.kind is Kind.BOOL:
        return {"true": True, "false": False}.get(raw.strip().lower()) if isinstance(raw, str) else None
    if field.kind is Kind.DATE:
        return date(raw)
    number = number_of(raw)
    if number is None or field.kind is Kind.FLOAT:
        return None if number is None else float(number)
    if isinstance(number, float):
        return int(number) if number == math.floor(number) and not isinstance(raw, str) else None
    return number if -(2**63) <= number < 2**64 else int(float(number))


def number_of(raw: Any) -> int | float | None:
    if not isinstance(raw, str):
        return raw if isinstance(raw, int | float) else None
    if re.fullmatch(r"-?(0|[1-9][0-9]*)", raw):
        return int(raw)
    return float(raw) if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?", raw) else None


def date(raw: Any) -> int | None:
    if isinstance(raw, int | float):
        return math.trunc(raw) * 10**6 if abs(raw) <= 8.64e15 else None
    if not isinstance(raw, str):
        return None
    if re.fullmatch(r"[0-9]{4}", raw):
        raw += "-01-01"
    elif re.fullmatch(r"-?(0|[1-9][0-9]*)", raw):
        return date(int(raw))
    nanos = re.search(r"\.([0-9]{9})", raw)
    try:
        moment = datetime.fromisoformat(re.sub(r"\.[0-9]{9}", "", raw))
    except ValueError:
        return None
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000 + (int(nanos[1]) if nanos else 0)
