"""What a search asks for, as typed values: out of a query string, or out of a JSON body. Pure."""

import math
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import orjson

from streams_node.errors import BadSearch

SEARCH_BODY_BYTES_MAX = 256 << 10
SIZE, SIZE_MAX = 50, 500
TIMEOUT_MS_MAX = 3000
SORTS_MAX = 32
_PARAMETERS_MAX = 128
_NUMBER_CHARS_MAX = 20
_SIZE = f"size must be an integer between 1 and {SIZE_MAX}"
_TIMEOUT = "timeout_ms must be a non-negative number"
_SORT = "sort must be an array of strings"
_ONCE = ("q", "size", "timeout_ms", "search_after", "explain", "highlight", "format")
FORMATS = ("json", "ndjson", "csv")


class SearchRequest(NamedTuple):
    """A checked request; the query, the sort keys and the place to go on from are the stream's to understand."""

    q: str
    size: int = SIZE
    sort: tuple[str, ...] = ()
    after: tuple[Any, ...] | None = None
    timeout_ms: int = TIMEOUT_MS_MAX
    explain: bool = False
    highlight: bool = False
    format: str = "json"


def of_query(query_string: bytes) -> SearchRequest:
    """Parameters of a GET. `sort` may come several times, and may name several keys, with commas between them."""
    found: dict[str, str] = {}
    sort: list[str] = []
    for name, value in _pairs(query_string):
        if name == "track_total_hits":
            raise BadSearch("track_total_hits is no longer supported")
        if name == "sort":
            sort += value.split(",")
        elif name in _ONCE:
            if name in found:
                raise BadSearch(f"parameter `{name}` must be given once")
            found[name] = value
    if "q" not in found:
        raise BadSearch("missing q")
    return SearchRequest(
        _q(found["q"]),
        _size(found["size"]) if "size" in found else SIZE,
        _sort(sort),
        _after_text(found.get("search_after")),
        _timeout(_number(found["timeout_ms"])) if "timeout_ms" in found else TIMEOUT_MS_MAX,
        _flag("explain", found.get("explain")),
        _flag("highlight", found.get("highlight")),
        _format(found.get("format", "json")),
    )


def of_body(body: bytes) -> dict[str, Any]:
    """What a POST has in its body."""
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise BadSearch("search request must be valid JSON") from None
    if not isinstance(given, dict):
        raise BadSearch("search request must be an object")
    return given


def of_members(given: dict[str, Any], query_string: bytes) -> SearchRequest:
    """Members of a body; unknown ones are ignored. `format` may be a parameter, too."""
    if "track_total_hits" in given:
        raise BadSearch("track_total_hits is no longer supported")
    sort = given.get("sort")
    if sort is not None and not isinstance(sort, list):
        raise BadSearch(_SORT)
    if any(not isinstance(entry, str) for entry in sort or ()):
        raise BadSearch("sort entries must be strings")
    after = given.get("search_after")
    if after is not None and not isinstance(after, list):
        raise BadSearch("search_after must be an array")
    if not isinstance(given.get("q"), str):
        raise BadSearch("q must be a string")
    formats = [value for name, value in _pairs(query_string) if name == "format"] if query_string else []
    return SearchRequest(
        _q(given["q"]),
        _size(given["size"]) if "size" in given else SIZE,
        _sort(sort or []),
        None if after is None else tuple(after),
        _timeout(given["timeout_ms"]) if "timeout_ms" in given else TIMEOUT_MS_MAX,
        _flag("explain", given.get("explain")),
        _flag("highlight", given.get("highlight")),
        _format(given.get("format", formats[0] if formats else "json")),
    )


def _pairs(query_string: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_PARAMETERS_MAX
        )
    except ValueError:
        raise BadSearch(f"the query must have at most {_PARAMETERS_MAX} parameters of UTF-8 text") from None


def _q(text: str) -> str:
    if not text.strip():
        raise BadSearch("q must not be empty")
    return text


def _size(given: Any) -> int:
    if isinstance(given, str):
        given = _number(given)
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise BadSearch(_SIZE)
    if not 1 <= given <= SIZE_MAX or given != int(given):
        raise BadSearch(_SIZE)
    return int(given)


def _number(text: str) -> float | None:
    """A number of a query string; None is none."""
    try:
        found = float(text) if text.isascii() and len(text) <= _NUMBER_CHARS_MAX and "_" not in text else None
    except ValueError:
        return None
    return found if found is not None and math.isfinite(found) else None


def _timeout(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int | float) or given < 0:
        raise BadSearch(_TIMEOUT)
    return int(min(given, TIMEOUT_MS_MAX))


def _sort(entries: list[str]) -> tuple[str, ...]:
    if len(entries) > SORTS_MAX:
        raise BadSearch(f"sort must have at most {SORTS_MAX} entries")
    return tuple(entries)


def _after_text(text: str | None) -> tuple[Any, ...] | None:
    if text is None:
        return None
    try:
        given = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise BadSearch("search_after must be a JSON array") from None
    if given is None:
        return None
    if not isinstance(given, list):
        raise BadSearch("search_after must be a JSON array")
    return tuple(given)


def _flag(name: str, given: Any) -> bool:
    found = {None: False, True: True, False: False, "true": True, "false": False, "1": True, "0": False}.get(
        given if given is None or isinstance(given, bool | str) else "?"
    )
    if found is None:
        raise BadSearch(f"{name} must be true or false")
    return found


def _format(given: Any) -> str:
    if given not in FORMATS:
        raise BadSearch(f"format must be one of {', '.join(FORMATS)}")
    return str(given)
