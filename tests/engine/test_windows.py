"""Among equal values of several segments Tantivy picks others for each number of hits: pages have each hit once."""

import random
from itertools import pairwise
from pathlib import Path

import pytest

from indexers.companion import View
from search.engine import Ask, Entry, Searcher, after_of, best, shower, sort_of, walk
from search.language import query
from tests.engine.world import CONFIG, STREAM, World, expected, pack

TEXTS = ["card bank w", "card bank w", "card bank w z", "z card bank w y", "bank card w", "other"]
ASKED = ["message:card", "message:card AND message:bank", 'message:"card bank"', "message:card OR message:bank"]


def world(folder: Path, draw: random.Random, count: int) -> World:
    folder.mkdir()
    records: list[object] = [
        {
            "status": [200, 500] if at % 100 == 7 else draw.choice([200, 404, 500]),
            "message": draw.choice(TEXTS),
            "eventTime": 1_774_433_040_000 + draw.randrange(10**9),
        }
        for at in range(count)
    ]
    cuts = sorted({0, count, *(draw.randrange(count) for _ in range(8))})
    packs = [pack(folder, STREAM, [Entry(seq, seq, records[seq]) for seq in range(*span)]) for span in pairwise(cuts)]
    draw.shuffle(packs)
    return World(packs, [View(packs, folder / "view")], [(0, count)], [], dict(enumerate(records)), [])


def walked(world: World, asked: str, sort: list[str], size: int) -> list[int]:
    searcher, plan, after = Searcher(world.views, CONFIG, 1), query(asked, CONFIG), None
    keys, found = sort_of(sort, plan, CONFIG), list[int]()
    while len(found) <= len(world.records):
        ask = Ask(plan=plan, stream=STREAM, spans=world.spans, sort=keys, after=after, size=size, records=world.fetch)
        page = searcher.page(ask)
        found += [hit.seq for hit in page.hits]
        if len(page.hits) < size:
            break
        after = after_of(shower(keys)(page.hits[-1].sort, str(page.hits[-1].seq)), keys, int)
    return found


@pytest.fixture(params=["small", "as they are"])
def steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With small windows all ties are in several of them, and some are too large to be held."""
    if request.param == "small":
        for room, name, value in [
            (walk, "WINDOW_MIN", 4), (walk, "WINDOW_MAX", 16), (walk, "_SCORED_MIN", 4), (best, "WINDOW_MAX", 16),
            (best, "_BEST_MIN", 4), (best, "_COUNTED_MIN", 4), (best, "_WHOLE_MAX", 1), (best, "_TIED_SHARE", 1),
            (best, "_TIED_MIN", 4),
        ]:  # fmt: skip
            monkeypatch.setattr(room, name, value)
    return str(request.param)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.usefixtures("steps")
def test_a_column_of_several_values_is_walked_once(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    some, plan = world(tmp_path / "world", draw, 1000), query("message:card", CONFIG)
    for direction in ("desc", "asc"):
        for sort in ([f"status:{direction}"], [f"status:{direction}", "offset:asc"]):
            found = walked(some, "message:card", sort, draw.choice([7, 50, 200]))
            assert found == expected(some, plan, sort_of(sort, plan, CONFIG))


@pytest.mark.parametrize("seed", range(6))
def test_documents_of_one_score_are_walked_once(seed: int, tmp_path: Path, steps: str) -> None:
    draw = random.Random(seed)
    some = world(tmp_path / "world", draw, 600 if steps == "small" else 12_000)
    for asked in ASKED:
        plan = query(asked, CONFIG)
        score = Searcher(some.views, CONFIG, 1).scorer(plan)
        scores = {seq: score(record) for seq, record in some.records.items()}
        place = {
            seq: (-round(each, 4), -some.records[seq]["eventTime"], -seq)  # type: ignore[index]
            for seq, each in scores.items()
            if each is not None
        }
        found = walked(some, asked, ["_score", "eventTime"], 50 if steps == "small" else 1000)
        assert found == sorted(place, key=lambda seq: place[seq])
