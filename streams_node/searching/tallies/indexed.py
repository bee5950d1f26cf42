"""Asks the view: what is wanted as the engine understands it, and what it says as parts. In threads only: it loads
Tantivy.
"""

from collections.abc import Mapping
from typing import Any

from search import engine
from streams_node.searching.tallies.parts import Bucket, Buckets, Part, Spread, Sums
from streams_node.searching.tallies.wanted import DateHistogram, Percentiles, Stats, Terms, Wanted

LISTED_MAX = 60_000  # values of a field that an index lists; beyond it, the rarest are counted together
_STEP = 0.5  # per cent: how finely a curve is asked for, and how far beside the right rank a percentile may be
_NEAR = 10  # steps on both sides of a percentile that is near an end
_COUNT = "#count"


def asked_of(wanted: Mapping[str, Wanted]) -> dict[str, Any]:
    """What the engine is asked: all values of terms, as those of entries come to them."""
    found: dict[str, Any] = {}
    for name, each in wanted.items():
        match each:
            case Terms(field, _, inside):
                found[name] = engine.Terms(field, LISTED_MAX, asked_of(inside))
            case DateHistogram(field, interval, inside):
                found[name] = engine.DateHistogram(field, interval, 0, asked_of(inside))
            case Stats(field):
                found[name] = engine.Stats(field)
            case Percentiles(field, percents):
                found[name] = engine.Percentiles(field, _grid(percents))
                found[name + _COUNT] = engine.Stats(field)
    return found


def parts_of(wanted: Mapping[str, Wanted], said: Mapping[str, Any]) -> dict[str, Part]:
    """What the engine said."""
    return {name: _part(each, name, said) for name, each in wanted.items()}


def _part(wanted: Wanted, name: str, said: Mapping[str, Any]) -> Part:
    found = said[name]
    match wanted:
        case Stats():
            return _sums(found)
        case Percentiles():
            values = [(float(percent) / 100, value) for percent, value in found["values"].items() if value is not None]
            return Spread(indexed=said[name + _COUNT]["count"] if values else 0, curve=_rising(values))
        case Terms(_, _, inside):
            buckets = _buckets(found, inside)
            if found["other"]:
                least = min((bucket.count for bucket in buckets.values()), default=0)
                return Buckets(buckets, found["other"], least + found["error_bound"], found["error_bound"])
            return Buckets(buckets)
        case DateHistogram(_, _, inside):
            return Buckets(_buckets(found, inside))


def _buckets(found: Mapping[str, Any], inside: Mapping[str, Wanted]) -> dict[Any, Bucket]:
    return {each["key"]: Bucket(each["count"], parts_of(inside, each)) for each in found["buckets"]}


def _sums(said: Mapping[str, Any]) -> Sums:
    return Sums(said["count"], said["sum"], said["min"], said["max"]) if said["count"] else Sums()


def _grid(percents: tuple[float, ...]) -> tuple[float, ...]:
    """Percents of a curve: all along it, closer where the percents that are asked for are near an end, and these."""
    found = {at * _STEP for at in range(int(100 / _STEP) + 1)}
    for percent in percents:
        near = min(percent, 100 - percent) / _NEAR
        found |= {percent + at * near for at in range(-_NEAR, _NEAR + 1)} if near < _STEP else {percent}
    return tuple(sorted(percent for percent in found if 0 <= percent <= 100))  # noqa: PLR2004 - per cent


def _rising(values: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """A sketch says each percentile for itself."""
    found: list[tuple[float, float]] = []
    for share, value in sorted(values):
        found.append((share, max(value, found[-1][1]) if found else value))
    return tuple(found)
