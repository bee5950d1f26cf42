"""Aggregations are a recount of the records that match."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from indexers.companion import View
from search.engine import (
    AggregationTooLarge,
    DateHistogram,
    Entry,
    OneViewNeeded,
    Percentiles,
    Searcher,
    Stats,
    Tallied,
    Tally,
    Terms,
    TimeOver,
)
from search.engine.aggregate import Wanted, _cut
from search.language import Plan, matcher, query, values
from streams_node.schema.search_config import Kind
from tests.engine.test_pages import random_plan
from tests.engine.world import CONFIG, STREAM, World, built, pack, random_records

FIELDS = CONFIG.fields
MINUTE = 60_000
NONE = query('level:"none"', CONFIG)


def indexed_world(folder: Path, draw: random.Random, records: Sequence[object]) -> World:
    """Aggregations are of what is indexed, mini-companions among it."""
    for number in range(1000):
        world = built(folder / str(number), records, draw)
        if world.packs:
            for entry in world.tail:
                del world.records[entry.seq]
            return world
    raise AssertionError("no companion in a thousand worlds")


def tallied(world: World, plan: Plan | None, **wanted: Wanted) -> Tallied:
    tally = Tally(plan=plan, stream=STREAM, spans=world.spans, wanted=wanted, records=world.fetch)
    return Searcher(world.views, CONFIG, 1).aggregate(tally)


def held(name: str, record: object) -> list[Any]:
    """The values that the column holds."""
    field, found = FIELDS[name], values(FIELDS[name], 1)(record)
    if field.kind is Kind.DATE:
        return [int(value) // 10**6 for value in found]
    return [text for text in found if _held(str(text))]


def _held(text: str) -> bool:
    try:
        return len(text.encode()) <= 65_530
    except UnicodeEncodeError:
        return False


@pytest.mark.parametrize("seed", range(30))
def test_aggregations_are_a_recount(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    world = indexed_world(tmp_path, draw, [*random_records(draw), {"level": "x1", "eventTime": 5, "message": "card"}])
    for _ in range(5):
        plan = random_plan(draw)
        offset = draw.randrange(MINUTE)
        found = tallied(
            world, plan, levels=Terms(FIELDS["level"], size=100), truths=Terms(FIELDS["ok"]),
            days=DateHistogram(FIELDS["eventTime"], MINUTE, offset), durations=Stats(FIELDS["dur"]),
        )  # fmt: skip
        records = [record for record in world.records.values() if matcher(plan, 1)(record)]
        assert (found.matched, found.omitted) == (len(records), 0)
        levels = Counter(text for record in records for text in set(held("level", record)))
        truths = Counter(value for record in records for value in set(held("ok", record)))
        times = [held("eventTime", record) for record in records]
        days = Counter(ms for each in times for ms in {(ms - offset) // MINUTE * MINUTE + offset for ms in each})
        assert {each["key"]: each["count"] for each in found.values["truths"]["buckets"]} == truths
        assert {each["key"]: each["count"] for each in found.values["levels"]["buckets"]} == levels
        assert {each["key"]: each["count"] for each in found.values["days"]["buckets"]} == days
        durations = [value for record in records for value in held("dur", record)]
        stats = found.values["durations"]
        assert (stats["count"], stats["min"], stats["max"]) == (
            len(durations), min(durations, default=None), max(durations, default=None),
        )  # fmt: skip


def test_buckets_hold_aggregations(tmp_path: Path) -> None:
    records = [{"level": "a" if at % 3 else "b", "dur": at, "eventTime": at * 1000} for at in range(200)]
    world = indexed_world(tmp_path, random.Random(3), records)
    inside: dict[str, Wanted] = {
        "durations": Stats(FIELDS["dur"]),
        "minutes": DateHistogram(FIELDS["eventTime"], MINUTE),
    }
    found = tallied(world, None, levels=Terms(FIELDS["level"], inside=inside)).values["levels"]["buckets"]
    for bucket in found:
        every: list[Any] = list(world.records.values())
        chosen = [record for record in every if record["level"] == bucket["key"]]
        assert bucket["durations"]["sum"] == sum(record["dur"] for record in chosen)
        right = Counter(record["eventTime"] // MINUTE * MINUTE for record in chosen)
        assert {each["key"]: each["count"] for each in bucket["minutes"]["buckets"]} == right
    assert sum(bucket["count"] for bucket in found) == len(world.records)


def test_percentiles_are_within_a_hundredth_of_a_value(tmp_path: Path) -> None:
    draw = random.Random(5)
    world = indexed_world(tmp_path, draw, [{"dur": draw.lognormvariate(3, 2)} for _ in range(500)])
    found = tallied(world, None, d=Percentiles(FIELDS["dur"], (50.0, 90.0, 99.0))).values["d"]["values"]
    durations = sorted(record["dur"] for record in world.records.values())  # type: ignore[index]
    for percent, value in found.items():
        at = float(percent) / 100 * (len(durations) - 1)
        near = durations[max(0, int(at) - 1) : int(at) + 3]
        assert near[0] * 0.98 <= value <= near[-1] * 1.02


def test_nothing_is_a_result(tmp_path: Path) -> None:
    world = indexed_world(tmp_path, random.Random(2), [{"level": "a"}] * 10)
    found = tallied(
        world,
        NONE,
        s=Stats(FIELDS["dur"]),
        p=Percentiles(FIELDS["dur"]),
        t=Terms(FIELDS["level"]),
    ).values
    assert found["s"] == {"count": 0, "sum": 0.0, "min": None, "max": None, "avg": None}
    assert set(found["p"]["values"].values()) == {None}
    assert found["t"] == {"buckets": [], "other": 0, "error_bound": 0}


def test_too_many_buckets_are_refused(tmp_path: Path) -> None:
    entries = [Entry(seq, seq, {"eventTime": seq}) for seq in range(66_000)]
    view = View([pack(tmp_path, STREAM, entries)], tmp_path / "view")
    world = World([], [view], [(0, len(entries))], [], {}, [])
    with pytest.raises(AggregationTooLarge):
        tallied(world, None, d=DateHistogram(FIELDS["eventTime"], 1))


def test_several_views_and_no_time_are_refused(tmp_path: Path) -> None:
    world = indexed_world(tmp_path, random.Random(2), [{"level": "a"}] * 10)
    tally = Tally(plan=None, stream=STREAM, spans=[], wanted={}, records=world.fetch, over=lambda: True)
    with pytest.raises(OneViewNeeded):
        Searcher([*world.views, *world.views], CONFIG, 1).aggregate(tally)
    with pytest.raises(TimeOver):
        Searcher(world.views, CONFIG, 1).aggregate(tally)


def test_the_greatest_terms_of_a_view_are_exact(tmp_path: Path) -> None:
    """A term may be the first of none of its companions, and of all of them together."""
    packs = []
    for part in range(4):
        levels = ["all"] * 5 + [f"only{part}-{at}" for at in range(40) for _ in range(6)]
        entries = [Entry(part * 1000 + at, at, {"level": level}) for at, level in enumerate(levels)]
        packs.append(pack(tmp_path, STREAM, entries))
    world = World(packs, [View(packs, tmp_path / "view")], [(0, 4000)], [], {}, [])
    found = tallied(world, None, t=Terms(FIELDS["level"], size=1)).values["t"]
    assert found == {"buckets": [{"key": "all", "count": 20}], "other": 960, "error_bound": 0}


def test_windows_are_counted_before_anything_is_put_into_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(5)
    world = indexed_world(tmp_path, draw, random_records(draw, 200))
    at = FIELDS["eventTime"]
    inner: Wanted = DateHistogram(at, 1, inside={"deep": DateHistogram(at, 1, inside={"stats": Stats(at)})})
    wanted: dict[str, Wanted] = {"one": inner, "two": Stats(at), "three": DateHistogram(at, 1)}
    whole = tallied(world, None, **wanted)
    windows = len(whole.values["one"]["buckets"])
    deep = sum(len(each["deep"]["buckets"]) for each in whole.values["one"]["buckets"])
    assert windows == len(whole.values["three"]["buckets"]) > 3
    assert set(whole.values) == set(wanted)
    depths = list[int]()

    def cut(some: Wanted, depth: int) -> Wanted:
        if some is inner:
            depths.append(depth)
        return _cut(some, depth)

    monkeypatch.setattr("search.engine.aggregate._cut", cut)
    for most, right in ((windows - 1, [1]), (windows + deep - 1, [1, 2]), (2 * windows + deep - 1, [1, 2])):
        monkeypatch.setattr("search.engine.aggregate.BUCKETS_MAX", most)
        depths.clear()
        with pytest.raises(AggregationTooLarge):
            tallied(world, None, **wanted)
        assert depths == right
    monkeypatch.setattr("search.engine.aggregate.BUCKETS_MAX", 2 * windows + deep)
    assert tallied(world, None, **wanted) == whole
    depths.clear()
    inner = Terms(FIELDS["level"], 100, {"deep": Terms(FIELDS["level"], 10, {"windows": DateHistogram(at, 1)})})
    monkeypatch.setattr("search.engine.aggregate.BUCKETS_MAX", 1100)
    tallied(world, None, one=inner)  # all that the first two levels may have are few enough
    assert depths == [3]
    monkeypatch.setattr("search.engine.aggregate.BUCKETS_MAX", 1099)
    tallied(world, None, one=inner)
    assert depths == [3, 2, 3]
    looks = iter([False, True])
    tally = Tally(plan=None, stream=STREAM, spans=world.spans, wanted=wanted, records=world.fetch, over=looks.__next__)
    with pytest.raises(TimeOver):
        Searcher(world.views, CONFIG, 1).aggregate(tally)
