import json
import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_node.errors import BadProfile
from tests.profiles.entries import METRICS, NOW_US, exact, keys_by, leaves, raw, ready, stored_by, values, words

LEAST: dict[str, Any] = {"metric": "m", "unit": "ns", "windowStart": 1000, "windowEnd": 11_000, "count": 4, "sum": 10}
counts = st.integers(0, 10**6)
records = st.fixed_dictionaries(
    {**{name: st.just(value) for name, value in LEAST.items()}, "count": counts, "sum": st.floats(-1e9, 1e9)},
    optional={
        "tags": st.dictionaries(words, leaves, max_size=5),
        "attributes": st.dictionaries(words, leaves, max_size=5),
        "buckets": st.dictionaries(st.sampled_from(["1", "2", "64", "1024", "x"]), leaves, max_size=5),
        "summary": st.dictionaries(st.sampled_from(["count", "min", "max", "histogram"]), values, max_size=4),
        **dict.fromkeys(("min", "max", "avg", "p50", "p95", "p99", "stream", "instance", "intervalMs"), values),
        **dict.fromkeys(("metricKind", "temporality", "more"), leaves),
    },
)


def one(entry: object) -> Any:
    return stored_by(METRICS, entry)[0]


def test_the_least_record_is_stored_as_a_whole_envelope() -> None:
    found = ready(METRICS)
    (stored,), (key,) = found([raw(LEAST)], NOW_US)
    assert key == "summary|delta|m|ns|||"
    assert stored == (
        b'{"apiVersion":"durable.streams/metrics/v1","kind":"interval","metric":"m","unit":"ns","metricKind":"summary",'
        b'"temporality":"delta","windowStart":1000,"windowEnd":11000,"intervalMs":10000,"instance":null,"stream":null,'
        b'"tags":{},"attributes":{},"dimensionPairs":[],"dimensionKey":null,"seriesKey":"summary|delta|m|ns|||",'
        b'"count":4,"sum":10,"min":0,"max":0,"avg":2.5,"p50":0,"p95":0,"p99":0,"buckets":{},'
        b'"summary":{"count":4,"sum":10,"min":0,"max":0,"histogram":{}}}'
    )


def test_a_full_record_keeps_what_it_says() -> None:
    entry = b"""{"more":1,"kind":"interval","metric":" http.Time ","unit":"ms","metricKind":"gauge",
        "temporality":"cumulative","windowStart":"1000.9","windowEnd":2000.5,"intervalMs":999.9,"instance":"i",
        "stream":" s ",
        "tags":{"no":1},"attributes":{"z":1.0,"b":true,"a":"x","n":null,"o":{},"e":1e-7,"big":123456789012345678901},
        "summary":{"count":"3","sum":1.50,"min":0.10,"max":1.0,"histogram":{"1024":1,"2":"2","4":0,"8":-1,"16":null}},
        "avg":0.5000,"p99":7}"""
    stored = stored_by(METRICS, entry)[0]
    found = ready(METRICS)
    text = found([entry], NOW_US)[0][0]
    for part in (b'"sum":1.50,"min":0.10,"max":1.0,"avg":0.5000,"p50":2,"p95":1024,"p99":7,', b'"count":3,'):
        assert part in text
    assert stored["attributes"] == stored["tags"]
    assert list(stored["tags"].items()) == [("a", "x"), ("b", "true"), ("big", "123456789012345678901"), ("e", "1e-7"),
                                            ("z", "1")]  # fmt: skip
    assert stored["dimensionPairs"] == ["a=x", "b=true", "big=123456789012345678901", "e=1e-7", "z=1"]
    assert stored["dimensionKey"] == "\0".join(stored["dimensionPairs"])
    assert stored["seriesKey"] == f"gauge|cumulative|http.Time|ms|s|i|{stored['dimensionKey']}"
    assert (stored["windowStart"], stored["windowEnd"], stored["intervalMs"]) == (1000, 2000, 999)
    assert stored["buckets"] == stored["summary"]["histogram"] == {"2": 2, "1024": 1}
    assert "more" not in stored


def test_nothing_counted_has_no_least_and_no_most() -> None:
    stored = one(LEAST | {"count": 0, "sum": 0, "min": 1, "max": 2})
    assert [stored[name] for name in ("min", "max", "avg")] == [None, None, 0]
    assert [stored["summary"][name] for name in ("min", "max")] == [None, None]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "point"}, "metrics record.kind must be interval"),
        ({"kind": ["interval"]}, "metrics record.kind must be interval"),
        ({"metric": " "}, "metrics record.metric must be a non-empty string"),
        ({"metric": None}, "metrics record.metric must be a non-empty string"),
        ({"unit": 5}, "metrics record.unit must be a non-empty string"),
        ({"windowStart": "x"}, "metrics record.windowStart and windowEnd must be integers"),
        ({"windowEnd": None}, "metrics record.windowStart and windowEnd must be integers"),
        ({"windowEnd": 1e300}, "metrics record.windowStart and windowEnd must be integers"),
        ({"windowEnd": 999}, "metrics record.windowEnd must be >= windowStart"),
        ({"count": None}, "metrics interval requires count"),
        ({"count": -1}, "metrics interval requires count >= 0"),
        ({"count": "x"}, "metrics interval requires count"),
        ({"sum": {}}, "metrics interval requires sum"),
        ({"sum": "1e999"}, "metrics interval requires sum"),
    ],
)
def test_what_is_wrong_is_said_in_known_words(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadProfile) as refused:
        one(LEAST | change)
    assert (refused.value.message, refused.value.facts) == (message, {"entry": 0})


@pytest.mark.parametrize("entry", [b"1", b"[]", b"null", b'"a"'])
def test_only_objects_are_taken(entry: bytes) -> None:
    with pytest.raises(BadProfile, match=r"^metrics record must be an object$"):
        one(entry)


@given(records)
def test_normalising_what_was_normalised_changes_nothing(entry: dict[str, Any]) -> None:
    found = ready(METRICS)
    once, keys = found([raw(entry)], NOW_US)
    assert found(once, 0) == (once, keys)


@given(records, st.randoms(use_true_random=False))
def test_a_series_does_not_depend_on_the_order_of_its_attributes(entry: dict[str, Any], chance: random.Random) -> None:
    assert keys_by(METRICS, entry) == keys_by(METRICS, _shuffled(entry, chance))


def _shuffled(entry: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    items = [(name, _shuffled(each, chance) if isinstance(each, dict) else each) for name, each in entry.items()]
    chance.shuffle(items)
    return dict(items)


@given(st.dictionaries(st.text(min_size=1), values, max_size=8))
def test_any_object_is_stored_or_refused(entry: dict[str, Any]) -> None:
    for given_ in (entry, LEAST | entry):
        try:
            stored = one(given_)
        except BadProfile:
            continue
        assert len(stored) == 26


def test_quantiles_come_from_the_buckets() -> None:
    stored = one(LEAST | {"buckets": {"1000": 1, "9": 50, "10": 49}})
    assert [stored[name] for name in ("p50", "p95", "p99")] == [9, 10, 10]
    assert list(stored["buckets"]) == ["9", "10", "1000"]


def test_huge_numbers_do_not_break_the_sums() -> None:
    stored = exact(json.dumps(stored_by(METRICS, LEAST | {"count": 0.1, "sum": 1.7e308})[0], default=str).encode())
    assert stored["avg"] == 0
    assert Decimal(stored["sum"]) == Decimal("1.7E+308")
    stored = one(LEAST | {"buckets": {"1": 1.7e308, "2": 1.7e308}})
    assert stored["p50"] in (1, 2)
