"""Counts entries for an aggregation, many at a time. In threads only: it loads pyarrow."""

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from indexers.records import Column, Documents, Table
from search.language import matcher
from search.language.dates import MS_NS
from streams_node.errors import BadSearch
from streams_node.schema.search_config import Field, Kind
from streams_node.searching.tallies.parts import Bucket, Buckets, Key, Part, Spread, Sums
from streams_node.searching.tallies.wanted import TOO_MANY, Asked, DateHistogram, Percentiles, Stats, Terms, Wanted

Tally = tuple[int, dict[str, Part]]  # how many match, and what they add up to
_Rows = Sequence[int] | None  # of a table; None: all of them
_BUCKETS_MAX = 400_000  # some 200 MB: more than an answer may have, as terms are found that are not shown


class _Room:
    """For buckets of one answer in the making."""

    def __init__(self) -> None:
        self._left = _BUCKETS_MAX

    def take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise BadSearch(TOO_MANY)


class RecordTally:
    """Counts entries, for one aggregation. One thread at a time."""

    def __init__(self, asked: Asked) -> None:
        self._version = asked.meaning.version
        self._matches = None if asked.plan is None else matcher(asked.plan, self._version)
        self._wanted = asked.wanted
        self._room = _Room()

    def counted(self, records: list[Any], *, plain: bool) -> Tally | None:
        """What these records add up to; None when none of them matches."""
        kept = [record if record.__class__ is dict else {} for record in records]
        if self._matches is not None:
            kept = list(filter(self._matches, kept))
        if not kept:
            return None
        table = Table(Documents(kept, [], plain), self._version)
        return len(kept), _parts(self._wanted, table, None, self._room)


def _parts(wanted: Mapping[str, Wanted], table: Table, rows: _Rows, room: _Room) -> dict[str, Part]:
    return {name: _part(each, table, rows, room) for name, each in wanted.items()}


def _part(wanted: Wanted, table: Table, rows: _Rows, room: _Room) -> Part:
    column = table.column(wanted.field)
    match wanted:
        case Terms(field, _, inside):
            return _buckets(column, _key_of(field), inside, table, rows, room)
        case DateHistogram(_, interval, inside):
            return _buckets(column, lambda ns: ns // MS_NS // interval * interval, inside, table, rows, room)
        case Stats(field):
            return _sums(_values(field, column, rows))
        case Percentiles(field, _):
            return Spread(array("d", _values(field, column, rows)))


def _buckets(
    column: Column, key_of: Callable[[Any], Key] | None, inside: Mapping[str, Wanted], table: Table, rows: _Rows,
    room: _Room,
) -> Buckets:  # fmt: skip
    """An entry counts once in each bucket that it has a value in."""
    if not inside and rows is None and not column.many:
        keys = [value if key_of is None else key_of(value) for value in column.values if value is not None]
        counts = Counter(keys)
        room.take(len(counts))
        return Buckets({key: Bucket(n) for key, n in counts.items()})
    groups: dict[Key, list[int]] = {}
    for at in range(len(table)) if rows is None else rows:
        for key in {each if key_of is None else key_of(each) for each in column.of(at)}:
            groups.setdefault(key, []).append(at)
    room.take(len(groups))
    return Buckets({key: Bucket(len(found), _parts(inside, table, found, room)) for key, found in groups.items()})


def _key_of(field: Field) -> Callable[[Any], Key] | None:
    if field.kind is Kind.DATE:
        return lambda ns: int(ns // MS_NS)
    return None


def _values(field: Field, column: Column, rows: _Rows) -> list[float]:
    """All values of these rows as doubles; times are milliseconds."""
    if rows is None:
        found = [value for value in column.flat() if value is not None]
    elif column.many:
        found = [value for at in rows for value in column.of(at)]
    else:
        found = [column.values[at] for at in rows if column.values[at] is not None]
    return [float(value // MS_NS) for value in found] if field.kind is Kind.DATE else list(map(float, found))


def _sums(values: Sequence[float]) -> Sums:
    return Sums(len(values), sum(values), min(values), max(values)) if values else Sums()
