"""Forms of a page of hits: JSON, a line a hit, a row a hit. Made in a thread, whole: a page is bounded."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from streams_node.http.headers import RawHeaders

TYPES = {"json": b"application/json", "ndjson": b"application/x-ndjson", "csv": b"text/csv; charset=utf-8"}
# A spreadsheet takes a text that begins so for a formula, and may call programs from it; also in full width.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NEXT, _PLACE_CHARS_MAX = b"search-next-search-after", 4096
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


def formatted(form: str, view: Any, heads: Sequence[str], fields: Iterable[str]) -> bytes:
    """A view with its `hits`. Of a row `heads` come first, then the fields in the order of their names."""
    if form == "ndjson":
        return _ndjson(view)
    return _csv(view.hits, heads, sorted(fields)) if form == "csv" else msgspec.json.encode(view)


def csv_headers(next_after: Any) -> RawHeaders:
    """Where to go on, which has no row; left out beyond what clients take as a header, as it may hold a long text."""
    place = json.dumps(json.loads(msgspec.json.encode(next_after)), separators=(",", ":"))
    return [(_NEXT, place.encode())] if len(place) <= _PLACE_CHARS_MAX else []


def _ndjson(view: Any) -> bytes:
    """A line a hit, and at the end one with everything else. A record may have been stored with lines of its own."""
    rest = {name: getattr(view, name) for name in view.__struct_fields__ if name != "hits"}
    if rest["explain"] is None:
        del rest["explain"]
    lines = [msgspec.json.encode(each).translate(_LINE_ENDS) for each in (*view.hits, rest)]
    return b"\n".join([*lines, b""])


def _csv(hits: Sequence[Any], heads: Sequence[str], names: Sequence[str]) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow([*heads, *map(_cell, names)])
    for hit in hits:
        fields = json.loads(msgspec.json.encode(hit.fields))
        said = [getattr(hit, head) for head in heads]
        writer.writerow([*map(_cell, said), *(_cell(fields.get(name)) for name in names)])
    return out.getvalue().encode("utf-8", "backslashreplace")


def _cell(value: Any) -> str:
    """A text as it is, unless it would be taken for a formula: that gets an apostrophe. What is no text is JSON."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return f"'{value}" if value.startswith(_FORMULA) else value
