"""The evaluator, against the naive one and clause by clause."""

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.language import (
    Plan,
    TextMatch,
    clauses,
    fields,
    has_text,
    matcher,
    necessary,
    plan_filter,
    plan_query,
    query,
    raw_fields,
    raw_values,
    scorer,
    values,
)
from search.language.syntax import Node
from streams_node.schema.search_config import parse
from tests.language import naive, strategies
from tests.language.examples import CONFIG, LOWER, TEXT, field

config = parse(CONFIG)
steady = settings(deadline=None, max_examples=300)


def score(text: str, record: object, version: int = 1) -> float | None:
    return scorer(query(text, config), version)(record)


def matches(text: str, record: object) -> bool:
    plan = query(text, config)
    found = matcher(plan, 1)(record)
    assert found == (scorer(plan, 1)(record) is not None)
    return found


@steady
@given(strategies.queries, st.lists(strategies.records, min_size=1, max_size=4))
def test_a_query_means_what_the_naive_evaluator_says(tree: Node, records: list[Any]) -> None:
    plan = plan_query(tree, config)
    is_match, score_of = matcher(plan, 1), scorer(plan, 1)
    for record in [*records, records[0]]:
        expected = naive.evaluate(tree, config, record)
        assert score_of(record) == expected
        assert is_match(record) == (expected is not None)


@steady
@given(strategies.filters, st.lists(strategies.records, min_size=1, max_size=4))
def test_a_filter_means_what_the_naive_evaluator_says(tree: Node, records: list[Any]) -> None:
    is_match = matcher(plan_filter(tree, config), 1)
    for record in records:
        assert is_match(record) == (naive.evaluate(tree, config, record) is not None)


@steady
@given(strategies.queries, strategies.records)
def test_what_is_necessary_holds_for_every_match(tree: Node, record: Any) -> None:
    plan = plan_query(tree, config)
    if matcher(plan, 1)(record):
        assert all(matcher(part, 1)(record) for part in necessary(plan))


@steady
@given(strategies.queries, strategies.records)
def test_a_plan_survives_the_way_to_a_worker(tree: Node, record: Any) -> None:
    plan = plan_query(tree, config)
    copy: Plan = pickle.loads(pickle.dumps(plan))  # noqa: S301 - our own bytes
    assert copy == plan
    assert scorer(copy, 1)(record) == scorer(plan, 1)(record)


RECORD = {
    "eventTime": "2026-03-25T10:04:00.5Z",
    "level": "ERROR",
    "service": "Api",
    "status": -5,
    "dur": 4.5,
    "ok": True,
    "tags": ["t1", ["t2"], None],
    "message": "Card declined by the bank: card 4711",
    "title": ["first title", "second"],
    "plain": "declined",
}


@pytest.mark.parametrize(
    "text",
    ["level:ERROR", "level:error", "lvl:err*", 'lvl:"ERR*"', "service:Api", 'status:"-5"', "status:<0", "status:<=0",
     'status:>"-6"', "tags:t1", "tags:t2", "tags:t*", "ok:TRUE", "ok:>false", "ok:>=true", "has:title", "has:tags",
     "has:lvl", "dur:4.50", "dur:>4", "dur:=4.5", "ts:>=1774433040000", 'ts:"2026-03-25T12:04:00.5+02:00"',
     "ts:1774433040500", "ts:>2026", "ts:<2027", "card", "CARD", "declin*", "message:card-bank", "message:bank-ca*",
     'message:"card declined"', 'message:"card decl*"', 'message:"bank card 47*"', "4711", "title:second",
     "-level:info",
     "NOT level:info", "level:info OR level:error", "(level:info OR card) AND has:ok", 'status:="-5" OR nothing',
     "- - card", 'message:"*card"', "message:card^2 OR card"],
)  # fmt: skip
def test_a_query_that_matches(text: str) -> None:
    assert matches(text, RECORD)


@pytest.mark.parametrize(
    "text",
    ["level:info", "lvl:rr*", "service:api", "service:API", "status:5", "status:>0", "tags:T1", "ok:false", "ok:<true",
     "ok:>true", "dur:>4.5", "dur:<4.5", "ts:>2026-03-26", "ts:1774433040000", "car", "message:car",
     'message:"declined card"',
     'message:"card card"', 'message:"ard declined"', "message:bank-cat*", "title:first-second", 'title:"title second"',
     "-card", "has:exactly", "level:error level:info", "message:card^2"],
)  # fmt: skip
def test_a_query_that_does_not_match(text: str) -> None:
    assert not matches(text, RECORD)


@pytest.mark.parametrize("record", [None, 5, "text", True, [], ["card"], [{"level": "error"}]])
def test_a_record_that_is_no_object_has_no_fields(record: object) -> None:
    assert not matches("level:error OR card OR has:ok OR status:>0 OR has:message", record)
    assert matches("-has:level", record)
    assert values(config.fields["level"], 1)(record) == []


@pytest.mark.parametrize("value", [None, {}, {"a": 1}, [], [None], [[], [{}]]])
def test_what_is_no_value_does_not_exist_anywhere(value: object) -> None:
    record = dict.fromkeys(RECORD, value)
    for name in ("eventTime", "level", "status", "dur", "ok", "message"):
        assert not matches(f"has:{name}", record)
    for text in ("ts:<2030", "level:error", "status:<=0", "dur:>=0", "ok:<=true", "card", "tags:t*"):
        assert not matches(text, record)
        assert matches(f"-({text})", record)


@pytest.mark.parametrize(
    ("name", "value"),
    [("status", "x"), ("status", 1.5), ("status", True), ("dur", "1,5"), ("dur", False), ("eventTime", "soon"),
     ("eventTime", True), ("ok", 1), ("ok", "yes"), ("level", 5), ("level", True), ("message", 5), ("tags", 1)],
)  # fmt: skip
def test_what_the_kind_cannot_read_does_not_exist(name: str, value: object) -> None:
    assert matches(f"-has:{name}", {name: value})


def test_ranges_may_be_satisfied_by_different_values() -> None:
    assert matches("status:<0 status:>100", {"status": [-5, 500]})
    assert not matches("status:<0 status:>100", {"status": [50]})


def test_alternatives_on_one_field_keep_their_operators() -> None:
    for status, expected in ((5, False), (6, True), (9, True), (-7, True), (-6, False), (-3, True)):
        found = matches('status:>5 OR status:9 OR status:<"-6" OR status:"-3"', {"status": status})
        assert found == expected


def test_integers_beyond_a_double_are_exact() -> None:
    record = {"status": 9007199254740993}
    assert matches("status:9007199254740993 status:>9007199254740992", record)
    assert not matches("status:9007199254740992", record)
    assert matches("status:9007199254740993", {"status": "9007199254740993"})


def test_dates_are_compared_to_the_nanosecond() -> None:
    record = {"eventTime": "2026-03-25T10:04:00.000000001Z"}
    assert matches('ts:>"2026-03-25T10:04:00Z" ts:<"2026-03-25T10:04:00.000000002Z"', record)


# --- text -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("card", 4.0),  # twice, boost 2
        ("message:card", 2.0),
        ("message:declined", 1.0),
        ('message:"card declined"', 3.0 + 4),
        ('"card declined"', (3.0 + 4) * 2),
        ("message:ca*", 2.0),
        ("message:bank-ca*", 3.0),
        ("title:title", 1.0),
        ("second", 1.0),
        ("level:error", 0.0),
        ("has:message", 0.0),
        ("-info", 0.0),
        ("card level:error", 4.0),
        ("card bank", 6.0),
        ("card OR nothing", 4.0),
        ("card OR bank", 6.0),
        ("nothing OR level:error", 0.0),
        ("nothing", None),
        ("card nothing", None),
    ],
)
def test_scores(text: str, expected: float | None) -> None:
    assert score(text, RECORD) == expected


def test_the_best_value_of_the_best_target_scores() -> None:
    assert score("a", {"message": ["a b", "a a a"], "title": "a a a a a a a"}) == 7.0
    assert score("a", {"message": ["a a a a", "a b"], "title": "a a a a a a a"}) == 8.0


def test_all_words_are_sought_in_the_same_value() -> None:
    assert not matches('message:a-b OR message:"a b"', {"message": ["a", "b"]})


def test_another_score_comes_through_the_seam() -> None:
    seen = []

    def bm25(match: TextMatch) -> float:
        seen.append((match.target.field.name, match.target.tokens, match.counts, match.length, match.phrase))
        return 0.5

    plan = query('card "bank car*"', config)
    assert scorer(plan, 1, bm25)({"message": "bank card, Bank CARD"}) == 1.0
    assert seen == [("message", ("card",), (2,), 4, False), ("message", ("bank", "car"), (2, 2), 4, True)]


# --- bare terms -----------------------------------------------------------------------------------------------------


def with_defaults(*names: str) -> Any:
    return parse({**CONFIG, "defaultFields": [{"field": name, "boost": 3} for name in names]})


def test_a_keyword_in_front_does_not_hide_the_texts_behind_it() -> None:
    """The original took the whole term for the only token of every field behind a keyword."""
    plan = query('"Card Declined"', with_defaults("service", "message"))
    assert scorer(plan, 1)({"message": "card declined"}) == 18.0
    assert scorer(plan, 1)({"service": "Card Declined"}) == 3.0
    assert scorer(plan, 1)({"service": "card declined"}) is None


def test_a_text_in_front_does_not_hide_the_keywords_behind_it() -> None:
    """The original compared a keyword with the first lower-cased word of the term."""
    plan = query("Api-1", with_defaults("message", "service", "level"))
    assert scorer(plan, 1)({"service": "Api-1"}) == 3.0
    assert scorer(plan, 1)({"service": "api"}) is None
    assert scorer(plan, 1)({"level": "API-1"}) == 3.0


def test_a_term_of_no_words_is_left_to_the_keywords() -> None:
    plan = query('"!!!"', with_defaults("message", "service"))
    assert matcher(plan, 1)({"service": "!!!"})
    assert not matcher(plan, 1)({"message": "!!!"})


def test_a_bare_prefix_finds_keywords_that_have_no_prefix_flag() -> None:
    assert matcher(query("Ap*", with_defaults("service")), 1)({"service": ["x", "Api"]})


def test_without_default_fields_every_text_is_one() -> None:
    loose = parse({name: value for name, value in CONFIG.items() if name != "defaultFields"})
    plan = query("card", loose)
    assert [each.name for each in fields(plan)] == ["message", "title"]
    assert scorer(plan, 1)({"title": "card"}) == 1.0


def test_a_prefix_of_several_words_is_a_prefix_on_the_last_one() -> None:
    """The original demanded the last word as it stands, and scored it as a prefix."""
    assert matches("message:declined-ca*", RECORD)
    assert matches("message:declined-card*", RECORD)
    assert not matches("message:decl-card*", RECORD)


# --- bindings -------------------------------------------------------------------------------------------------------

BOUND = parse(
    {
        "primaryTimestampField": "t",
        "fields": {
            "t": field("date", "/t", "exact"),
            "a": {"kind": "keyword", "exact": True, **LOWER, "bindings": [
                {"version": 3, "jsonPointer": "/three/0/x~1y"}, {"version": 2, "jsonPointer": "/two"},
                {"version": 1, "jsonPointer": "/one"},
            ]},
            "late": {"kind": "text", **TEXT, "bindings": [{"version": 2, "jsonPointer": "/two"}]},
        },
    }
)  # fmt: skip


@pytest.mark.parametrize(("version", "found"), [(1, "one"), (2, "two"), (3, "three"), (9, "three")])
def test_the_binding_is_that_of_the_current_version(version: int, found: str) -> None:
    record = {"one": "ONE", "two": "TWO", "three": [{"x/y": "THREE"}]}
    assert values(BOUND.fields["a"], version)(record) == [found]
    assert matcher(query(f"a:{found}", BOUND), version)(record)


def test_a_version_before_every_binding_has_no_value() -> None:
    plan = query("late:two OR has:late OR two", BOUND)
    assert not matcher(plan, 1)({"two": "two"})
    assert scorer(plan, 1)({"two": "two"}) is None
    assert matcher(plan, 2)({"two": "two"})
    assert raw_values(BOUND.fields["late"], 1)({"two": "two"}) == []


@pytest.mark.parametrize("tags", ["x", None, [], [[]], ["x"], [["x"], None], {"a": 1}, ["x", ["y", []]]])
def test_fields_of_a_record_are_their_raw_values(tags: object) -> None:
    for record in ({"tags": tags, "level": "error", "unknown": 1}, {}, [tags], "text", None):
        found = raw_fields(config.fields, 1)(record)
        gotten = {name: raw_values(each, 1)(record) for name, each in config.fields.items()}
        assert list(found.items()) == [(name, got[0] if len(got) == 1 else got) for name, got in gotten.items() if got]


def test_values_as_the_record_has_them() -> None:
    get = raw_values(config.fields["tags"], 1)
    assert get({"tags": ["a", [None, 5], {}]}) == ["a", None, 5, {}]
    assert get({"tags": None}) == [None]
    assert get({}) == []
    assert values(config.fields["tags"], 1)({"tags": ["a", [None, 5], {}, "b"]}) == ["a", "b"]


# --- what a plan is made of -----------------------------------------------------------------------------------------


def test_the_parts_of_a_plan() -> None:
    plan = query("lvl:error (card OR status:>5) -has:ok -(tags:a OR -service:b)", config)
    assert len(list(clauses(plan))) == 6
    assert [each.name for each in fields(plan)] == ["level", "message", "title", "status", "ok", "tags", "service"]
    assert has_text(plan)
    assert not has_text(query("lvl:error", config))
    assert has_text(query("-card", config))
    found = list(necessary(plan))
    assert [type(part).__name__ for part in found] == ["Compare", "AnyOf", "Compare"]
    assert [each.name for part in found for each in fields(part)][-1] == "service"
