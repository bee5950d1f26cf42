"""Event streams byte for byte: what goes in comes out of a conforming client, and nothing else does."""

import base64
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streams_node.http.sse import HEARTBEAT, control_event, data_event
from tests.http.event_streams import Event, events_of, with_line_feeds

steady = settings(deadline=None, max_examples=200)
# Dense in what a line parser could trip over.
hostile = st.lists(
    st.sampled_from([b"\r", b"\n", b"\r\n", b"\0", b" ", b":", b"data:", b"event: control\ndata:{}", b"id:1", b"\n\n",
                     b"\xef\xbb\xbf", b"\xff", "é".encode(), b"x", b"\x0b", b"\x0c", "\u2028".encode(), b"\xc2\x85"]),
    max_size=12,
).map(b"".join)  # fmt: skip
payloads = hostile | st.binary(max_size=40)
END = control_event("0" * 26, cursor="7", up_to_date=True, closed=False)


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


@steady
@given(payloads)
@example(b" two spaces go in \n  and two come out")
@example(b"\n event: control")
@example(b"")
@example(b"\r")
@example(b"trailing line end\r\n")
def test_text_comes_out_as_it_went_in_but_for_line_ends(payload: bytes) -> None:
    events = events_of(data_event(payload, is_json=False, is_text=True) + END)
    assert kinds(events) == ["data", "control"]
    assert events[0] == ("data", with_line_feeds(payload), ())


@steady
@given(st.lists(payloads, max_size=4))
def test_a_payload_can_not_add_or_end_an_event(pages: list[bytes]) -> None:
    stream = b"".join(data_event(page, is_json=False, is_text=True) + END + HEARTBEAT for page in pages)
    events = events_of(stream)
    assert kinds(events) == ["data", "control"] * len(pages)
    assert all(event.other == () for event in events)
    assert stream.replace(b"\r", b"") == stream  # LF only: clients split at an empty line without looking for CR


@steady
@given(payloads)
def test_other_bytes_come_out_exactly(payload: bytes) -> None:
    events = events_of(data_event(payload, is_json=False, is_text=False) + END)
    assert kinds(events) == ["data", "control"]
    assert base64.b64decode(events[0].data, validate=True) == payload
    assert len(events[0].data) % 4 == 0


values = st.recursive(
    st.none() | st.integers() | st.text(max_size=6), lambda inner: st.lists(inner, max_size=3), max_leaves=6
)


@steady
@given(st.lists(values, max_size=5), st.sampled_from([None, 1, "\r", "\r\n\t"]))
def test_entries_of_json_come_out_as_one_array(entries: list[object], indent: int | str | None) -> None:
    separator = indent if isinstance(indent, str) else ""
    page = b",".join(
        (separator + json.dumps(entry, indent=1 if indent == 1 else None) + separator).encode() for entry in entries
    )  # fmt: skip
    events = events_of(data_event(page, is_json=True, is_text=True) + END)
    assert kinds(events) == ["data", "control"]
    assert json.loads(events[0].data) == entries


@pytest.mark.parametrize(
    ("payload", "is_json", "is_text", "expected"),
    [
        (b"1,2", True, True, b"event: data\ndata:[1,2]\n\n"),
        (b"", True, True, b"event: data\ndata:[]\n\n"),
        (b"hello", False, True, b"event: data\ndata:hello\n\n"),
        (b" hello", False, True, b"event: data\ndata:  hello\n\n"),
        (b"a\r\nb\rc\nd", False, True, b"event: data\ndata:a\ndata:b\ndata:c\ndata:d\n\n"),
        (b"a\n", False, True, b"event: data\ndata:a\ndata:\n\n"),
        (b"\x00\x01", False, False, b"event: data\ndata:AAE=\n\n"),
    ],
)
def test_the_bytes_of_a_data_event(payload: bytes, *, is_json: bool, is_text: bool, expected: bytes) -> None:
    assert data_event(payload, is_json=is_json, is_text=is_text) == expected


@pytest.mark.parametrize(
    ("cursor", "up_to_date", "closed", "expected"),
    [
        ("12", False, False, b'{"streamNextOffset":"X","streamCursor":"12"}'),
        ("12", True, False, b'{"streamNextOffset":"X","streamCursor":"12","upToDate":true}'),
        ("12", True, True, b'{"streamNextOffset":"X","streamClosed":true,"upToDate":true}'),
        (None, True, True, b'{"streamNextOffset":"X","streamClosed":true,"upToDate":true}'),
    ],
)
def test_the_bytes_of_a_control_event(cursor: str | None, *, up_to_date: bool, closed: bool, expected: bytes) -> None:
    event = control_event("X", cursor=cursor, up_to_date=up_to_date, closed=closed)
    assert event == b"event: control\ndata:" + expected + b"\n\n"


def test_a_heartbeat_is_no_event() -> None:
    assert events_of(HEARTBEAT * 3) == []
