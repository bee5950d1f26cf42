"""The one pass and its merges, over random worlds: every family tells what the plain evaluator tells of the entries."""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tantivy

from indexers import companion
from indexers.build import Made
from indexers.companion import Layout, View
from indexers.exact import Exact, Filter, may_hold
from indexers.lexicon import Lexicon, key_page
from indexers.merge import merge
from indexers.messages import Cover, Merge
from indexers.plan import FAMILIES, Family
from indexers.rollups import Rollups, Summary, Window, windows
from search.language import (
    AllOf,
    AnyOf,
    Compare,
    Exists,
    NotOf,
    Op,
    Plan,
    Prefix,
    Text,
    exact_text,
    fields,
    matcher,
    query,
    values,
)
from search.language.dates import MS_NS
from streams_node.schema.search_config import Count, Field, Kind, Rollup, SummaryParts
from streams_node.schema.search_config import Summary as SummaryMeasure
from tests.indexers.world import Entry, Ids, World, built, random_world, sealed_objects

Covered = list[tuple[Cover, list[Entry]]]
SEEDS = range(8)
QUERIES = [
    "k:a", 'k:"Same"', "k:b-1*", "-k:a", "has:k", "-has:k", "has:m", "has:w", "-has:w", "has:n", "has:b", "has:f",
    "has:t", "n:3", "n:>3", "n:<=2", "n:9223372036854775807", "n:>18446744073709551614", 'n:<"-9223372036854775807"',
    "f:>=2.5",
    "f:<0", "f:>1e200", "b:true", "-b:false", 't:>"2026-02-02"', "t:<1770000040000", 't:>"+200000-01-01"', "m:red",
    'm:"red green"', 'm:"straße οδος"', "m:istanbul", "m:str*", "w:naïve", "w:日本", "tags.all:same", "tags.all:b*",
    "-tags.all:same", "red", "red blue", "k:a n:>2", "(k:a OR n:3) -b:true", "m:red OR has:w", "-(m:red OR n:>3)",
    f"k:{'x' * 600}", "m:" + "q" * 16_000, "m:qqq*", "k:qqq*", "m:a_b", "m:x1_red",
]  # fmt: skip


class Indexed:
    """What was built, and of which entries it tells."""

    def __init__(self, world: World, made: Sequence[Made]) -> None:
        self.world = world
        self.made = [each for each in made if each.object.covers]

    def of(self, family: Family) -> list[Made]:
        return [each for each in self.made if each.object.family == family]

    def covered(self, made: Made) -> Covered:
        return [(each, self.world.entries[each.stream][each.first_seq : each.end_seq]) for each in made.object.covers]

    def check(self, scratch: Path) -> None:
        for made in self.made:
            self.check_covers(made)
        self.check_lexicons()
        for made in self.of("exact"):
            self.check_exact(made)
        self.check_rollups()
        self.check_companions(scratch)

    def check_covers(self, made: Made) -> None:
        for cover, entries in self.covered(made):
            assert cover.entries == len(entries) == cover.end_seq - cover.first_seq
            assert cover.payload_bytes == sum(len(each.payload) for each in entries)
            assert (cover.min_ts, cover.max_ts) == (entries[0].ts, entries[-1].ts)
            absent = sum(self.world.record(each) is None for each in entries)
            assert cover.skipped == (0 if made.object.family == "lexicon" else absent)
        assert made.path.stat().st_size == made.object.bytes
        parts = made.object.col_bytes, made.object.fts_bytes
        assert (min(parts) > 0) == (made.object.family == "companion")
        assert sum(parts) <= made.object.bytes

    def check_lexicons(self) -> None:
        found = self.of("lexicon")
        readers = [Lexicon(each.path) for each in found]
        for stream in self.world.entries:
            entries = [(made, cover, entry) for made in found for cover, some in self.covered(made)
                       for entry in some if cover.stream == stream]  # fmt: skip
            keys = {entry.key for _, _, entry in entries if entry.key is not None}
            assert key_page(readers, stream, limit=1000).keys == sorted(keys, key=str.encode)
            for key in [*keys, "absent"]:
                for made, reader in zip(found, readers, strict=True):
                    expected = {cover.ordinal for of, cover, entry in entries if of is made and entry.key == key}
                    assert set(reader.ordinals_of(stream, key)) == expected

    def check_exact(self, made: Made) -> None:
        assert made.filter is not None
        filtered = Filter(made.filter.read_bytes())
        reader = Exact(made.path, filtered=filtered)
        where: dict[tuple[int, str, str], set[int]] = {}
        for cover, entries in self.covered(made):
            registry = self.world.registry(cover.stream)
            assert registry.search is not None
            for name, field in registry.search.fields.items():
                if field.exact and field.kind is not Kind.TEXT:
                    read = values(field, registry.current_version)
                    for entry in entries:
                        for value in read(self.world.record(entry)):
                            key = (cover.stream, name, exact_text(field.kind, value))
                            where.setdefault(key, set()).add(cover.ordinal)
        for (stream, name, text), ordinals in where.items():
            assert set(reader.ordinals_of(stream, name, text)) == ordinals, (stream, name, text)
            assert may_hold(filtered, stream, name, text)
        for stream in self.world.entries:
            assert reader.ordinals_of(stream, "k", "absent") == []

    def check_rollups(self) -> None:
        found = self.of("rollups")
        readers = [(Rollups(each.path), None) for each in found]
        for stream in self.world.entries:
            registry = self.world.registry(stream)
            assert registry.search is not None
            entries = [entry for made in found for cover, some in self.covered(made)
                       for entry in some if cover.stream == stream]  # fmt: skip
            for rollup in registry.search.rollups.values():
                recounted = list(recount(self.world, rollup, entries))
                for interval in rollup.intervals:
                    expected: dict[Any, dict[str, Summary]] = {}
                    for time, dimensions, measures in recounted:
                        window = expected.setdefault((time // interval.ms * interval.ms, dimensions), {})
                        for name, summary in measures.items():
                            window.setdefault(name, Summary()).__iadd__(summary)
                    answer = windows(readers, stream, rollup.name, interval.ms, -(1 << 60), 1 << 60)
                    same(answer, expected)

    def check_companions(self, scratch: Path) -> None:
        for number, config in enumerate({each.object.covers[0].config for each in self.of("companion")}):
            made = [each for each in self.of("companion") if each.object.covers[0].config == config]
            packs = [companion.Pack(each.path, expected=(each.object.bytes, each.object.sum)) for each in made]
            covered = [pair for each in made for pair in self.covered(each)]
            assert all(cover.config == config for cover, _ in covered)
            check_view(self.world, View(packs, scratch / str(number)), covered)


def same(answer: Iterator[Window], expected: dict[Any, dict[str, Summary]]) -> None:
    """Sums are added in another order; all else is equal."""
    for window in answer:
        measures = expected.pop((window.start, window.dimensions))
        assert measures.keys() == window.measures.keys()
        for name, found in window.measures.items():
            known = measures[name]
            assert found.sum == pytest.approx(known.sum)
            assert (found.count, found.min, found.max, found.histogram) == (
                known.count, known.min, known.max, known.histogram,
            )  # fmt: skip
    assert expected == {}


def recount(
    world: World, rollup: Rollup, entries: Sequence[Entry]
) -> Iterator[tuple[int, tuple[str | None, ...], dict[str, Summary]]]:
    """Straight from the definition: what each entry that contributes adds."""
    for entry in entries:
        registry = world.registry(entry.stream)
        config, version = registry.search, registry.current_version
        assert config is not None
        record = world.record(entry)
        times = values(config.fields[rollup.timestamp_field], version)(record)
        dimensions = [values(config.fields[name], version)(record) for name in rollup.dimensions]
        if len(times) != 1 or any(len(each) > 1 for each in dimensions):
            continue
        if rollup.include is not None and not matcher(query(rollup.include, config), version)(record):
            continue
        measures: dict[str, Summary] = {}
        for name, measure in rollup.measures.items():
            if isinstance(measure, Count):
                text = measure.include
                taken = text is None or matcher(query(text, config), version)(record)
                measures[name] = Summary(1.0 if taken else 0.0)
            elif isinstance(measure, SummaryMeasure):
                found = values(config.fields[measure.field], version)(record)
                if len(found) == 1:
                    value = float(found[0])
                    bucket = str(2 ** max(0, int(abs(value)).bit_length() - 1))
                    measures[name] = Summary(1.0, value, value, value, {bucket: 1.0} if measure.histogram else {})
            else:
                measures.update(parts(name, measure, record))
        if len(measures) == len(rollup.measures):
            texts = [exact_text(config.fields[name].kind, each[0]) if each else None
                     for name, each in zip(rollup.dimensions, dimensions, strict=True)]  # fmt: skip
            yield int(times[0]) // MS_NS, tuple(texts), measures


def parts(name: str, measure: SummaryParts, record: Any) -> dict[str, Summary]:
    """The world has numbers there, or something else altogether."""
    inner = record.get("p")
    if not isinstance(inner, dict) or "c" not in inner:
        return {}
    assert measure.count == "/p/c"
    histogram = {bucket: float(count) for bucket, count in inner["h"].items()}
    count, total, least, most = (float(inner[each]) for each in ("c", "s", "lo", "hi"))
    return {name: Summary(count, total, least, most, histogram)}


# --- companions: what the index says, and for documents that it is not sure of, the evaluator ------------------------


def check_view(world: World, view: View, covered: Covered) -> None:
    entries = {(entry.stream, entry.seq): entry for _, some in covered for entry in some}
    records = {place: world.record(entry) for place, entry in entries.items()}
    stream = covered[0][0].stream
    registry = world.registry(stream)
    config = registry.search
    assert config is not None
    layout = Layout(config.fields)
    assert found_by(view, tantivy.Query.all_query()) == set(entries)
    assert view.docs == len(entries)
    for text in QUERIES:
        plan = query(text, config) if usable(text, config.fields) else None
        if plan is None:
            continue
        matches = matcher(plan, registry.current_version)
        expected = {place for place, record in records.items() if matches(record)}
        unsure = set[tuple[int, int]]()
        for field in fields(plan):
            unsure |= found_by(view, term(view, "inexact", layout.of(field.name).column))
        sure = found_by(view, translated(plan, view, layout)) - unsure
        assert sure == expected - unsure, text
        assert len(unsure) <= len(entries) / 2
    check_times(view, layout, records, registry.current_version)


def usable(text: str, known: Any) -> bool:
    names = re.findall(r"(?:^|[\s(:-])((?:tags\.all|[a-z]))(?=[:\s)]|$)", text.replace("has:", " "))
    return all(name in known for name in names if name in {"k", "m", "w", "n", "f", "b", "t", "tags.all"})


def check_times(view: View, layout: Layout, records: dict[tuple[int, int], Any], version: int) -> None:
    """The millisecond column, by a histogram of whole minutes, as far as histograms reach."""
    columns = layout.of("t")
    read = values(columns.field, version)
    minutes: dict[int, int] = {}
    near = 2**45
    for record in records.values():
        starts = {int(value) // MS_NS // 60_000 * 60_000 for value in read(record)}
        for start in starts:
            if abs(start) < near:
                minutes[start] = minutes.get(start, 0) + 1
    assert columns.ms is not None
    bounds = {"min": float(min(minutes, default=0)), "max": float(max(minutes, default=0) + 60_000)}
    wanted = {
        "h": {"histogram": {"field": columns.ms, "interval": 60_000.0, "min_doc_count": 1, "hard_bounds": bounds}}
    }
    found = view.searcher.aggregate(tantivy.Query.all_query(), wanted)["h"]["buckets"]
    assert {int(each["key"]): each["doc_count"] for each in found} == minutes


def found_by(view: View, asked: tantivy.Query) -> set[tuple[int, int]]:
    hits = view.searcher.search(asked, limit=100_000).hits
    places = view.addresses([address for _, address in hits])
    assert len(set(places)) == len(places)
    return {(each.stream, each.seq) for each in places}


def term(view: View, column: str, value: Any) -> tantivy.Query:
    return tantivy.Query.term_query(view.schema, column, value)


def translated(plan: Plan, view: View, layout: Layout) -> tantivy.Query:
    """A small translation of every kind of clause, to try the columns by."""
    queries = tantivy.Query

    def inner(part: Plan) -> tantivy.Query:
        return translated(part, view, layout)

    match plan:
        case AllOf(some):
            return queries.boolean_query([(tantivy.Occur.Must, inner(each)) for each in some])
        case AnyOf(some):
            return queries.boolean_query([(tantivy.Occur.Should, inner(each)) for each in some])
        case NotOf(part):
            not_it = (tantivy.Occur.MustNot, inner(part))
            return queries.boolean_query([(tantivy.Occur.Must, queries.all_query()), not_it])
        case Exists(field):
            return layout.has_query(view.schema, field.name)
        case Prefix(field, prefix):
            return beginning(view, layout.of(field.name).column, prefix)
        case Compare():
            return compared(plan, view, layout)
        case Text():
            found = [text_of(plan, target.field, target.tokens, view, layout) for target in plan.targets]
            return queries.boolean_query([(tantivy.Occur.Should, each) for each in found])


def beginning(view: View, column: str, prefix: str) -> tantivy.Query:
    return tantivy.Query.regex_query(view.schema, column, re.escape(prefix) + "(?s:.)*")


def compared(plan: Compare, view: View, layout: Layout) -> tantivy.Query:
    column, value, op = layout.of(plan.field.name).column, plan.value, plan.op
    if plan.field.kind in {Kind.KEYWORD, Kind.BOOL}:
        return term(view, column, value)
    kind = tantivy.FieldType.Float if plan.field.kind is Kind.FLOAT else tantivy.FieldType.Integer
    low, high = {
        Op.EQ: (value, value), Op.GE: (value, None), Op.GT: (value, None), Op.LE: (None, value), Op.LT: (None, value),
    }[op]  # fmt: skip
    if kind is tantivy.FieldType.Integer and not -(2**63) <= int(value) <= 2**63 - 1:
        everything = (int(value) > 0) == (op in {Op.LE, Op.LT}) and op is not Op.EQ
        return layout.has_query(view.schema, plan.field.name) if everything else tantivy.Query.empty_query()
    return tantivy.Query.range_query(
        view.schema, column, kind, low, high, include_lower=op is not Op.GT, include_upper=op is not Op.LT
    )  # fmt: skip


def text_of(plan: Text, field: Field, tokens: Sequence[str], view: View, layout: Layout) -> tantivy.Query:
    column = layout.of(field.name).column
    if field.kind is Kind.KEYWORD:
        return beginning(view, column, tokens[0]) if plan.prefix else term(view, column, tokens[0])
    if plan.phrase and len(tokens) > 1:
        return tantivy.Query.phrase_query(view.schema, column, list(tokens))
    found = [term(view, column, each) for each in tokens]
    if plan.prefix:
        found[-1] = beginning(view, column, tokens[-1])
    return tantivy.Query.boolean_query([(tantivy.Occur.Must, each) for each in found])


# --- the tests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_every_family_tells_what_the_evaluator_tells_at_every_level(seed: int, tmp_path: Path) -> None:
    world, draw, ids = random_world(seed), random.Random(seed), Ids()
    objects = sealed_objects(world, draw, 9)
    tasks = [objects[at::3] for at in range(3)]
    made = [each for some in tasks for each in built(world, some, folder(tmp_path), ids, draw, FAMILIES)]
    Indexed(world, made).check(tmp_path / "level-0")
    dead = set(draw.sample(sorted(world.entries), draw.randrange(3)))
    whole = []
    for group in groups(made):
        some = [without(each, lambda cover: cover.stream in dead) for each in group]
        pair = merged(some[:2], tmp_path, ids, 1) if len(some) > 1 else some[0]
        whole.append(merged([pair, *some[2:]], tmp_path, ids, 2))
    Indexed(world, whole).check(tmp_path / "level-2")
    assert {cover.stream for each in whole for cover in each.object.covers} == set(world.entries) - dead


def test_sixteen_companions_are_merged_into_one_segment(tmp_path: Path) -> None:
    world, draw, ids = random_world(3, streams=4, most=200), random.Random(3), Ids()
    objects = sealed_objects(world, draw, 16)
    made = [each for some in objects for each in built(world, [some], folder(tmp_path), ids, draw, ["companion"])]
    for group in groups(made):
        whole = merged(group, tmp_path, ids, 1)
        Indexed(world, [whole]).check_companions(folder(tmp_path))
        if len(group) >= 8:
            assert View([companion.Pack(whole.path)], folder(tmp_path) / "view").searcher.num_segments == 1


def test_the_same_entries_make_the_same_bytes(tmp_path: Path) -> None:
    world = random_world(5)
    first, second = (
        built(
            world, sealed_objects(world, random.Random(1), 4), folder(tmp_path), Ids(), random.Random(number), FAMILIES
        )
        for number in (1, 2)
    )
    assert [each.object for each in first] == [each.object for each in second]


def folder(path: Path) -> Path:
    """A new one."""
    made = path / str(sum(1 for _ in path.iterdir()))
    made.mkdir()
    return made


def groups(made: Sequence[Made]) -> list[list[Made]]:
    """What may be merged: of one family, and of companions of one configuration."""
    found: dict[tuple[str, str], list[Made]] = {}
    for each in made:
        config = each.object.covers[0].config if each.object.family == "companion" else ""
        found.setdefault((each.object.family, config), []).append(each)
    return list(found.values())


def without(made: Made, dead: Callable[[Cover], bool]) -> Made:
    """The same object, of which not all covers are named any more."""
    living = [cover for cover in made.object.covers if not dead(cover)]
    return made._replace(object=msgspec.structs.replace(made.object, covers=living))


def merged(some: Sequence[Made], path: Path, ids: Ids, level: int) -> Made:
    order = Merge(family=some[0].object.family, level=level, inputs=[each.object for each in some])
    return merge(order, {each.object.made: each.path for each in some}, folder(path), ids())
