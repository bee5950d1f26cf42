import json
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_node.errors import BadProfile
from streams_node.profiles import Profile, parse
from streams_node.profiles.evlog import MEMBERS
from streams_node.profiles.redaction import ALWAYS, DEPTH_MAX, MORE, PLACES_MAX, REDACTED
from tests.profiles.entries import EVLOG, NOW, NOW_US, evlog_entries, exact, keys_by, raw, ready, stored_by

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"
EMPTY: dict[str, Any] = {
    **dict.fromkeys(MEMBERS),
    "timestamp": NOW,
    "level": "info",
    "redaction": {"keys": []},
    "context": {},
}
RECORD_US_MAX = 40  # 15 is the aim; a busy machine may take longer, twice the work would still be seen


def configured(**config: object) -> Profile:
    return parse(raw({"profile": {"kind": "evlog", **config}}))


def one(entry: object, profile: Profile = EVLOG) -> Any:
    return stored_by(profile, entry)[0]


def test_the_example_of_the_original_is_stored_as_there() -> None:
    entry = {
        "requestId": "r1", "message": " hi ", "status": "503", "password": "x",
        "user": {"Token": "t", "list": [{"secret": 1}]},
        "headers": {"authorization": "a", "traceparent": TRACEPARENT},
        "level": "FATAL", "duration": "1.5", "context": {"a": 1}, "extra": 5,
    }  # fmt: skip
    found = ready(EVLOG)
    (stored,), (key,) = found([raw(entry)], NOW_US)
    assert key == "r1"
    assert stored == (
        b'{"timestamp":"2023-11-14T22:13:20.123Z","level":"error","service":null,"environment":null,"version":null,'
        b'"region":null,"method":null,"path":null,"message":"hi","why":null,"fix":null,"link":null,"requestId":"r1",'
        b'"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","status":503,"duration":1.5,'
        b'"sampling":null,"redaction":{"keys":["password","user.Token","user.list.0.secret","headers.authorization"]},'
        b'"context":{"a":1,"password":"[REDACTED]","user":{"Token":"[REDACTED]","list":[{"secret":"[REDACTED]"}]},'
        b'"headers":{"authorization":"[REDACTED]","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},'
        b'"extra":5}}'
    )


def test_an_empty_entry_is_a_whole_envelope() -> None:
    assert one({}) == EMPTY
    assert list(one({})) == list(MEMBERS)


@pytest.mark.parametrize(
    ("entry", "level"),
    [
        ({"level": " WARN "}, "warn"),
        ({"level": "Debug", "status": 500}, "debug"),
        ({"level": "FATAL"}, "info"),
        ({"level": 3, "status": "404"}, "warn"),
        ({"status": 399}, "info"),
        ({"status": 500}, "error"),
        ({"why": "x"}, "error"),
        ({"fix": "x", "status": 404}, "error"),
        ({"link": "x"}, "error"),
        ({"why": "  "}, "info"),
    ],
)
def test_a_level_is_given_or_derived(entry: dict[str, Any], level: str) -> None:
    assert one(entry)["level"] == level


@pytest.mark.parametrize(
    ("given_", "stored"),
    [
        (b"503", 503), (b'" 503 "', 503), (b"503.0", 503), (b"5.03e2", 503), (b"503.5", None), (b'"503.5"', None),
        (b'"abc"', None), (b"true", None), (b"null", None), (b"1e300", None), (b"9007199254740991", 9007199254740991),
        (b"9007199254740992", None), (b"[1]", None), (b'"\xd9\xa5"', None),
    ],
)  # fmt: skip
def test_a_status_is_a_whole_number_or_nothing(given_: bytes, stored: int | None) -> None:
    assert one(b'{"status":' + given_ + b"}")["status"] == stored


@pytest.mark.parametrize(
    ("given_", "stored"),
    [
        (b"12.750", b"12.750"), (b"1e2", b"1e2"), (b'"1.50"', b"1.50"), (b'" 7 "', b"7"), (b'"+7.5"', b"7.5"),
        (b'".5"', b"0.5"), (b"1e400", b"null"), (b'"1e400"', b"null"), (b'"0x10"', b"null"), (b'""', b"null"),
        (b"false", b"null"), (b"123456789012345678901234567890", b"123456789012345678901234567890"),
        (b"1" + b"0" * 308, b"1" + b"0" * 308), (b"1" + b"0" * 309, b"null"), (b'"' + b"1" * 5000 + b'"', b"null"),
    ],
)  # fmt: skip
def test_a_duration_keeps_its_digits(given_: bytes, stored: bytes) -> None:
    found = ready(EVLOG)
    assert b'"duration":' + stored + b"," in found([b'{"duration":' + given_ + b"}"], NOW_US)[0][0]


def test_numbers_in_the_context_keep_their_digits() -> None:
    entry = b'{"a":0.10,"b":[1E5,123456789012345678901234567890],"context":{"c":-1.0e-400}}'
    found = ready(EVLOG)
    stored = found([entry], NOW_US)[0][0]
    assert stored.endswith(b'"context":{"c":-1.0e-400,"a":0.10,"b":[1E5,123456789012345678901234567890]}}')


def test_a_context_takes_in_what_the_envelope_does_not_know() -> None:
    assert one({"x": 1, "context": {"a": 1, "x": 2}})["context"] == {"a": 1, "x": 1}
    assert one({"context": [1]})["context"] == {"context": [1]}
    assert one({"context": None})["context"] == {}
    assert one({"service": 5, "sampling": {"rate": 1}, "redaction": {"keys": ["a"]}}) == EMPTY | {
        "sampling": {"rate": 1}
    }


def test_ids_come_from_the_first_place_that_has_them() -> None:
    assert one({"requestId": " ", "context": {"requestId": "c"}})["requestId"] == "c"
    assert one({"traceContext": {"traceId": "t", "spanId": "s"}, "traceId": "top"})["traceId"] == "top"
    profile = configured(
        correlation={
            "requestIdFields": ["ctx.rid", "rid"],
            "traceContextFields": ["dd.traceId", "dd.span", "dd.spanId"],
        }
    )
    entry = {"requestId": "no", "rid": "yes", "traceId": "no", "dd": {"traceId": "t", "span": "no", "spanId": "s"}}
    assert [one(entry, profile)[name] for name in ("requestId", "traceId", "spanId")] == ["yes", "t", "s"]


@pytest.mark.parametrize(
    ("traceparent", "found"),
    [
        (TRACEPARENT, True), (TRACEPARENT.upper(), True), (f" {TRACEPARENT} ", True),
        (f"cc{TRACEPARENT[2:]}-more", True), (f"{TRACEPARENT}-more", False), (f"ff{TRACEPARENT[2:]}", False),
        (TRACEPARENT.replace(TRACE, "0" * 32), False),
        (TRACEPARENT.replace(SPAN, "0" * 16), False), (TRACEPARENT[:-1], False), ("", False), (5, False),
    ],
)  # fmt: skip
def test_a_traceparent_is_read_as_the_w3c_says(traceparent: object, *, found: bool) -> None:
    for entry in ({"traceparent": traceparent}, {"headers": {"traceparent": traceparent}}):
        stored = one(entry)
        assert (stored["traceId"], stored["spanId"]) == ((TRACE, SPAN) if found else (None, None))
    off = configured(correlation={"parseTraceparent": False})
    assert one({"traceparent": traceparent}, off)["traceId"] is None


def test_a_traceparent_fills_only_what_is_missing() -> None:
    stored = one({"traceId": "mine", "context": {"traceparent": TRACEPARENT}})
    assert (stored["traceId"], stored["spanId"]) == ("mine", SPAN)


def test_a_key_is_the_request_or_else_the_trace() -> None:
    entries = [{"requestId": "r", "traceId": "t"}, {"traceId": "t"}, {"spanId": "s"}]
    assert keys_by(EVLOG, *entries) == ["r", "t", None]


def test_what_is_redacted_is_no_source_of_an_id() -> None:
    profile = configured(redactKeys=["requestid", "Headers"])
    stored = one({"context": {"requestId": "r"}, "headers": {"traceparent": TRACEPARENT}}, profile)
    assert (stored["requestId"], stored["traceId"]) == (None, None)
    assert stored["context"] == {"requestId": REDACTED, "headers": REDACTED}
    assert one({"requestId": "r"}, profile)["requestId"] == "r"


def test_other_spellings_of_a_name_are_redacted_too() -> None:
    entry = b'{"pass\\u0077ord":"x","PASSWORD":"x","to\\u212aen":"x","a":{"password":"x","password":"x"}}'
    stored = one(entry)
    assert "x" not in json.dumps(stored["context"]).replace("context", "")
    assert stored["redaction"]["keys"] == ["password", "PASSWORD", "to\u212aen", "a.password"]


def test_a_list_of_places_has_an_end() -> None:
    stored = one({"n" * 60_000: [{"token": 1}] * 3, "list": [{"token": 1}] * 2000})
    assert stored["redaction"]["keys"] == [f"{'n' * 60_000}.0.token", MORE]
    stored = one({"list": [{"token": 1}] * 2000})
    assert len(stored["redaction"]["keys"]) == PLACES_MAX + 1
    assert stored["context"]["list"] == [{"token": REDACTED}] * 2000


@given(evlog_entries)
def test_normalising_what_was_normalised_changes_nothing(entry: dict[str, Any]) -> None:
    found = ready(EVLOG)
    once, keys = found([raw(entry)], NOW_US)
    assert found(once, NOW_US + 10**9) == (once, keys)


@given(evlog_entries, st.sampled_from([["pin"], [], ["pin", "context", "a"]]))
def test_no_value_of_a_redacted_member_is_left(entry: dict[str, Any], names: list[str]) -> None:
    stored = one(entry, configured(redactKeys=names))
    places = stored["redaction"]["keys"]
    assert _secrets(stored["context"], {*ALWAYS, *names}) == [REDACTED] * len(places)


def _secrets(value: Any, names: set[str]) -> list[Any]:
    if isinstance(value, list):
        return [found for each in value for found in _secrets(each, names)]
    if not isinstance(value, dict):
        return []
    return [
        found for name, each in value.items() for found in ([each] if name.lower() in names else _secrets(each, names))
    ]


@given(evlog_entries)
def test_an_envelope_has_its_members_in_their_order(entry: dict[str, Any]) -> None:
    stored = one(entry)
    assert list(stored) == list(MEMBERS)
    assert all(isinstance(stored[name], str | None) for name in MEMBERS[:15])
    kept = {name: value for name, value in exact(raw(entry)).items() if name not in MEMBERS}
    assert set(kept) <= set(stored["context"])


@pytest.mark.parametrize("entry", [b"1", b"[]", b"null", b'"a"', b"true", b"1.5"])
def test_only_objects_are_taken(entry: bytes) -> None:
    with pytest.raises(BadProfile, match=r"^evlog record must be an object$") as refused:
        stored_by(EVLOG, {}, entry)
    assert refused.value.facts == {"entry": 1}


def test_nesting_has_a_limit_and_never_a_stack_that_is_too_deep() -> None:
    def nested(levels: int, before: bytes = b"x") -> bytes:
        return b'{"' + before + b'":' + b"[" * levels + b"]" * levels + b"}"

    assert one(nested(DEPTH_MAX - 1))["context"]
    with pytest.raises(BadProfile, match=r"^evlog record.context must be nested at most 64 levels deep$"):
        one(nested(DEPTH_MAX))
    for levels in (sys.getrecursionlimit() // 2, sys.getrecursionlimit(), 200_000):
        for before in (b"x", b"sampling", b"service"):
            try:
                one(nested(levels, before))
            except BadProfile as refused:
                assert "nest" in refused.message  # noqa: PT017 - what is not refused is fine, too


def test_hostile_texts_are_refused_or_taken_but_never_a_fault() -> None:
    taken = [b'{"a":"\\ud83d\\ude00"}', b'{"\\u0000":1}', b'{"":{"":{"":1}}}']
    refused = [b'{"a":"\\ud800"}', b'{"a":' + b"1" * 5000 + b"}", b'{"a":\xff}', b'{"a":"\xff"}', b"{", b""]
    for entry in taken:
        assert one(entry)["context"]
    for entry in refused:
        with pytest.raises(BadProfile, match="evlog record must be valid JSON"):
            one(entry)


def test_a_thousand_entries_take_some_milliseconds() -> None:
    entry = raw({
        "timestamp": "2026-01-01T00:00:00.000Z", "level": "info", "service": "api", "environment": "prod",
        "requestId": "req_12345", "method": "GET", "path": "/v1/things/1", "status": 200, "duration": 12.75,
        "message": "request done", "user": {"id": 5, "plan": "pro"}, "region": "eu", "x": "y" * 40,
        "headers": {"authorization": "Bearer x", "host": "example.com"}, "cart": {"items": 3, "total": 99.5},
    })  # fmt: skip
    found = ready(EVLOG)
    spent = []
    for _ in range(3):
        before = time.thread_time()
        found([entry] * 1000, NOW_US)
        spent.append(time.thread_time() - before)
    assert min(spent) / 1000 < RECORD_US_MAX * 1e-6
