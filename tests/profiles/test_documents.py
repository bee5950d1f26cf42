from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_node.errors import BadProfile, NotImplementedYet
from streams_node.profiles import KINDS, Profile, installed, parse
from streams_node.schema.search_config import parse as parse_search
from tests.profiles.entries import raw, values

KINDS_TEXT = "evlog|generic|metrics|otel-traces|state-protocol"


def evlog(**config: object) -> bytes:
    return raw({"profile": {"kind": "evlog", **config}})


REFUSED: list[tuple[bytes, str]] = [
    (b"", "profile update must be valid JSON"),
    (b"{", "profile update must be valid JSON"),
    (b"\xff", "profile update must be valid JSON"),
    (b'{"a":NaN}', "profile update must be valid JSON"),
    (b"[" * 100_000, "profile update must be valid JSON"),
    (b"[]", "profile update must be a JSON object"),
    (b"null", "profile update must be a JSON object"),
    (b'{"kind":"evlog"}', "profileUpdate.kind is not supported"),
    (b'{"apiVersion":"v2","profile":{"kind":"generic"}}', "invalid profile apiVersion"),
    (b'{"apiVersion":null,"profile":{"kind":"generic"}}', "invalid profile apiVersion"),
    (b'{"apiVersion":"durable.streams/profile/v1"}', "missing profile"),
    (b"{}", "missing profile"),
    (b'{"profile":null}', "profile must be an object"),
    (b'{"profile":"evlog"}', "profile must be an object"),
    (b'{"profile":{}}', "profile.kind must be a non-empty string"),
    (b'{"profile":{"kind":""}}', "profile.kind must be a non-empty string"),
    (b'{"profile":{"kind":7}}', "profile.kind must be a non-empty string"),
    (b'{"profile":{"kind":"EVLOG"}}', f"profile.kind must be {KINDS_TEXT}"),
    (b'{"profile":{"kind":"\\ud800"}}', f"profile.kind must be {KINDS_TEXT}"),
    (b'{"profile":{"kind":"generic","redactKeys":[]}}', "profile.redactKeys is not supported"),
    (b'{"profile":{"kind":"metrics","touch":{}}}', "profile.touch is not supported"),
    (evlog(more=1), "profile.more is not supported"),
    (evlog(redactKeys="pin"), "profile.redactKeys must be an array of strings"),
    (evlog(redactKeys=[1]), "profile.redactKeys[0] must be a non-empty string"),
    (evlog(redactKeys=["a", " "]), "profile.redactKeys[1] must be a non-empty string"),
    (evlog(redactKeys=["a"] * 65), "profile.redactKeys must have at most 64 items"),
    (evlog(redactKeys=["a" * 257]), "profile.redactKeys[0] must be at most 256 characters long"),
    (evlog(redactKeys=["\ud800"]), "profile must not hold half of a surrogate pair"),
    (evlog(correlation=[]), "profile.correlation must be an object"),
    (evlog(correlation={"x": 1}), "profile.correlation.x is not supported"),
    (evlog(correlation={"parseTraceparent": 1}), "profile.correlation.parseTraceparent must be boolean"),
    (evlog(correlation={"requestIdFields": {}}), "profile.correlation.requestIdFields must be an array of strings"),
    (evlog(correlation={"requestIdFields": ["a..b"]}), "profile.correlation.requestIdFields[0] must be a dotted path"),
    (
        evlog(correlation={"traceContextFields": ["a", "ctx.Token.traceId"]}),
        "profile.correlation.traceContextFields[1] must not lead to a member that is redacted",
    ),
    (
        evlog(redactKeys=["rid"], correlation={"requestIdFields": ["rid"]}),
        "profile.correlation.requestIdFields[0] must not lead to a member that is redacted",
    ),
    (
        evlog(redactKeys=["Context"], correlation={"requestIdFields": ["context"]}),
        "profile.correlation.requestIdFields[0] must not lead to a member that is redacted",
    ),
    (evlog(observability=1), "profile.observability must be an object"),
    (evlog(observability={"response": {}}), "profile.observability.response is not supported"),
    (evlog(observability={"request": {"x": 1}}), "profile.observability.request.x is not supported"),
    (
        evlog(observability={"request": {"tracesStream": ""}}),
        "profile.observability.request.tracesStream must be a non-empty string",
    ),
]


@pytest.mark.parametrize(("body", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_wrong_is_said_in_known_words(body: bytes, message: str) -> None:
    with pytest.raises(BadProfile) as refused:
        parse(body)
    assert (refused.value.code, refused.value.message) == ("bad_request", message)


@pytest.mark.parametrize("kind", ["otel-traces", "state-protocol"])
def test_kinds_that_come_later_are_named(kind: str) -> None:
    with pytest.raises(NotImplementedYet, match=f"profile `{kind}` is not there yet"):
        parse(raw({"profile": {"kind": kind, "touch": {"enabled": True}}}))


def test_a_configuration_is_kept_in_its_normal_form() -> None:
    profile = parse(
        evlog(
            redactKeys=[" Pin ", "PIN", "ssn"],
            correlation={"requestIdFields": ["a.b", "a.b"], "traceContextFields": [], "parseTraceparent": True},
            observability={"request": {"tracesStream": " traces "}},
        )
    )
    assert profile.document == {
        "apiVersion": "durable.streams/profile/v1",
        "profile": {
            "kind": "evlog",
            "redactKeys": ["pin", "ssn"],
            "correlation": {"requestIdFields": ["a.b"], "parseTraceparent": True},
            "observability": {"request": {"tracesStream": "traces"}},
        },
    }
    assert parse(raw(profile.document)) == profile
    assert parse(evlog(redactKeys=[], correlation={}, observability={"request": {}})) == Profile("evlog", {})


@given(st.dictionaries(st.sampled_from(["redactKeys", "correlation", "observability"]), values, max_size=3))
def test_any_configuration_is_refused_or_kept(config: dict[str, Any]) -> None:
    try:
        profile = parse(evlog(**config))
    except BadProfile:
        return
    assert parse(raw(profile.document)) == profile


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_kind_installs_can_be_installed(kind: str) -> None:
    update = installed(kind)
    assert (update is None) == (kind not in {"evlog", "metrics"})
    if update is not None:
        assert update["schema"]["required"] == list(update["schema"]["properties"])
        assert parse_search(update["search"]).profile == kind
