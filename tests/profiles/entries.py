"""Entries that clients may send, as JSON text that no other writer touched, and a reading that keeps every digit."""

import json
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from streams_node.profiles import Normaliser, Profile, normaliser
from streams_node.profiles.evlog import MEMBERS

EVLOG, METRICS = Profile("evlog", {}), Profile("metrics", {})
NOW_US = 1_700_000_000_123_456
NOW = "2023-11-14T22:13:20.123Z"

words = st.text(st.characters(codec="utf-8"), max_size=12)
numbers = st.one_of(
    st.integers(),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
)
leaves = st.one_of(st.none(), st.booleans(), numbers, words, st.sampled_from(["503", " 12.5 ", "1e400", "-7", "0x10"]))
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(words, inner, max_size=4)),
    max_leaves=12,
)
secret_names = st.sampled_from(["password", "Token", "SECRET", "authorization", "Cookie", "apiKey", "Pin", "pIN "])
evlog_entries = st.dictionaries(
    st.one_of(words, st.sampled_from([*MEMBERS, "traceparent", "traceContext", "headers"]), secret_names),
    st.one_of(values, st.dictionaries(st.one_of(words, secret_names), values, max_size=4)),
    max_size=12,
)


def raw(value: object) -> bytes:
    return json.dumps(value).encode()


def exact(text: bytes) -> Any:
    """The value with its numbers as they are written."""
    return json.loads(text, parse_float=Decimal)


def ready(profile: Profile) -> Normaliser:
    found = normaliser(profile.kind, profile.config)
    assert found is not None
    return found


def stored_by(profile: Profile, *entries: object) -> list[Any]:
    """What is stored of entries, which may be given as text."""
    return [
        exact(each)
        for each in ready(profile)([each if isinstance(each, bytes) else raw(each) for each in entries], NOW_US)[0]
    ]


def keys_by(profile: Profile, *entries: object) -> list[str | None]:
    return ready(profile)([raw(each) for each in entries], NOW_US)[1]
