"""Log lines: structured, on stderr, for a person (`console`) or a collector (`json`).

A line is an event in plain words and a few facts: `log.info("listening", host=..., port=...)`. Lines of libraries
(Litestar, and uvicorn with `log_config=None`) take the same shape. What a client sent never becomes part of a line:
fields that usually carry it are masked, bytes are shown as their size, and tracebacks come without local variables.
"""

import logging
import re
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, TextIO, cast

import structlog
from structlog.types import EventDict, FilteringBoundLogger, Processor, WrappedLogger

LogFormat = Literal["console", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

_LEVELS: dict[LogLevel, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

# Fields that would carry a header, a body or a secret. A caller who adds one by mistake still leaks nothing.
_CONTENTS = frozenset(
    {"api_key", "authorization", "body", "cookie", "data", "header", "headers", "payload", "scope", "token"}
)
_MASK = "***"
_HANDLER_NAME = "streams-node"


def configure(log_format: LogFormat, level: LogLevel, stream: TextIO | None = None) -> None:
    """Set up all logging of the process; calling it again replaces the earlier set-up."""
    target = cast("TextIO", _Lossy(sys.stderr if stream is None else stream))
    renderer = _renderer(log_format, target)
    structlog.configure(
        processors=[*_shared(log_format), *renderer],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(target),
        # Loggers live in module globals; a cached one would keep the first set-up for ever, and tests could not listen.
        cache_logger_on_first_use=False,
    )
    _configure_libraries(log_format, renderer, level, target)


def get_logger(name: str) -> FilteringBoundLogger:
    """A logger whose lines say which room they come from; cheap, and fine to call before `configure`."""
    return cast("FilteringBoundLogger", structlog.get_logger(logger_name=name))


# --- request ids ----------------------------------------------------------------------------------------------------

_CLIENT_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
# 64 bits: two requests of one log file never share an id by chance.
_REQUEST_ID_BYTES = 8


def fresh_request_id() -> str:
    return secrets.token_hex(_REQUEST_ID_BYTES)


def request_id(client_value: str | bytes | None, fresh: Callable[[], str] = fresh_request_id) -> str:
    """The client's `X-Request-Id` if it is harmless in a log and a header, otherwise a fresh one."""
    if client_value is None:
        return fresh()
    text = client_value.decode("latin-1") if isinstance(client_value, bytes) else client_value
    return text if _CLIENT_REQUEST_ID.fullmatch(text) else fresh()


class _Lossy:
    """Drops a line that cannot be written: a full disk or a closed pipe must not fail what the line tells of.

    The first line that was lost this way told of a failed commit, and took the handling of it along.
    """

    def __init__(self, target: TextIO) -> None:
        self._target = target

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # a closed file is a ValueError
            self._target.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._target.flush()

    def isatty(self) -> bool:
        return self._target.isatty()


# --- the way of a line ----------------------------------------------------------------------------------------------


def _shared(log_format: LogFormat) -> list[Processor]:
    steps: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_contents,
    ]
    # JSON escapes by itself; a terminal would obey control characters that a client put into a name.
    return steps if log_format == "json" else [*steps, _without_control_characters]


def _renderer(log_format: LogFormat, target: TextIO) -> list[Processor]:
    # Tracebacks are the plain kind in both: the richer ones print local variables, which are bodies and keys.
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    console = structlog.dev.ConsoleRenderer(
        colors=target.isatty(),
        exception_formatter=structlog.dev.plain_traceback,
    )
    return [console]


def _configure_libraries(log_format: LogFormat, renderer: list[Processor], level: LogLevel, target: TextIO) -> None:
    handler = logging.StreamHandler(target)
    handler.set_name(_HANDLER_NAME)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_library_name, *_shared(log_format)],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    for earlier in [each for each in root.handlers if each.get_name() == _HANDLER_NAME]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    # At `debug` HTTP libraries and SDKs print requests with their headers, so our `debug` does not open theirs.
    root.setLevel(max(_LEVELS[level], logging.INFO))


def _library_name(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event["logger_name"] = event["_record"].name
    return event


def _without_contents(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for key, value in event.items():
        if key in _CONTENTS:
            event[key] = _MASK
        elif isinstance(value, (bytes, bytearray, memoryview)):
            event[key] = f"<{len(value)} bytes>"
    return event


def _without_control_characters(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = _printable(value)
    return event


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(map(_printable_character, text))


def _printable_character(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
