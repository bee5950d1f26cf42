"""Merged companions may still have documents that are gone. Tantivy counts these: so must whoever scores records."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from indexers.companion import Pack, View, merge
from search.engine import Ask, Entry, Hit, Searcher, sort_of
from search.language import query
from tests.engine.world import CONFIG, STREAM, World, expected, pack, score

ASKED = ["message:card", "message:card bank", "message:none OR message:card", 'message:"card bank"', "message:only"]
SAID = ["card", "card bank", "card bank only", "bank card only only", "other"]


def left(folder: Path, records: Sequence[object], cut: int, first: int) -> World:
    """Two companions up to `cut` and behind it, merged without the entries before `first`."""
    (folder / "packs").mkdir()
    packs = [
        pack(folder / "packs", STREAM, [Entry(seq, seq, records[seq]) for seq in range(*span)])
        for span in ((0, cut), (cut, len(records)))
    ]
    (cover,) = packs[0].directory.covers
    living = msgspec.structs.replace(cover, first_seq=first, entries=cut - first)
    merge(packs, [[living], packs[1].directory.covers], folder / "parts", folder / "whole")
    whole = Pack(folder / "whole")
    view = View([whole], folder / "view")
    assert (view.docs, view.counted) == (len(records) - first, len(records))
    kept = {seq: record for seq, record in enumerate(records) if seq >= first}
    return World([whole], [view], [(first, len(records))], [], kept, list(records))


def found(world: World, asked: str, size: int) -> list[Hit]:
    plan = query(asked, CONFIG)
    keys = sort_of(["_score"], plan, CONFIG)
    ask = Ask(plan=plan, stream=STREAM, spans=world.spans, sort=keys, size=size, records=world.fetch)
    return list(Searcher(world.views, CONFIG, 1).page(ask).hits)


@pytest.mark.parametrize("first", [1, 40, 49])
def test_scores_of_hits_and_of_records_are_of_the_same_documents(first: int, tmp_path: Path) -> None:
    world = left(tmp_path, [{"message": SAID[seq % 5 if seq < 55 else 4]} for seq in range(60)], 50, first)
    for asked in ASKED:
        plan = query(asked, CONFIG)
        of_record = Searcher(world.views, CONFIG, 1).scorer(plan)
        hits = found(world, asked, 100)
        assert {hit.seq for hit in hits} == set(expected(world, plan, ()))
        for hit in hits:
            assert hit.score is not None
            assert hit.score > 0
            right = score(world, plan, world.records[hit.seq])
            assert (hit.score, of_record(world.records[hit.seq])) == pytest.approx((right, right), abs=1e-4)


@pytest.mark.parametrize("others", [[], ["zz"], ["zz", "card"]], ids=["none", "another", "a later one"])
def test_words_that_only_deleted_documents_have_do_no_harm(others: list[str], tmp_path: Path) -> None:
    gone = [{"message": f"a{at:03} only"} for at in range(40)]
    world = left(tmp_path, [*gone, {"title": "x"}, *({"message": each} for each in others), {"title": "y"}], 41, 40)
    for asked in ASKED:
        plan = query(asked, CONFIG)
        assert {hit.seq for hit in found(world, asked, 9)} == set(expected(world, plan, ()))
        score = Searcher(world.views, CONFIG, 1).scorer(plan)({"message": "card bank only"})
        assert score is not None
        assert score > 0
