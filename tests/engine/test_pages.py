"""Pages of random searches over random splits of random records: what the evaluator says, hit by hit, page by page."""

import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from search.engine import Ask, Hit, OneViewNeeded, Page, Searcher, SortKey, after_of, shown, sort_of
from search.language import Plan, QueryError, plan_query, query
from search.language.syntax import Node
from tests.engine.world import CONFIG, STREAM, World, built, expected, matching, score
from tests.language import strategies

_NAMES = ["eventTime", "level", "status", "dur", "ok", "tags", "service", "ts", "offset"]
sorts = st.lists(
    st.builds("{}:{}".format, st.sampled_from(_NAMES), st.sampled_from(["asc", "desc"])), max_size=3, unique=True
)
many = st.lists(strategies.records, min_size=0, max_size=40)
quickly = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def planned(tree: Node) -> Plan | None:
    try:
        return plan_query(tree, CONFIG)
    except QueryError:
        return None


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
        after = after_of(shown(page.hits[-1].sort, keys, str), keys, int)


def hits(found: Sequence[Page]) -> list[Hit]:
    return [hit for page in found for hit in page.hits]


@given(many, strategies.queries, sorts, st.integers(1, 12), st.integers(0, 2**32), st.booleans())
@quickly
def test_pages_are_what_the_evaluator_finds(
    records: list[Any], tree: Node, sort: list[str], size: int, seed: int, stitched: bool
) -> None:
    plan = planned(tree)
    if plan is None:
        return
    keys = sort_of(sort or ["offset"], plan, CONFIG)
    with tempfile.TemporaryDirectory() as scratch:
        world = built(Path(scratch) / "world", records, random.Random(seed), stitched=stitched)
        found = list(pages(world, plan, keys, size, total=True))
        assert [hit.seq for hit in hits(found)] == expected(world, plan, keys)
        for page in found:
            assert (page.total, page.relation) == (len(matching(world, plan)), "eq")
            assert not page.timed_out
