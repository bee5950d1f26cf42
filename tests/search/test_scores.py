"""Scores are BM25 at every stage: by the indexed entries where there are some, else by those that are not."""

import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from search.engine.bm25 import kept
from search.language import words
from streams_node.testing.inprocess import InProcess
from tests.indexing.world import FakeDriver, indexed, on_loop, sealed
from tests.search.both_ways import both_ways  # noqa: F401 - each page on the loop or in a thread
from tests.search.world import A, append, create, found

K1, B = 1.2, 0.75
WORDS = ("card", "declined", "over", "payment", "x", "twelve", "naïve")
BOOSTS = {"text": 2.0, "title": 1.0}  # as declared


def entry(random: Random, seq: int) -> dict[str, Any]:
    made: dict[str, Any] = {"seq": seq, "text": " ".join(random.choices(WORDS, k=random.randrange(60)))}
    if random.random() < 0.7:
        made["title"] = " ".join(random.choices(WORDS, weights=range(1, 8), k=random.randrange(1, 6)))
    return made


class Oracle:
    """BM25 by its definition, with the statistics of some entries."""

    def __init__(self, counted: Sequence[dict[str, Any]]) -> None:
        self._docs = len(counted)
        self._texts = {name: [words(each.get(name, "")) for each in counted] for name in BOOSTS}

    def term(self, name: str, word: str, entry: dict[str, Any]) -> float | None:
        """The score of one word in one field; None where it is not there."""
        found = words(entry.get(name, ""))
        n = found.count(word)
        if not n:
            return None
        docs = self._texts[name]
        df = sum(word in each for each in docs)
        average = sum(map(len, docs)) / self._docs
        idf = math.log(1 + (self._docs - df + 0.5) / (df + 0.5))
        return BOOSTS[name] * idf * (K1 + 1) * n / (n + K1 * (1 - B + B * kept(len(found)) / average))

    def bare(self, word: str, entry: dict[str, Any]) -> float | None:
        """The best of the default fields."""
        return max((said for name in BOOSTS if (said := self.term(name, word, entry)) is not None), default=None)


async def check(node: InProcess, entries: Sequence[dict[str, Any]], counted: Sequence[dict[str, Any]]) -> None:
    oracle = Oracle(counted)
    for q, parts in (("card", ["card"]), ("declined OR twelve", ["declined", "twelve"])):
        view = await found(node, q=q, sort=["_score"], size=500)
        assert view["coverage"]["complete"]
        expected = {}
        for each in entries:
            said = [score for part in parts if (score := oracle.bare(part, each)) is not None]
            if said:
                expected[each["seq"]] = sum(said)
        scores = [(hit["source"]["seq"], hit["score"]) for hit in view["hits"]]
        assert {seq for seq, _ in scores} == set(expected)
        for seq, score in scores:
            assert score == pytest.approx(expected[seq], rel=1e-4), (q, seq)
        assert scores == sorted(scores, key=lambda each: (-each[1], -each[0]))
        by_offset = await found(node, q=q, sort=["offset"], size=500)  # an order without scores tells the same ones
        for hit in by_offset["hits"]:
            assert hit["score"] == pytest.approx(expected[hit["source"]["seq"]], rel=1e-4)


@on_loop
async def test_scores_are_bm25_before_and_after_the_first_index(tmp_path: Path) -> None:
    random = Random(11)
    entries = [entry(random, seq) for seq in range(150)]
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await append(node, entries)
        await check(node, entries, entries)  # nothing is indexed
        await sealed(node)
        await check(node, entries, entries)
        await FakeDriver(node).finish()
        await check(node, entries, entries)  # all is
        more = [entry(random, seq) for seq in range(150, 190)]
        await append(node, more)
        await check(node, [*entries, *more], entries)  # what is behind the index does not change the scores


@on_loop
async def test_what_matches_least_often_counts_most(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A)
        await append(node, [{"text": "card card card card"}, *[{"text": "card"}] * 8, {"text": "rare other words"}])
        view = await found(node, q="card OR rare")
        assert view["hits"][0]["source"] == {"text": "rare other words"}


@on_loop
async def test_a_small_page_is_the_beginning_of_a_large_one_where_all_scores_are_alike(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await append(node, [{"seq": seq, "status": 200 + seq % 2, "text": "card"} for seq in range(300)])
        for q in ("status:200", "NOT status:200", "card"):
            for sort in (["_score:asc"], ["_score:asc", "offset:asc"], ["_score"], ["_score:desc", "offset:asc"]):
                small = await found(node, q=q, size=5, sort=sort)
                large = await found(node, q=q, size=400, sort=sort)
                assert small["hits"] == large["hits"][:5], (q, sort)
                assert len(large["hits"]) == (300 if q == "card" else 150)
