"""Sort keys, their values, and `search_after`.

Keeps    a value that is missing is the greatest: last when ascending, first when descending. Of several values the
         first counts. The offset is always among the keys, so no two hits are equal, and a page after a hit neither
         skips nor repeats one.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from operator import itemgetter
from typing import Any, Literal, NoReturn, TypeVar

from typing_extensions import override

from search.language import Canonical, Plan, canonicalizer, exact_text, has_text
from streams_node.schema.search_config import Field, Kind, SearchConfig

SortValue = Canonical | None
_Row = TypeVar("_Row", bound=Sequence[SortValue])
_DOUBLE_EXACT = 2**53
_MS_NS = 1_000_000
_DATE = re.compile(r"(-?)([0-9]{1,16})(?:\.([0-9]{1,6}))?", re.ASCII)


class SortError(ValueError):
    """Of `sort` or `search_after`, to be shown to the client."""


@dataclass(frozen=True, slots=True)
class SortKey:
    by: Literal["field", "score", "offset"]
    descending: bool = True
    field: Field | None = None


def sort_of(raw: Sequence[str] | None, plan: Plan, config: SearchConfig) -> tuple[SortKey, ...]:
    """The effective keys: what was asked for, or the default for such a query; the offset last."""
    return _keys(tuple(raw or ()), config, by_score=not raw and has_text(plan))


@lru_cache(256)
def _keys(raw: tuple[str, ...], config: SearchConfig, *, by_score: bool) -> tuple[SortKey, ...]:
    keys = [_key(each, config) for each in raw]
    if by_score:
        primary = config.resolve(config.primary_timestamp_field)
        keys = [SortKey("score"), *([SortKey("field", field=primary)] if primary else [])]
    if not any(key.by == "offset" for key in keys):
        keys.append(SortKey("offset"))
    return tuple(keys[: next(at for at, key in enumerate(keys) if key.by == "offset") + 1])


def _key(text: str, config: SearchConfig) -> SortKey:
    name, colon, direction = text.strip().rpartition(":")
    if not colon:
        name, direction = text.strip(), "desc"
    if not name:
        raise SortError("sort entries must not be empty")
    if direction not in {"asc", "desc"}:
        raise SortError(f"invalid sort direction for {name}")
    descending = direction == "desc"
    if name == "_score":
        return SortKey("score", descending)
    if name == "offset":
        return SortKey("offset", descending)
    field = config.resolve(name)
    if field is None:
        raise SortError(f"unknown sort field {name}")
    if not field.sortable and field.name != config.primary_timestamp_field:
        raise SortError(f"search field {name} is not sortable")
    return SortKey("field", descending, field)


def after_of(raw: Sequence[object], keys: Sequence[SortKey], seq_of: Callable[[str], int]) -> tuple[SortValue, ...]:
    """The place to go on from. `seq_of` reads an offset, and raises ValueError for what is none.

    What is missing at the end is null, and null is the greatest value; anything that cannot be read is an error.
    """
    if len(raw) > len(keys):
        raise SortError(f"search_after has {len(raw)} elements, the sort has {len(keys)}")
    padded = [*raw, *[None] * (len(keys) - len(raw))]
    return tuple(_after(each, key, seq_of) for each, key in zip(padded, keys, strict=True))


def _after(raw: object, key: SortKey, seq_of: Callable[[str], int]) -> SortValue:
    if raw is None:
        return None
    if key.by == "offset":
        return _seq(raw, key, seq_of)
    if key.by == "score":
        if not isinstance(raw, int | float) or isinstance(raw, bool):
            _bad(key)
        return float(raw)
    assert key.field is not None  # noqa: S101 - a key is of a field otherwise
    value = _date(raw) if key.field.kind is Kind.DATE else canonicalizer(key.field)(raw)
    if value is None:
        _bad(key)
    return value


def _seq(raw: object, key: SortKey, seq_of: Callable[[str], int]) -> int:
    if not isinstance(raw, str):
        _bad(key)
    try:
        return seq_of(raw)
    except ValueError:
        _bad(key)


def _date(raw: object) -> int | None:
    """Milliseconds; as a string they may have six digits of a fraction."""
    if isinstance(raw, str):
        found = _DATE.fullmatch(raw)
        if found is None:
            return None
        sign, whole, fraction = found.groups()
        return (-1 if sign else 1) * (int(whole) * _MS_NS + int((fraction or "").ljust(6, "0")))
    return int(raw) * _MS_NS if isinstance(raw, int) and not isinstance(raw, bool) else None


def _bad(key: SortKey) -> NoReturn:
    name = key.field.name if key.field is not None else {"score": "_score"}.get(key.by, key.by)
    raise SortError(f"search_after element for {name} cannot be read")


def shower(keys: Sequence[SortKey]) -> Callable[[Sequence[SortValue], str], list[object]]:
    """(values, the hit's offset) -> the `sort` of a hit as JSON: what `after_of` reads back to the same values.

    Dates are milliseconds: a number, or a string where they have a fraction; so are integers that no double holds.
    """
    if len(keys) == 1 and keys[0].by == "offset":
        return lambda _values, offset: [offset]
    kinds = [(key.by == "offset", key.field is not None and key.field.kind is Kind.DATE) for key in keys]

    def shown(values: Sequence[SortValue], offset: str) -> list[object]:
        return [
            None if value is None else offset if is_offset else _shown(value, is_date=is_date)
            for value, (is_offset, is_date) in zip(values, kinds, strict=True)
        ]

    return shown


def _shown(value: Canonical, *, is_date: bool) -> object:
    if is_date:
        whole, rest = divmod(int(value), _MS_NS)
        return exact_text(Kind.DATE, value) if rest else whole
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _DOUBLE_EXACT:
        return str(value)
    return value


# --- order ----------------------------------------------------------------------------------------------------------


@total_ordering
class _Reversed:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.value == other.value)

    def __lt__(self, other: "_Reversed") -> bool:
        return bool(other.value < self.value)

    __hash__ = None  # type: ignore[assignment]


Place = tuple[Any, ...]


def place_of(keys: Sequence[SortKey]) -> Callable[[Sequence[SortValue]], Place]:
    """The function from sort values to what sorts as the hits do, ascending."""
    parts = [_descending if key.descending else _ascending for key in keys]
    if len(parts) == 1:
        (only,) = parts
        return lambda values: (only(values[0]),)
    if len(parts) == 2:  # noqa: PLR2004 - mostly there are so few, and each hit has its place
        first, second = parts
        return lambda values: (first(values[0]), second(values[1]))
    if len(parts) == 3:  # noqa: PLR2004
        first, second, third = parts
        return lambda values: (first(values[0]), second(values[1]), third(values[2]))
    return lambda values: tuple([part(value) for part, value in zip(parts, values, strict=True)])


def _ascending(value: SortValue) -> Place:
    return (1,) if value is None else (0, value)


def _descending(value: SortValue) -> Place:
    if value is None:
        return (0,)
    return (1, _Reversed(value) if isinstance(value, str) else -value)


def ordered(rows: Iterable[_Row], keys: Sequence[SortKey]) -> list[_Row]:
    """Rows of sort values in the order of their places: by one key after the other, the last one first.

    Sorting keeps equal values as they are, and compares plain values ten times faster than places: a common word has
    very many documents of one score.
    """
    found = list(rows)
    for at in reversed(range(len(keys))):
        if None in map(itemgetter(at), found):
            found.sort(key=lambda row, at=at: (row[at] is None, row[at]), reverse=keys[at].descending)  # type: ignore[misc]
        else:
            found.sort(key=itemgetter(at), reverse=keys[at].descending)
    return found
