"""A column of canonical values a field, over many records at once.

Most columns hold values of one type only. That is seen by one look at their types, and then a whole column is made
without a call a value; anything else goes the way of the evaluator, value by value.
"""

from collections.abc import Iterable
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indexers.records.documents import Documents
from search.language import Canonical, canonicalizer
from search.language.dates import date_ns, milliseconds_ns
from search.language.pointers import flat, getter, segments
from streams_node.schema.search_config import Field, Kind

_NONE = type(None)
_USUAL = r"^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?Z$"


class Column(NamedTuple):
    """What the records have in a field: one value, or None, each; those with several values are in `many`."""

    values: list[Any]
    many: dict[int, list[Canonical]]

    def of(self, at: int) -> list[Canonical]:
        """All values of one record."""
        found = self.many.get(at)
        if found is not None:
            return found
        value = self.values[at]
        return [] if value is None else [value]

    def present(self) -> int:
        """Records with a value."""
        return len(self.values) - self.values.count(None)

    def flat(self) -> list[Any]:
        """All values of all records, in no order, and None for records without."""
        if not self.many:
            return self.values
        found = [value for at, value in enumerate(self.values) if at not in self.many]
        for values in self.many.values():
            found += values
        return found


class Table:
    """Columns of some records, each made when it is asked for."""

    def __init__(self, documents: Documents, version: int) -> None:
        self.records = documents.records
        self._plain = documents.plain
        self._version = version
        self._columns: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self.records)

    def column(self, field: Field) -> Column:
        found = self._columns.get(field.name)
        if found is None:
            found = self._columns[field.name] = self._read(field)
        return found

    def at(self, pointer: str) -> list[Any]:
        """What the records have at a pointer, as it is."""
        path = segments(pointer)
        if len(path) == 1:
            (name,) = path
            try:
                return list(map(itemgetter(name), self.records))
            except KeyError:
                return [record.get(name) for record in self.records]
        return list(map(getter(pointer), self.records))

    def _read(self, field: Field) -> Column:
        pointer = field.pointer(self._version)
        if pointer is None:
            return Column([None] * len(self.records), {})
        raw = self.at(pointer)
        types = set(map(type, raw))
        if list in types:
            return _mixed(field, raw)
        return Column(self._single(field, raw, types), {})

    def _single(self, field: Field, raw: list[Any], types: set[type]) -> list[Any]:
        """At most one value a record."""
        if types <= {_NONE}:
            return raw
        made = None
        if field.kind is Kind.KEYWORD or field.kind is Kind.TEXT:
            made = _texts(raw, types, lowercase=field.lowercase)
        elif field.kind is Kind.DATE:
            made = _dates(raw, types)
        elif self._plain:
            made = _numbers(field.kind, raw, types)
        return list(map(canonicalizer(field), raw)) if made is None else made


def _mixed(field: Field, raw: list[Any]) -> Column:
    canonical, many = canonicalizer(field), dict[int, list[Canonical]]()
    found: list[Any] = []
    for at, value in enumerate(raw):
        if value.__class__ is not list:
            found.append(canonical(value))
            continue
        values = _canonical(flat(value), canonical)
        found.append(values[0] if values else None)
        if len(values) > 1:
            many[at] = values
    return Column(found, many)


def _canonical(values: Iterable[Any], canonical: Any) -> list[Canonical]:
    return [value for value in map(canonical, values) if value is not None]


def _texts(raw: list[Any], types: set[type], *, lowercase: bool) -> list[Any] | None:
    if types == {str}:
        return list(map(str.lower, raw)) if lowercase else raw
    if types == {str, _NONE}:
        return [None if text is None else text.lower() for text in raw] if lowercase else raw
    return None


def _dates(raw: list[Any], types: set[type]) -> list[Any] | None:
    if types == {str}:
        return _usual_dates(raw) or list(map(date_ns, raw))
    if types == {str, _NONE}:
        return [None if text is None else date_ns(text) for text in raw]
    if types <= {int, _NONE}:
        return [None if value is None else milliseconds_ns(value) for value in raw]
    return None


def _usual_dates(raw: list[Any]) -> list[Any] | None:
    """What programs write, all at once; None if anything else is among it."""
    try:
        texts = pa.array(raw, pa.string())
        if not pc.all(pc.match_substring_regex(texts, _USUAL)).as_py():
            return None
        return list(texts.cast(pa.timestamp("ns", "UTC")).cast(pa.int64()).to_pylist())
    except (pa.ArrowException, UnicodeEncodeError):  # no such day, a year beyond 64 bits, or no Unicode
        return None


def _numbers(kind: Kind, raw: list[Any], types: set[type]) -> list[Any] | None:
    """Values as orjson reads them: integers of 64 bits and finite doubles are canonical as they are, but for -0.0."""
    if kind is Kind.BOOL:
        return raw if types <= {bool, _NONE} else None
    if kind is Kind.INTEGER:
        return raw if types <= {int, _NONE} else None
    if types == {float}:
        return [value + 0.0 for value in raw]
    if types <= {int, float, _NONE}:
        return [None if value is None else float(value) + 0.0 for value in raw]
    return None
