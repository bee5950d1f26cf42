"""What a hit shows of its record: cut out of its text, it is what reading the whole record gives."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from search.language import raw_fields
from streams_node.http.search_view import _members_of
from streams_node.schema.search_config import parse
from tests.search.world import CONFIG, SEARCH

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
NAMES = st.sampled_from([*CONFIG.fields, "unknown", "le", ""])


def shown(text: bytes) -> Any:
    members = _members_of(CONFIG, 1)
    assert members is not None
    found = members(text)
    return None if found is None else json.loads(msgspec.json.encode({"fields": found}))["fields"]


@given(st.dictionaries(NAMES, VALUES, max_size=6) | VALUES, st.booleans(), st.sampled_from([None, 1]))
@example({"level": "\ud800"}, True, None)  # noqa: FBT003
@example({"level": "[", "dur": 1e300}, False, None)  # noqa: FBT003
def test_members_are_what_the_record_has(record: Any, escaped: bool, indent: int | None) -> None:  # noqa: FBT001
    text = json.dumps(record, ensure_ascii=escaped, indent=indent).encode("utf-8", "surrogatepass")
    found = shown(text)
    if found is None:
        assert b"[" in text or not isinstance(record, dict) or "\ud800" in json.dumps(record, ensure_ascii=False)
    else:
        assert found == raw_fields(CONFIG.fields, 1)(record)
        assert list(found) == [name for name in CONFIG.fields if name in record]


def test_a_member_that_is_there_twice_has_its_last_value_and_keys_may_be_escaped() -> None:
    assert shown(b'{"level": 1, "le\\u0076el" : 2, "dur":1.50}') == {"level": 2, "dur": 1.5}


@pytest.mark.parametrize("text", [b"", b"nul", b'{"level": ', b"\xff", b"{" * 5000])
def test_what_is_no_json_is_left_to_who_reads_records(text: bytes) -> None:
    assert shown(text) is None


def test_fields_of_other_names_or_depths_are_left_to_who_reads_records() -> None:
    for pointer in ("/Level", "/a/level", ""):
        other = {**SEARCH, "fields": {**SEARCH["fields"], "level": {**SEARCH["fields"]["level"]}}}
        other["fields"]["level"]["bindings"] = [{"version": 1, "jsonPointer": pointer}]
        assert _members_of(parse(other), 1) is None
