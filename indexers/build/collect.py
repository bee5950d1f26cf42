"""What each family collects of batches, until there is a file of it. One class a family; all have the same functions.

begin(made)             the batches that follow are of this object
add(batch, records)     take in what the family needs of them
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from indexers import companion, exact, lexicon, metrics, rollups
from indexers.build.batches import Batch
from indexers.build.made import Made, Place
from indexers.messages import Cover
from indexers.plan import exact_fields
from indexers.records import Subject, Table
from indexers.rollups.contribute import Contributor
from search.language import exact_text
from search.language.dates import MS_NS
from streams_node.schema.search_config import Field, Kind, SearchConfig

WRITERS_MAX = 4  # companions with memory of their own; one that rests costs files only
_PLAIN_FLOATS = 1e-4, 1e16  # where Python spells a double as JavaScript does, up to a final `.0`


class Records(NamedTuple):
    """The records of a batch, and which entries they are."""

    subject: Subject
    table: Table
    streams: list[int]
    seqs: list[int]
    times: list[int]
    skipped: Sequence[int]


class Keys:
    """The lexicon: needs no records."""

    def __init__(self) -> None:
        self._objects: list[tuple[str, list[Any]]] = []

    def begin(self, made: str) -> None:
        self._objects.append((made, []))

    def add(self, batch: Batch, _: Records | None = None) -> None:
        self._objects[-1][1].append(batch.table.select(["stream", "key"]))

    def finish(self, place: Place, covers: Sequence[Cover]) -> Made:
        return place.holds(lexicon.build(self._objects, place.path), covers)


class Values:
    """The exact index."""

    def __init__(self) -> None:
        self._objects: list[tuple[str, list[Any]]] = []
        self._fields: dict[int, list[Field]] = {}

    def begin(self, made: str) -> None:
        self._objects.append((made, []))

    def add(self, batch: Batch, records: Records) -> None:
        fields = self._fields.get(batch.meaning)
        if fields is None:
            fields = self._fields[batch.meaning] = _exact_fields(records.subject.search)
        self._objects[-1][1].extend(_counted(field, batch, records) for field in fields)

    def finish(self, place: Place, covers: Sequence[Cover]) -> Made:
        built = exact.build(self._objects, place.path)
        return place.holds(built.written, covers, built.filter)


class Windows:
    """Rollups."""

    def __init__(self) -> None:
        self._objects: list[tuple[str, list[Any]]] = []
        self._contributors: dict[int, list[Contributor]] = {}

    def begin(self, made: str) -> None:
        self._objects.append((made, []))

    def add(self, batch: Batch, records: Records) -> None:
        known = self._contributors.get(batch.meaning)
        if known is None:
            known = self._contributors[batch.meaning] = _contributors(records.subject)
        parts = [each.part(records.table, records.streams) for each in known]
        self._objects[-1][1].extend(rollups.cells_of(part for part in parts if part is not None))

    def finish(self, place: Place, covers: Sequence[Cover]) -> Made:
        return place.holds(rollups.build(self._objects, place.path), covers)


class Blocks:
    """Metric blocks."""

    def __init__(self) -> None:
        self._objects: list[tuple[str, list[Any]]] = []

    def begin(self, made: str) -> None:
        self._objects.append((made, []))

    def add(self, _: Batch, records: Records) -> None:
        found: list[Any] = list(records.table.records)
        for at in records.skipped:
            found[at] = None
        self._objects[-1][1].append(metrics.rows_of(records.streams, records.seqs, records.times, found))

    def finish(self, place: Place, covers: Sequence[Cover]) -> Made:
        return place.holds(metrics.build(self._objects, place.path), covers)


class Companions:
    """Text companions, one a configuration."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._objects: list[str] = []
        self._writers: dict[str, companion.Writer] = {}
        self._awake: list[str] = []  # configurations, the last one used last

    def begin(self, made: str) -> None:
        self._objects.append(made)

    def add(self, _: Batch, records: Records) -> None:
        config = records.subject.configs["companion"]
        self._wake(config, records.subject.search).add(records.streams, records.seqs, records.times, records.table)

    def rest(self) -> None:
        """What Tantivy has left to do: of its own, and it waits for the disk, so others may go on beside it."""
        for writer in self._writers.values():
            writer.rest()

    def finish(self, place: Place, config: str, covers: Sequence[Cover]) -> Made:
        writer = self._writers.pop(config)
        return place.holds(writer.finish(place.path, self._objects, covers), covers)

    def _wake(self, config: str, search: SearchConfig | None) -> companion.Writer:
        if config in self._awake:
            self._awake.remove(config)
        elif len(self._awake) == WRITERS_MAX:
            self._writers[self._awake.pop(0)].rest()
        self._awake.append(config)
        if config not in self._writers:
            layout = companion.Layout({} if search is None else search.fields)
            folder = self._folder / f"writer-{len(self._writers)}-{config}"
            self._writers[config] = companion.Writer(config, layout, folder)
        return self._writers[config]


def _exact_fields(search: SearchConfig | None) -> list[Field]:
    return [] if search is None else [search.fields[name] for name in exact_fields(search)]


def _contributors(subject: Subject) -> list[Contributor]:
    search = subject.search
    found: Mapping[str, Any] = {} if search is None else search.rollups
    return [Contributor(rollup, search, subject.version) for rollup in found.values() if search is not None]


def _counted(field: Field, batch: Batch, records: Records) -> Any:
    """All values of a field, counted. As binary: text may hold what UTF-8 does not."""
    column = records.table.column(field)
    streams, array = batch.table.column("stream").combine_chunks(), column.array(field.kind)
    if array is not None:
        return exact.counted(streams, field.name, _spelled(field.kind, array))
    values = _texts(field.kind, column.values)
    if column.many:
        extra = [(records.streams[at], value) for at, found in column.many.items() for value in found[1:]]
        values = [*values, *_texts(field.kind, [value for _, value in extra])]
        streams = pa.concat_arrays([streams, pa.array([stream for stream, _ in extra], pa.int64())])
    return exact.counted(streams, field.name, _binary(values))


def _spelled(kind: Kind, values: Any) -> Any:
    """`exact_text` of an array, as binary; what Arrow spells in another way, once for each distinct value."""
    if kind is Kind.FLOAT or kind is Kind.DATE:
        encoded = values.dictionary_encode()
        return _binary(_texts(kind, encoded.dictionary.to_pylist())).take(encoded.indices)
    return values.cast(pa.string()).cast(pa.binary())


def _binary(texts: list[str | None]) -> Any:
    try:
        return pa.array(texts, pa.string()).cast(pa.binary())
    except (UnicodeEncodeError, pa.ArrowException):
        return pa.array([None if text is None else exact.utf8(text) for text in texts], pa.binary())


def _texts(kind: Kind, values: list[Any]) -> list[str | None]:
    """`exact_text` of each value; the usual ones without the call."""
    if kind is Kind.KEYWORD:
        return values
    spell = _SPELL.get(kind)
    if spell is None:
        return [None if value is None else exact_text(kind, value) for value in values]
    return [None if value is None else spell(value) for value in values]


def _float_text(value: float) -> str:
    if _PLAIN_FLOATS[0] <= abs(value) < _PLAIN_FLOATS[1]:
        return repr(value).removesuffix(".0")
    return exact_text(Kind.FLOAT, value)


def _date_text(value: int) -> str:
    ms, rest = divmod(value, MS_NS)
    return str(ms) if not rest else exact_text(Kind.DATE, value)


_SPELL: dict[Kind, Callable[[Any], str]] = {Kind.FLOAT: _float_text, Kind.DATE: _date_text, Kind.INTEGER: str}
