"""A column of canonical values a field, over many records at once.

Most columns hold values of one type only. Arrow sees that while it takes them, and then a whole column is made without
a call for each value; anything else goes the way of the evaluator, value by value.
"""

from collections.abc import Iterable
from functools import cached_property
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indexers.records.documents import Documents
from search.language import Canonical, canonicalizer
from search.language.dates import MS_NS, date_ns, milliseconds_ns
from search.language.pointers import flat, getter, segments
from streams_node.schema.search_config import Field, Kind

_NONE = type(None)
_TEXTS = (Kind.KEYWORD, Kind.TEXT)
_ARROW = {
    Kind.KEYWORD: pa.string(), Kind.TEXT: pa.string(), Kind.FLOAT: pa.float64(), Kind.BOOL: pa.bool_(),
    Kind.INTEGER: pa.int64(), Kind.DATE: pa.int64(),
}  # fmt: skip
_USUAL = r"^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?Z$"


class Column:
    """What the records have in a field: one value, or None, each; those with several values are in `many`."""

    def __init__(self, values: list[Any] | None, many: dict[int, list[Canonical]], array: Any = None) -> None:
        self._values = values
        self.many = many
        self._array = array

    def __len__(self) -> int:
        return len(self._array if self._values is None else self._values)

    @cached_property
    def values(self) -> list[Any]:
        return list(self._array.to_pylist()) if self._values is None else self._values

    def array(self, kind: Kind) -> Any:
        """The values of a field of this kind as Arrow has them: text, doubles, truths, integers of 64 bits.

        None where there is no such array: several values, integers beyond 64 bits, text that is not Unicode.
        """
        if self.many:
            return None
        if self._array is None:
            try:
                self._array = pa.array(self.values, _ARROW[kind])
            except (pa.ArrowException, UnicodeEncodeError, OverflowError):
                return None
        return self._array

    def of(self, at: int) -> list[Canonical]:
        """All values of one record."""
        found = self.many.get(at)
        if found is not None:
            return found
        value = self.values[at]
        return [] if value is None else [value]

    def known(self) -> Any:
        """Whether each record has a value, as Arrow has it."""
        if self._array is not None:
            return pc.is_valid(self._array)
        return pa.array([value is not None for value in self.values])

    def present(self) -> int:
        """Records with a value."""
        if self._array is not None:
            return len(self._array) - int(self._array.null_count)
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
        self._documents = documents
        self._version = version
        self._columns: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self._documents)

    @property
    def records(self) -> list[Any]:
        return self._documents.records

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
            return Column([None] * len(self), {})
        read = self._documents.arrays.get(pointer)
        if read is not None:
            return self._known(field, read)
        raw = self.at(pointer)
        if field.kind in _TEXTS and not field.lowercase:
            array = _arrow(raw, pa.string())
            if array is not None:
                return Column(raw, {}, array)
        types = set(map(type, raw))
        if list in types:
            return _mixed(field, raw)
        return self._single(field, raw, types)

    def _known(self, field: Field, read: Any) -> Column:
        """What Arrow has read: at most one value a record, of the usual type."""
        if field.kind is Kind.FLOAT:
            return Column(None, {}, pc.add(read, 0.0))  # -0.0 becomes 0.0
        made = _usual_dates(read) if field.kind is Kind.DATE else None if field.lowercase else read
        if made is not None:
            return Column(None, {}, made)
        raw = read.to_pylist()
        return self._single(field, raw, set(map(type, raw)))

    def _single(self, field: Field, raw: list[Any], types: set[type]) -> Column:
        """At most one value a record."""
        if types <= {_NONE}:
            return Column(raw, {})
        made: list[Any] | None = None
        if field.kind in _TEXTS:
            made = _texts(raw, types, lowercase=field.lowercase)
        elif field.kind is Kind.DATE:
            usual = _usual_dates(raw) if types <= {str, _NONE} else None
            if usual is not None:
                return Column(None, {}, usual)
            made = _dates(raw, types)
        elif self._documents.plain:
            if field.kind is Kind.FLOAT and types <= {int, float, _NONE}:
                array = _arrow(raw, pa.float64())
                if array is not None:
                    return Column(None, {}, pc.add(array, 0.0))  # -0.0 becomes 0.0
            made = _numbers(field.kind, raw, types)
        return Column(list(map(canonicalizer(field), raw)) if made is None else made, {})


def _arrow(raw: list[Any], kind: Any) -> Any:
    """None where values of other types are among them, or text that is not Unicode."""
    try:
        return pa.array(raw, kind)
    except (pa.ArrowException, UnicodeEncodeError, OverflowError):
        return None


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
    if types <= {str, _NONE}:
        return [None if text is None else date_ns(text) for text in raw]
    if types <= {int, _NONE}:
        return [None if value is None else milliseconds_ns(value) for value in raw]
    return None


def _usual_dates(raw: Any) -> Any:
    """What programs write, all at once, as nanoseconds; None if anything else is among it."""
    try:
        texts = raw if isinstance(raw, pa.Array) else pa.array(raw, pa.string())
        if not pc.all(pc.match_substring_regex(texts, _USUAL)).as_py():
            return None
        return texts.cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
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


def milliseconds(ns: Any) -> Any:
    """Of an array of nanoseconds: a time between two milliseconds belongs to the earlier one."""
    whole = pc.divide(ns, MS_NS)  # towards zero
    return pc.subtract(whole, pc.less(ns, pc.multiply(whole, MS_NS)).cast(pa.int64()))
