"""What a filter parses of an entry tells the same of it as all of it would."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from search.language import Plan, matcher, query
from streams_node.read.filtered import parsed, parser_of
from streams_node.schema.search_config import parse
from tests.search.world import field

NAMES = ["at", "level", "status", "dur", "ok", "text", "deep", "odd name"]
FIELDS: dict[str, Any] = {
    "at": field("date", "at", column=True, exists=True, exact=True),
    "level": field("keyword", "level", exact=True, prefix=True),
    "lower": field("keyword", "level", exact=True, normalizer="lowercase_v1"),
    "status": field("integer", "status", exact=True, column=True, exists=True),
    "dur": field("float", "dur", column=True, exists=True),
    "ok": field("bool", "ok", column=True, exists=True),
    "text": field("text", "text", positions=True, exists=True),
    "deep": field("keyword", "deep/0/a~1b", exact=True, exists=True),
    "odd": field("keyword", "odd name", exact=True, exists=True),
}
CONFIG = parse({"primaryTimestampField": "at", "fields": FIELDS})
ASKED = [
    "level:card", "lower:card", "level:ca*", "status:1", "status:>=0", "status:<0", "status:18446744073709551616",
    "dur:>=1e20", "dur:0", "NOT dur:>0", "ok:true", "text:card", '"text:card declined"', "has:deep", "deep:card",
    "odd:card", "has:status", "has:dur", "has:at", "at:>=0", "level:card OR status:1", "has:text AND NOT ok:true",
]  # fmt: skip
PLANS: list[Plan] = [query(each, CONFIG) for each in ASKED]

BIG = [2**53 + 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, -(2**63) - 1, 10**30, 10**308, 10**400, -(10**30)]
SPELLED = [
    "1e999",
    "-1e999",
    "1E5",
    "-0",
    "-0.0",
    "0.1e1",
    "1e-999",
    "01",
    "NaN",
    "tru",
    '"\\ud800"',
    '"\\u0063ard"',
    "[1",
]
values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.sampled_from(BIG), st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(["card", "Card", "card declined", "1", "-1", "1e3", "2026-03-25T10:00:00Z", "", "ü"]),
        st.text(),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a/b", "x"]), inner, max_size=2),
    max_leaves=4,
).map(json.dumps)  # fmt: skip
members = st.tuples(st.sampled_from([*NAMES, "le\\u0076el", "other"]), values | st.sampled_from(SPELLED))
records = st.lists(members, max_size=6).map(
    lambda some: "{" + ", ".join(f'"{name}": {value}' for name, value in some) + "}"
)


def same(text: bytes) -> None:
    for asked, plan in zip(ASKED, PLANS, strict=True):
        matches = matcher(plan, 1)
        assert matches(parser_of(plan, 1)(text)) == matches(parsed(text)), asked


@given(records | values | st.sampled_from(SPELLED), st.sampled_from([str.encode, lambda text: f" {text}\n".encode()]))
@example('{"status": 1, "status": 2}', str.encode)
@example('{"status": 1, "other": "\\ud800"}', str.encode)
@example('{"status": 1, "other": 1e999}', str.encode)
@example('{"deep": [{"a/b": "card"}]}', str.encode)
def test_what_is_passed_over_changes_nothing(text: str, spelled: Any) -> None:
    same(spelled(text))


@pytest.mark.parametrize(
    "other",
    [
        "1" + "0" * 5000, "[" * 990 + "]" * 990, "[" * 1100 + "]" * 1100, "[" * 2000 + "]" * 2000,
        '"' + "x" * 5000 + '"', "1" + "0" * 4000,
    ],
    ids=["digits", "deep", "deeper", "deepest", "long", "many digits"],
)  # fmt: skip
def test_records_that_parsers_may_refuse_are_judged_alike(other: str) -> None:
    same(b'{"status": 1, "level": "card", "other": %s}' % other.encode())
    same(b'{"level": "card", "status": %s}' % other.encode())


def test_bytes_that_are_no_text_are_judged_alike() -> None:
    same(b'{"status": 1, "other": "\xff"}')
    same(b'{"status": 1, "other": "\xc3\xbc"}')
    same(b'{"status": 1} ')
    same(b'{"status": 1} {}')


def test_most_of_a_record_is_passed_over() -> None:
    text = orjson.dumps({"status": 1, "level": "card", "text": "x" * 100})
    assert parser_of(query("status:1", CONFIG), 1)(text) == {"status": 1}
