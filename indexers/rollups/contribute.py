"""What entries contribute to a rollup: the one meaning of `search.rollups`, for builders and for recounts alike.

A record contributes when it is an object, the rollup's `include` takes it, its timestamp field has exactly one value,
each dimension has at most one, and every measure can be computed: a `summary` needs exactly one value of its field, a
`summary_parts` all four numbers. Values are canonical ones: null, and what the field cannot read, are no values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indexers.intervals import INTERVAL_MS_MAX
from indexers.records import Column, Table, milliseconds
from indexers.rollups.parts import Counted, Measure, Part, Parts, Summarised
from search.language import Matcher, canonicalizer, exact_text, matcher, query
from search.language.dates import MS_NS
from streams_node.schema.search_config import Binding, Count, Field, Kind, Rollup, SearchConfig, Summary, SummaryParts

_number: Callable[[object], Any] = canonicalizer(Field(name="number", kind=Kind.FLOAT, bindings=(Binding(1, ""),)))
_FEW = 1024  # distinct values of a dimension whose texts are remembered


@dataclass(frozen=True, slots=True)
class Measured:
    """A measure of each record: the columns that it consists of, and which records it cannot be computed for."""

    columns: tuple[Any, ...]
    make: Callable[..., Measure]
    missing: frozenset[int]


class Contributor:
    """A rollup of a configuration, compiled."""

    def __init__(self, rollup: Rollup, config: SearchConfig, version: int) -> None:
        self.rollup = rollup
        self._config = config
        self._include = _matcher(rollup.include, config, version)
        counts = {name: each.include for name, each in rollup.measures.items() if isinstance(each, Count)}
        self._taken = {name: _matcher(include, config, version) for name, include in counts.items()}
        self._texts: dict[str, dict[Any, str]] = {name: {} for name in rollup.dimensions}

    def part(self, table: Table, streams: Sequence[int]) -> Part | None:
        """What the records of a table contribute; None when nothing does."""
        times = table.column(self._config.fields[self.rollup.timestamp_field])
        out = _without_one(times)
        dimensions = [table.column(self._config.fields[name]) for name in self.rollup.dimensions]
        for column in dimensions:
            out.update(column.many)
        if self._include is not None:
            out.update(at for at, record in enumerate(table.records) if not self._include(record))
        measures = {name: self._measured(name, table) for name in self.rollup.measures}
        for measured in measures.values():
            out |= measured.missing
        kept = None if not out else [at for at in range(len(table)) if at not in out]
        if kept == [] or not len(table):
            return None
        return Part(
            stream=_column(_taken(streams, kept)),
            rollup=self.rollup.name,
            intervals=[each.ms for each in self.rollup.intervals if each.ms <= INTERVAL_MS_MAX],
            times=_milliseconds(times, kept),
            dimensions=[
                self._spelled(name, column, kept)
                for name, column in zip(self.rollup.dimensions, dimensions, strict=True)
            ],
            measures={
                name: each.make(*(_taken(column, kept) for column in each.columns)) for name, each in measures.items()
            },
        )

    def _spelled(self, name: str, column: Column, kept: list[int] | None) -> Any:
        """The exact texts of values. A dimension has few distinct ones."""
        kind = self._config.fields[name].kind
        array = column.array(kind)
        if array is None:
            values = _taken(column.values, kept)
            return values if kind is Kind.KEYWORD else self._texts_of(name, kind, values)
        array = _taken(array, kept)
        if kind is Kind.KEYWORD:
            return array
        encoded = array.dictionary_encode(null_encoding="encode")
        texts = pa.array(self._texts_of(name, kind, encoded.dictionary.to_pylist()), pa.string())
        return pa.DictionaryArray.from_arrays(encoded.indices, texts)

    def _texts_of(self, name: str, kind: Kind, values: Sequence[Any]) -> list[str | None]:
        texts = self._texts[name]
        found: list[str | None] = []
        for value in values:
            text = None if value is None else texts.get(value)
            if text is None and value is not None:
                text = exact_text(kind, value)
                if len(texts) < _FEW:
                    texts[value] = text
            found.append(text)
        return found

    def _measured(self, name: str, table: Table) -> Measured:
        measure = self.rollup.measures[name]
        if isinstance(measure, Count):
            taken = self._taken[name]
            if taken is None:
                return Measured((), Counted, frozenset())
            return Measured(([float(taken(record)) for record in table.records],), Counted, frozenset())
        if isinstance(measure, Summary):
            field = self._config.fields[measure.field]
            column, histogram = table.column(field), measure.histogram
            values = column.array(field.kind)
            if values is None:
                values = [None if value is None else float(value) for value in column.values]
            else:
                values = values.cast(pa.float64(), safe=False)  # the nearest double, as Python takes it
            return Measured(
                (values,), lambda kept: Summarised(kept, histogram=histogram), frozenset(_without_one(column))
            )
        return _parts(measure, table)


def _parts(measure: SummaryParts, table: Table) -> Measured:
    pointers = (measure.count, measure.sum, measure.min, measure.max)
    columns = [[_number(value) for value in table.at(pointer)] for pointer in pointers]
    missing = {at for column in columns for at, value in enumerate(column) if value is None}
    if measure.histogram is not None:
        columns.append([_histogram(value) for value in table.at(measure.histogram)])
    return Measured(tuple(columns), Parts, frozenset(missing))


def _histogram(value: object) -> Mapping[str, float]:
    if not isinstance(value, dict):
        return {}
    counted = ((name, _number(each)) for name, each in value.items())
    return {name: each for name, each in counted if each is not None}


def _without_one(column: Column) -> set[int]:
    """Records that have no value, or several."""
    found = set(column.many)
    if column.present() < len(column):
        found.update(pc.indices_nonzero(pc.invert(column.known())).to_pylist())
    return found


def _milliseconds(times: Column, kept: list[int] | None) -> Any:
    array = times.array(Kind.DATE)
    if array is None:
        return [ns // MS_NS for ns in _taken(times.values, kept)]
    return milliseconds(_taken(array, kept))


def _taken(values: Any, kept: list[int] | None) -> Any:
    """Of an array or a list."""
    if kept is None:
        return values
    return values.take(pa.array(kept)) if isinstance(values, pa.Array) else [values[at] for at in kept]


def _column(streams: Sequence[int]) -> Any:
    """One number where they are all of one stream."""
    return streams[0] if streams[0] == streams[-1] and len(set(streams)) == 1 else list(streams)


def _matcher(text: str | None, config: SearchConfig, version: int) -> Matcher | None:
    return None if text is None else matcher(query(text, config), version)
