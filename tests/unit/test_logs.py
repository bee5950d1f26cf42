"""Log lines: one shape for ours and the libraries', and nothing in them that a client sent."""

import io
import json
import logging
from collections.abc import Callable, Iterator

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from streams_node.observe.logs import LogFormat, LogLevel, configure, fresh_request_id, get_logger, request_id


@pytest.fixture
def lines() -> Iterator[Callable[[LogFormat, LogLevel], io.StringIO]]:
    """Sets logging up on a buffer, and leaves the process as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def set_up(log_format: LogFormat, log_level: LogLevel) -> io.StringIO:
        buffer = io.StringIO()
        configure(log_format, log_level, buffer)
        return buffer

    yield set_up
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


SetUp = Callable[[LogFormat, LogLevel], io.StringIO]


def parsed(buffer: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in buffer.getvalue().splitlines()]


def test_json_line_has_event_level_room_time_and_facts(lines: SetUp) -> None:
    buffer = lines("json", "info")
    get_logger("wal").info("listening", port=4437)
    (line,) = parsed(buffer)
    assert str(line.pop("timestamp")).endswith("Z")
    assert line == {"event": "listening", "level": "info", "logger_name": "wal", "port": 4437}


def test_console_line_is_for_a_person_and_has_no_colours_outside_a_terminal(lines: SetUp) -> None:
    buffer = lines("console", "info")
    get_logger("wal").warning("disk is low", free_bytes=5)
    assert "disk is low" in buffer.getvalue()
    assert "free_bytes=5" in buffer.getvalue()
    assert "\x1b" not in buffer.getvalue()


def test_lines_below_the_level_are_left_out(lines: SetUp) -> None:
    buffer = lines("json", "warning")
    get_logger("wal").info("quiet")
    get_logger("wal").error("loud")
    assert [line["event"] for line in parsed(buffer)] == ["loud"]


def test_logger_made_before_the_set_up_obeys_it(lines: SetUp) -> None:
    log = get_logger("early")
    first = lines("json", "info")
    log.info("one")
    second = lines("json", "info")
    log.info("two")
    assert [line["event"] for line in parsed(first)] == ["one"]
    assert [line["event"] for line in parsed(second)] == ["two"]


def test_facts_bound_for_a_request_are_on_each_of_its_lines(lines: SetUp) -> None:
    buffer = lines("json", "info")
    with structlog.contextvars.bound_contextvars(request_id="r-1"):
        get_logger("http").info("slow")
    get_logger("http").info("later")
    assert [line.get("request_id") for line in parsed(buffer)] == ["r-1", None]


# --- libraries ------------------------------------------------------------------------------------------------------


def test_lines_of_libraries_take_the_same_shape(lines: SetUp) -> None:
    buffer = lines("json", "info")
    logging.getLogger("uvicorn.error").warning("closing %s", "now")
    (line,) = parsed(buffer)
    assert (line["event"], line["level"], line["logger_name"]) == ("closing now", "warning", "uvicorn.error")


def test_debug_is_for_our_lines_and_not_for_what_http_libraries_would_print(lines: SetUp) -> None:
    buffer = lines("json", "debug")
    logging.getLogger("httpcore").debug("send_request_headers.started request=%s", "Authorization: Bearer k")
    get_logger("wal").debug("checkpoint")
    assert [line["event"] for line in parsed(buffer)] == ["checkpoint"]


def test_set_up_twice_writes_each_library_line_once(lines: SetUp) -> None:
    lines("json", "info")
    buffer = lines("json", "info")
    logging.getLogger("uvicorn.error").info("once")
    assert len(parsed(buffer)) == 1


# --- what must not be in a line -------------------------------------------------------------------------------------


@pytest.mark.parametrize("log_format", ["console", "json"])
@pytest.mark.parametrize("field", ["headers", "body", "authorization", "api_key", "payload", "data", "scope"])
def test_field_that_carries_what_a_client_sent_is_masked(lines: SetUp, log_format: LogFormat, field: str) -> None:
    buffer = lines(log_format, "info")
    get_logger("http").info("request", **{field: "topsecret"})
    assert "***" in buffer.getvalue()
    assert "topsecret" not in buffer.getvalue()


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_bytes_are_shown_as_their_size(lines: SetUp, log_format: LogFormat) -> None:
    buffer = lines(log_format, "info")
    get_logger("http").info(
        "request", first=b"topsecret", second=bytearray(b"topsecret"), third=memoryview(b"topsecret")
    )
    assert buffer.getvalue().count("<9 bytes>") == 3
    assert "topsecret" not in buffer.getvalue()


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_traceback_shows_no_local_variable(lines: SetUp, log_format: LogFormat) -> None:
    buffer = lines(log_format, "info")
    entry = "top" + "secret"
    try:
        int(entry[:0])
    except ValueError:
        get_logger("wal").exception("failed")
    assert "ValueError" in buffer.getvalue()
    assert entry not in buffer.getvalue()


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_control_characters_of_a_name_reach_neither_terminal_nor_next_line(lines: SetUp, log_format: LogFormat) -> None:
    buffer = lines(log_format, "info")
    get_logger("http").info("refused", path="a\x1b[2J\r\n2030-01-01 [info] forged")
    (line,) = buffer.getvalue().splitlines()
    assert "\x1b" not in line


def test_value_that_json_does_not_know_does_not_lose_the_line(lines: SetUp) -> None:
    buffer = lines("json", "info")
    get_logger("wal").info("odd", huge=1 << 80, thing=object(), lone="\ud800")
    assert parsed(buffer)[0]["huge"] == 1 << 80


# --- request ids ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["abc", "A-1_2.3", "x" * 64, b"from-a-header"])
def test_harmless_request_id_of_a_client_is_kept(value: str | bytes) -> None:
    assert request_id(value) == (value if isinstance(value, str) else value.decode())


@pytest.mark.parametrize("value", [None, "", "x" * 65, "a b", "a\n", "ü", "a/b", b"\xff", 'a"', "%0a"])
def test_any_other_request_id_is_replaced_by_a_fresh_one(value: str | bytes | None) -> None:
    assert request_id(value, fresh=lambda: "fresh") == "fresh"


@given(st.one_of(st.text(max_size=70), st.binary(max_size=70)))
def test_request_id_is_always_safe_in_a_header_and_a_log(value: str | bytes) -> None:
    answer = request_id(value)
    assert 1 <= len(answer) <= 64
    assert answer.isascii()
    assert answer.replace(".", "").replace("_", "").replace("-", "").isalnum() or set(answer) <= set("._-")


def test_fresh_request_ids_are_short_and_differ() -> None:
    ids = {fresh_request_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert {len(each) for each in ids} == {16}
