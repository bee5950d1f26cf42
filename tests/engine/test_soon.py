"""A page that is wanted soon is the page that it is, or it is refused before anything takes long."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indexers.companion import View
from search.engine import Ask, Entry, NotSoon, Searcher, sort_of, walk
from search.engine import search as search_module
from search.engine.translate import can_skip
from search.language import query
from tests.engine.test_pages import random_plan, random_sort, small_steps  # noqa: F401 - all loops go round
from tests.engine.world import CONFIG, STREAM, built, pack, random_records

ENTRIES = 400


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Very many are more than fifty."""
    monkeypatch.setattr(walk, "SOON_DOCS", 50)
    monkeypatch.setattr(search_module, "SOON_DOCS", 50)


@pytest.fixture
def searcher(tmp_path: Path) -> Searcher:
    records: list[Any] = [
        {
            "level": "ba" if at < ENTRIES // 2 else "card",
            "service": "card" if at < ENTRIES // 2 else "ba",
            "tags": f"t{at}",
            "message": ["card by", "bank"] if at == 7 else "card",
            "status": at,
            "eventTime": 1774433040000 + at,
        }
        for at in range(ENTRIES)
    ]
    one = pack(tmp_path, STREAM, [Entry(seq, seq, record) for seq, record in enumerate(records)])
    return Searcher([View([one], tmp_path / "view")], CONFIG, 1)


def ask(text: str, *sort: str, size: int = 5) -> Ask:
    plan = query(text, CONFIG)
    keys = sort_of(sort, plan, CONFIG)
    return Ask(plan=plan, stream=STREAM, spans=[(0, ENTRIES)], sort=keys, records=lambda _: {}, size=size, soon=True)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("asked", "is_soon"),
    [
        (("tags:t3", "offset"), True),  # one document, wherever it is
        (("level:card", "offset"), True),  # all of the newest
        (("level:ba", "offset:asc"), True),
        (("level:ba", "offset"), False),  # none of the newest, and of the others many
        (("level:ba service:ba", "offset"), False),  # nowhere
        (("tags:t3 level:ba", "offset"), True),
        (("tags:t3", "eventTime"), True),
        (("level:ba", "eventTime"), False),
        (("level:ba", "level"), False),
        (("status:>=0", "level"), False),
        (("tags:t3 level:ba", "level"), True),
        (('message:"by bank"',), False),  # a record tells
    ],
)
def test_what_looks_at_few_is_soon(searcher: Searcher, asked: tuple[str, ...], *, is_soon: bool) -> None:
    wanted = ask(*asked)
    page = searcher.page(replace(wanted, soon=False))
    if is_soon:
        assert searcher.page(wanted).hits == page.hits
    else:
        with pytest.raises(NotSoon):
            searcher.page(wanted)


def test_a_random_page_is_the_same_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soon = refused = 0
    for seed in range(20):
        draw = random.Random(seed)
        monkeypatch.setattr(walk, "SOON_DOCS", draw.choice([2, 10, 1000]))
        world = built(tmp_path / str(seed), random_records(draw), draw)
        searcher = Searcher(world.views, CONFIG, 1)
        for _ in range(12):
            plan = random_plan(draw)
            wanted = Ask(
                plan=plan, stream=STREAM, spans=world.spans, sort=sort_of(random_sort(draw), plan, CONFIG),
                records=world.fetch, size=draw.choice([1, 3, 50]),
            )  # fmt: skip
            page, read = searcher.page(wanted), world.asked
            try:
                assert searcher.page(replace(wanted, soon=True)).hits == page.hits
                soon += 1
            except NotSoon:
                refused += 1
            assert world.asked == read  # for nothing that is wanted soon
    assert min(soon, refused) > 30


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("text", "can"),
    [
        ("level:card", True),
        ("NOT level:card", True),
        ("ok:true level:card", True),
        ("message:card", True),
        ('message:"card by"', True),
        ("message:ca*", False),
        ("level:ca*", False),
        ("status:7", False),
        ("level:card status:>7", False),
        ("level:card OR has:status", False),
    ],
)
def test_only_what_goes_to_a_row_at_once_may_be_soon(searcher: Searcher, text: str, *, can: bool) -> None:
    assert can_skip(query(text, CONFIG)) is can
    assert searcher.may_be_soon(query(text, CONFIG)) is can


def test_where_all_are_few_anything_may_be(searcher: Searcher) -> None:
    assert searcher.may_be_soon(query("status:>7 level:ca*", CONFIG))
