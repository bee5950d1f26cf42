"""Which entries a query can want at most: what its conditions say of names, sequences, times and keys.

Keeps    a condition is taken from Spark only if it is decided here exactly; all others are left to Spark.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

if TYPE_CHECKING:
    from spark_index.source.catalogue import Stream

END = 1 << 62
_NEVER_NULL = {"bucket", "stream", "incarnation", "seq", "offset", "append_ts", "schema_version", "payload"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Wanted(NamedTuple):
    """Bounds are [first, end); `keys` None is all entries, also those without a key."""

    names: tuple[tuple[str, Any], ...] = ()  # (`bucket`, `stream` or `incarnation`; its values, or a prefix)
    first_seq: int = 0
    end_seq: int = END
    first_us: int = -END
    end_us: int = END
    keys: frozenset[str] | None = None
    keyed: bool = False  # entries without a key are not wanted

    def stream(self, stream: "Stream") -> bool:
        values = {"bucket": stream.bucket, "stream": stream.name, "incarnation": stream.id}
        return all(
            values[column] in allowed if isinstance(allowed, frozenset) else str(values[column]).startswith(allowed)
            for column, allowed in self.names
        )

    @property
    def prunes_rows(self) -> bool:
        """Whether some row groups of an object may hold nothing of it."""
        return self.first_us > -END or self.end_us < END or self.keys is not None or self.keyed


def take(filters: Iterable[Filter]) -> tuple[Wanted, list[Filter]]:
    """What the conditions want, and those that are not decided here."""
    wanted, left = Wanted(), []
    for each in filters:
        narrowed = _narrowed(wanted, each)
        if narrowed is None:
            left.append(each)
        else:
            wanted = narrowed
    return wanted, left


def _narrowed(wanted: Wanted, condition: Filter) -> Wanted | None:
    attribute: Any = getattr(condition, "attribute", ())
    column = attribute[0] if len(attribute) == 1 else None
    if isinstance(condition, IsNotNull):
        if column == "key":
            return wanted._replace(keyed=True)
        return wanted if column in _NEVER_NULL else None
    if column in {"bucket", "stream", "incarnation"}:
        return _named(wanted, column, condition)
    if column == "key":
        values = _values(condition, str)
        if values is None:
            return None
        return wanted._replace(keys=values if wanted.keys is None else wanted.keys & values)
    if column == "seq":
        bounds = _bounds(condition, lambda value: value if type(value) is int else None)
        return bounds and wanted._replace(
            first_seq=max(wanted.first_seq, bounds[0]), end_seq=min(wanted.end_seq, bounds[1])
        )
    if column == "append_ts":
        bounds = _bounds(condition, _micros)
        return bounds and wanted._replace(
            first_us=max(wanted.first_us, bounds[0]), end_us=min(wanted.end_us, bounds[1])
        )
    return None


def _named(wanted: Wanted, column: str, condition: Filter) -> Wanted | None:
    if isinstance(condition, StringStartsWith) and column != "incarnation":
        return wanted._replace(names=(*wanted.names, (column, condition.value)))
    values = _values(condition, int if column == "incarnation" else str)
    return None if values is None else wanted._replace(names=(*wanted.names, (column, values)))


def _values(condition: Filter, kind: type) -> frozenset[Any] | None:
    if isinstance(condition, EqualTo):
        values: tuple[Any, ...] = (condition.value,)
    elif isinstance(condition, In):
        values = tuple(value for value in condition.value if value is not None)  # nothing is equal to null
    else:
        return None
    return frozenset(values) if all(type(value) is kind for value in values) else None


def _bounds(condition: Filter, number: Callable[[Any], int | None]) -> tuple[int, int] | None:
    value = number(getattr(condition, "value", None))
    if value is None:
        return None
    match condition:
        case EqualTo():
            return value, value + 1
        case GreaterThan():
            return value + 1, END
        case GreaterThanOrEqual():
            return value, END
        case LessThan():
            return -END, value
        case LessThanOrEqual():
            return -END, value + 1
    return None


def _micros(value: Any) -> int | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None  # whose midnight it is only Spark knows
    return (value - _EPOCH) // timedelta(microseconds=1)
