"""Pages of random searches over random splits of random records: what the evaluator says, hit by hit, page by page."""

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from indexers.companion import View, zones
from search.engine import Ask, Entry, Hit, OneViewNeeded, Page, Searcher, SortKey, after_of, best, shower, sort_of, walk
from search.engine import scan as scan_module
from search.engine import search as search_module
from search.engine.sorting import place_of
from search.engine.source import Source
from search.engine.stretches import Foremost
from search.engine.translate import Translator
from search.language import Plan, QueryError, query
from tests.engine.world import (
    CONFIG,
    STREAM,
    World,
    built,
    expected,
    matching,
    pack,
    random_query,
    random_records,
    score,
)

NAMES = ["eventTime", "level", "status", "dur", "ok", "tags", "service", "ts", "offset"]
QUERIES = 12  # of one world: to build it costs more


def set_steps(monkeypatch: pytest.MonkeyPatch, steps: dict[str, int]) -> None:
    for name, value in steps.items():
        rooms = [room for room in (walk, best) if hasattr(room, name)]
        assert rooms, name
        for room in rooms:
            monkeypatch.setattr(room, name, value)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A world is small: so windows and batches are, too, and every loop goes round."""
    steps = {
        "WINDOW_MIN": 1,
        "_AT_ONCE": 3,
        "_READ_MIN": 2,
        "_NEAR": 3,
        "_FEW": 2,
        "_SCORED_MIN": 3,
        "_LED_MIN": 3,
        "_BEST_MIN": 2,
        "_ALIKE_MIN": 3,
        "_COUNTED_MIN": 2,
        "_WHOLE_MAX": 1,
    }
    set_steps(monkeypatch, steps)
    monkeypatch.setattr(search_module, "VERIFIED_AT_ONCE", 2)
    for name, value in (("BLOCK_BITS", 2), ("ENTRIES_MIN", 4), ("_RUN_MIN", 1)):
        monkeypatch.setattr(zones, name, value)
    monkeypatch.setattr(scan_module, "_AT_ONCE", 5)


def random_plan(draw: random.Random) -> Plan:
    while True:
        try:
            return query(random_query(draw), CONFIG)
        except QueryError:
            continue


def random_sort(draw: random.Random, *more: str) -> list[str]:
    names = draw.sample([*NAMES, *more], draw.randint(0, 3))
    return [f"{name}:{draw.choice(['asc', 'desc'])}" for name in names] or ["offset"]


def _moment(at: int, draw: random.Random) -> str | None:
    """About when the event was appended, or for many the same one, or none."""
    return draw.choice([f"2026-01-01T00:{at // 60 % 60:02}:{at % 60:02}Z", "2026-01-01T00:30:00Z", None])


def pages(world: World, plan: Plan, keys: tuple[SortKey, ...], size: int, **more: Any) -> Iterator[Page]:
    """All pages, each asked for by what a client got with the one before."""
    searcher, after = Searcher(world.views, CONFIG, 1), None
    while True:
        page = searcher.page(
            Ask(
                plan=plan, stream=STREAM, spans=world.spans, sort=keys, after=after, size=size, tail=world.tail,
                records=world.fetch, **more,
            )
        )  # fmt: skip
        yield page
        if len(page.hits) < size:
            return
        after = after_of(shower(keys)(page.hits[-1].sort, str(page.hits[-1].seq)), keys, int)


def hits(found: Sequence[Page]) -> list[Hit]:
    return [hit for page in found for hit in page.hits]


@pytest.mark.parametrize("seed", range(30))
def test_pages_are_what_the_evaluator_finds(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    set_steps(monkeypatch, {"FREQUENT": draw.choice([0, 1 << 17])})
    world = built(tmp_path / "world", random_records(draw), draw, stitched=draw.random() < 0.7)
    for _ in range(QUERIES):
        plan = random_plan(draw)
        keys = sort_of(random_sort(draw), plan, CONFIG)
        found = list(pages(world, plan, keys, draw.choice([1, 2, 3, 5, 12]), total=True))
        assert [hit.seq for hit in hits(found)] == expected(world, plan, keys)
        assert {(page.total, page.relation, page.timed_out) for page in found} == {
            (len(matching(world, plan)), "eq", False)
        }


@pytest.mark.parametrize("seed", range(30))
def test_pages_by_score_are_what_bm25_says(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    set_steps(monkeypatch, {"FREQUENT": draw.choice([0, 1 << 17])})
    world = built(tmp_path / "world", random_records(draw), draw)
    for _ in range(QUERIES):
        plan = random_plan(draw)
        raw = draw.choice(
            [None, ["_score:desc"], ["_score:asc"], ["_score", *random_sort(draw)], random_sort(draw, "_score")]
        )
        keys = sort_of(raw, plan, CONFIG)
        found = hits(list(pages(world, plan, keys, draw.choice([1, 2, 3, 5, 12]), total=True)))
        right = {seq: score(world, plan, world.records[seq]) for seq in matching(world, plan)}
        assert sorted(hit.seq for hit in found) == sorted(right)
        for hit in found:
            if hit.score is not None:
                assert hit.score == pytest.approx(right[hit.seq], abs=1e-4)
        place = place_of(keys)
        assert all(place(one.sort) < place(other.sort) for one, other in pairwise(found))


@pytest.mark.parametrize(
    "steps",
    [
        {"_BEST_MIN": 2, "_TIED_MIN": 2, "_TIED_SHARE": 10**9, "_AMONG": 10**9},
        {"_BEST_MIN": 40, "_TIED_MIN": 9, "_TIED_SHARE": 1, "_AMONG": 10**9},
        {"_BEST_MIN": 40, "_ALIKE_MIN": 40, "_TIED_MIN": 9, "_TIED_SHARE": 3, "FREQUENT": 100, "_NEAR": 200},
        {"_BEST_MIN": 40, "_ALIKE_MIN": 9, "_TIED_MIN": 9, "_TIED_SHARE": 4, "_SCATTERED": 2, "_NEAR": 200},
        {"_BEST_MIN": 40, "_ALIKE_MIN": 9, "_AMONG": 0, "_EACH": 10**9, "_NEAR": 200},
        {"_MANY": 0, "_ALIKE_MIN": 9999},
        {"_WHOLE_MAX": 2999},
    ],
    ids=[
        "by the other keys",
        "soon by score",
        "among the newest",
        "in between",
        "always among the newest",
        "at once",
        "all of rare ones",
    ],
)
def test_the_best_of_one_word_are_the_first_of_all(
    steps: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tantivy skips blocks of documents that cannot be among the best; many have one score, in several segments."""
    set_steps(monkeypatch, steps)
    draw = random.Random(5)
    common = ["card"] * 8 + ["bank"] * 3 + ["other"] * 40 + ["rare"]
    records: list[Any] = [
        {"message": " ".join(draw.choices(common, k=draw.choice([3, 8, 8, 20]))), "eventTime": _moment(at, draw)}
        for at in range(3000)
    ]
    cuts = (0, 1500, 2900, 3000)
    (tmp_path / "world").mkdir()
    packs = [
        pack(tmp_path / "world", STREAM, [Entry(seq, seq, records[seq]) for seq in range(first, end)])
        for first, end in pairwise(cuts)
    ]
    searcher = Searcher([View(packs, tmp_path / "view")], CONFIG, 1)

    def walked(q: str, sort: list[str] | None, size: int) -> list[Hit]:
        plan, after, found = query(q, CONFIG), None, list[Hit]()
        keys = sort_of(sort, plan, CONFIG)
        for _ in range(6):
            page = searcher.page(
                Ask(
                    plan=plan, stream=STREAM, spans=[(0, 3000)], sort=keys, after=after, size=size, records=lambda _: {}
                )
            )
            found += page.hits
            if len(page.hits) < size:
                break
            after = after_of(shower(keys)(page.hits[-1].sort, str(page.hits[-1].seq)), keys, int)
        return found

    asked = [(f"message:{word}", sort, size) for word in ("card", "bank", "rare", '"card"', "none")
             for sort in (None, ["_score:desc", "offset:asc"]) for size in (7, 200)]  # fmt: skip
    quick = [walked(*each) for each in asked]
    assert sum(map(len, quick)) > 1000
    used: list[Any] = []
    word = Translator.word
    monkeypatch.setattr(Translator, "word", lambda self, plan: used.append(word(self, plan)))  # which is None
    assert [walked(*each) for each in asked] == quick
    assert used
    assert None not in used


def test_of_companions_in_the_order_of_time_the_newest_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pages are what they are when all companions are walked at once; the first ones are not."""
    steps = {"FREQUENT": 0, "_NEAR": 200, "_BEST_MIN": 40, "_COUNTED_MIN": 40, "_TIED_MIN": 9, "_TIED_SHARE": 4,
             "_FEW": 2}  # fmt: skip
    set_steps(monkeypatch, steps)
    draw = random.Random(6)
    common = ["card"] * 8 + ["bank"] * 3 + ["other"] * 40 + ["rare"]
    records: list[Any] = [
        {
            "message": " ".join(draw.choices(common, k=draw.choice([3, 8, 8, 20]))),
            "eventTime": 1_774_433_040_000 + 1000 * at + draw.randrange(20_000),  # some are in the next companion
            "dur": draw.random(),
            "level": draw.choice(["info", "warn"]),
        }
        for at in range(3000)
    ]
    (tmp_path / "world").mkdir()
    packs = [
        pack(tmp_path / "world", STREAM, [Entry(seq, seq, records[seq]) for seq in range(first, first + 200)])
        for first in range(0, 3000, 200)
    ]
    draw.shuffle(packs)
    searcher = Searcher([View(packs, tmp_path / "view")], CONFIG, 1)
    found, looked = Source.foremost, list[bool]()

    def noted(self: Source, *args: Any, **kwargs: Any) -> Foremost | None:
        first = found(self, *args, **kwargs)
        looked.append(first is not None)
        return first

    def walked(q: str, sort: list[str] | None, size: int) -> list[tuple[int, ...]]:
        plan, after, rows = query(q, CONFIG), None, list[tuple[int, ...]]()
        keys = sort_of(sort, plan, CONFIG)
        while True:
            ask = Ask(plan=plan, stream=STREAM, spans=[(0, 2950)], sort=keys, after=after, size=size,
                      records=lambda seqs: {seq: records[seq] for seq in seqs})  # fmt: skip
            page = searcher.page(ask)
            rows += [(hit.seq,) for hit in page.hits]
            if len(page.hits) < size:
                return rows
            after = after_of(shower(keys)(page.hits[-1].sort, str(page.hits[-1].seq)), keys, int)

    sorts = (None, ["eventTime", "offset"], ["eventTime:asc"], ["_score", "offset"], ["_score", "eventTime:asc"],
             ["dur"], ["level", "eventTime"], ["eventTime", "_score"])  # fmt: skip
    texts = ("message:card", 'message:"card bank"', "card bank rare", "card AND level:info", "level:info", "dur:>0.01")
    asked = [(q, sort, size) for q in texts for sort in sorts for size in (7, 200)]
    monkeypatch.setattr(Source, "foremost", noted)
    quick = [walked(*each) for each in asked]
    assert any(looked)
    assert not all(looked)
    monkeypatch.setattr(Source, "foremost", lambda *_, **__: None)
    monkeypatch.setattr(search_module, "_ADDENDS_MAX", -1)
    for each, rows in zip(asked, quick, strict=True):
        assert walked(*each) == rows, each


@pytest.mark.parametrize("where", ["everywhere", "at the end", "at the beginning"])
def test_few_of_very_many_with_one_score_are_asked_for(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever comes behind the score, and wherever those with the word are: all of them would take long."""
    steps = {"_BEST_MIN": 8, "_ALIKE_MIN": 16, "_WHOLE_MAX": 64, "_TIED_MIN": 8, "FREQUENT": 100, "_NEAR": 64,
             "_LED_MIN": 50, "_SCORED_MIN": 64}  # fmt: skip
    set_steps(monkeypatch, steps)
    monkeypatch.setattr(zones, "BLOCK_BITS", 6)
    has = {"everywhere": range(3000), "at the end": range(2400, 3000), "at the beginning": range(600)}[where]
    records: list[Any] = [
        {"message": "card" if at in has else "other", "eventTime": 1000 * at, "status": at % 7} for at in range(3000)
    ]
    (tmp_path / "world").mkdir()
    packs = [
        pack(tmp_path / "world", STREAM, [Entry(seq, seq, records[seq]) for seq in range(first, first + 1000)])
        for first in (0, 1000, 2000)
    ]
    searcher, plan, sizes = Searcher([View(packs, tmp_path / "view")], CONFIG, 1), query("message:card", CONFIG), [0]
    scored = walk.Walker._scored

    def noted(self: walk.Walker, query: Any, size: int, at: int = 0, *, count: bool = True) -> Any:
        sizes.append(size + at)
        return scored(self, query, size, at, count=count)

    monkeypatch.setattr(walk.Walker, "_scored", noted)
    for raw in (
        None,
        ["_score"],
        ["_score", "offset:asc"],
        ["_score", "eventTime:asc"],
        ["_score", "status", "eventTime"],
    ):
        keys = sort_of(raw, plan, CONFIG)
        rows = sorted(has, key=lambda at: place_of(keys)(values(keys, records, at)))
        after = None
        for page in range(4):
            ask = Ask(plan=plan, stream=STREAM, spans=[(0, 3000)], sort=keys, after=after, size=5, records=lambda _: {})
            found = searcher.page(ask).hits
            assert [hit.seq for hit in found] == rows[5 * page : 5 * page + 5]
            after = found[-1].sort
    assert max(sizes) <= 4 * 64


def values(keys: Sequence[SortKey], records: Sequence[Any], at: int) -> tuple[Any, ...]:
    """Of records that all have one score."""
    of = {"eventTime": records[at]["eventTime"] * 1_000_000, "status": records[at]["status"]}
    return tuple(1.0 if key.by == "score" else at if key.field is None else of[key.field.name] for key in keys)


def test_scores_need_one_view(tmp_path: Path) -> None:
    draw = random.Random(1)
    plan = query("card", CONFIG)
    world = built(tmp_path / "world", [{"message": "card"}] * 20, draw, stitched=False)
    while len(world.views) < 2:
        world = built(tmp_path / f"{draw.random()}", [{"message": "card"}] * 20, draw, stitched=False)
    with pytest.raises(OneViewNeeded):
        list(pages(world, plan, sort_of(None, plan, CONFIG), 5))


@pytest.mark.parametrize("seed", range(20))
def test_a_page_that_ran_out_of_time_says_so(seed: int, tmp_path: Path) -> None:
    """Whatever it has is right; it has no hit twice, and counts nothing that it did not see."""
    draw = random.Random(seed)
    world = built(tmp_path / "world", random_records(draw), draw)
    for _ in range(QUERIES):
        plan = random_plan(draw)
        keys = sort_of(draw.choice([None, random_sort(draw)]), plan, CONFIG)
        looks = iter(range(draw.randrange(12)))
        page = next(pages(world, plan, keys, 100, total=True, over=lambda: next(looks, None) is None))  # noqa: B023
        found, right = [hit.seq for hit in page.hits], matching(world, plan)
        assert len(set(found)) == len(found)
        assert set(found) <= set(right)
        assert page.total <= len(right)
        if page.timed_out:
            assert page.relation == "gte"
        else:
            assert sorted(found) == sorted(right)


def test_no_time_at_all_is_an_empty_page(tmp_path: Path) -> None:
    draw = random.Random(3)
    world = built(tmp_path / "world", [{"level": "a"}] * 50, draw)
    plan = query('level:"a"', CONFIG)
    page = next(pages(world, plan, sort_of(None, plan, CONFIG), 10, over=lambda: True))
    assert (page.hits, page.timed_out, page.relation) == ([], True, "gte")


def test_entries_that_are_gone_meanwhile_are_no_hits(tmp_path: Path) -> None:
    """The index is in doubt about them, and nobody can tell."""
    folder = tmp_path / "world"
    folder.mkdir()
    entries = [Entry(seq, seq, {"message": ["card", "x1"], "status": 2**70}) for seq in range(9)]
    view = View([pack(folder, STREAM, entries)], folder / "view")
    world = World([], [view], [(0, 9)], [], {}, [])
    plan = query("status:>5 OR card", CONFIG)
    assert hits(list(pages(world, plan, sort_of(["status"], plan, CONFIG), 4))) == []
    world.records = {5: entries[5].record}
    assert [hit.seq for hit in hits(list(pages(world, plan, sort_of(["status"], plan, CONFIG), 4)))] == [5]


def test_only_what_a_page_needs_is_read(tmp_path: Path) -> None:
    """A clause that no index decides is asked of few records, when the order is the index's."""
    folder = tmp_path / "world"
    folder.mkdir()
    entries = [Entry(seq, seq, {"title": "card declined" if seq % 2 else "declined card"}) for seq in range(500)]
    view = View([pack(folder, STREAM, entries)], folder / "view")
    world = World([], [view], [(0, 500)], [], {entry.seq: entry.record for entry in entries}, [])
    plan = query('title:"card declined"', CONFIG)
    page = next(pages(world, plan, sort_of(["offset"], plan, CONFIG), 10))
    assert [hit.seq for hit in page.hits] == list(range(499, 480, -2))
    assert page.verified == world.asked < 60


@pytest.mark.parametrize(
    ("records", "q", "right"),
    [
        ([{"message": f"card x{at}"} for at in range(99)] + [{"message": "x1 card"}], 'message:"card x*"', 99),
        ([{"level": "ba" * 60 + "x"}, {"level": "ba" * 60 + "y"}], f'level:"{"ba" * 60}x*"', 1),
    ],
)
def test_what_tantivy_cannot_decide_is_asked_of_the_records(
    records: list[Any], q: str, right: int, tmp_path: Path
) -> None:
    """Beginnings of very many words in a phrase; beginnings that are too long for an automaton."""
    entries = [Entry(seq, seq, record) for seq, record in enumerate(records)]
    view = View([pack(tmp_path, STREAM, entries)], tmp_path / "view")
    world = World([], [view], [(0, len(entries))], [], dict(enumerate(records)), [])
    plan = query(q, CONFIG)
    found = hits(list(pages(world, plan, sort_of(["offset"], plan, CONFIG), 30)))
    assert [hit.seq for hit in found] == expected(world, plan, sort_of(["offset"], plan, CONFIG))
    assert len(found) == right


def test_the_effort_of_a_search_is_the_documents_that_it_looks_at(tmp_path: Path) -> None:
    said = ["one", "one two", "one two three", "one two three two", "four"]
    entries = [Entry(seq, seq, {"title": text, "level": "info", "dur": seq}) for seq, text in enumerate(said)]
    searcher = Searcher([View([pack(tmp_path, STREAM, entries)], tmp_path / "view")], CONFIG, 1)

    def effort(text: str, sort: Sequence[str] = (), end: int = 100) -> int:
        plan = query(text, CONFIG)
        return searcher.effort(
            Ask(plan=plan, stream=STREAM, spans=[(0, end)], sort=sort_of(sort, plan, CONFIG), records=lambda _: {})
        )

    word, many = effort("title:four"), len(said)
    assert (word, effort("title:one"), effort("title:nothing")) == (1, 4, 0)
    assert effort("title:one AND title:three") == effort("title:three AND level:info") == 2
    assert effort("title:one OR title:three") == 6
    assert effort('title:"two three"') > effort("title:three")  # where the words are has to be looked at, too
    assert effort("title:on* AND NOT title:two") == many
    assert effort("title:one", ["offset"]) == 0
    assert effort("title:three", ["dur"]) > effort("title:three")
    assert effort("dur:>1", ["dur"]) > many
    assert effort("title:one", end=2) == effort('title:"one two"', end=2) == 2  # others are other streams'


def test_the_effort_of_the_newest_by_time_is_that_of_the_newest_companions(tmp_path: Path) -> None:
    packs = [
        pack(
            tmp_path,
            STREAM,
            [Entry(seq, seq, {"eventTime": 1000 * seq, "level": "info"}) for seq in range(at, at + 50)],
        )
        for at in range(0, 500, 50)
    ]
    searcher = Searcher([View(packs, tmp_path / "view")], CONFIG, 1)

    def effort(q: str, sort: str, size: int = 2) -> int:
        plan = query(q, CONFIG)
        return searcher.effort(
            Ask(plan=plan, stream=STREAM, spans=[(0, 500)], sort=sort_of([sort], plan, CONFIG), size=size,
                records=lambda _: {})
        )  # fmt: skip

    assert effort("level:info", "eventTime") == effort("level:info", "eventTime:asc") < 500
    assert effort("level:info", "eventTime", size=200) >= 500  # they may not be enough
    assert effort("level:info AND has:eventTime", "eventTime") >= 500  # nobody knows how many these are
    assert effort("level:info", "level") >= 500
