"""Snippets: what matched, where it is."""

import random
from typing import Any

import pytest

from search.engine import highlight
from search.language import Text, matcher, query, words
from tests.engine.world import CONFIG, random_query, random_records


def marked(q: str, record: Any, **more: int) -> dict[str, list[list[str]]]:
    found = highlight(query(q, CONFIG), record, 1, **more)
    return {name: [[s.text[a:b] for a, b in s.marks] for s in snippets] for name, snippets in found.items()}


@pytest.mark.parametrize(
    ("q", "record", "right"),
    [
        ("card", {"message": "My CARD, a card."}, {"message": [["CARD", "card"]]}),
        ("message:ca*", {"message": "cards of Carl; scar"}, {"message": [["cards", "Carl"]]}),
        ('"card declined"', {"message": "card x declined; Card-declined"}, {"message": [["Card-declined"]]}),
        ('"card decl*"', {"message": "card declined"}, {"message": [["card declined"]]}),
        ("card NOT bank", {"message": "card bank"}, {"message": [["card"]]}),
        ("card OR title:x1", {"message": "card", "title": "X1 b"}, {"message": [["card"]], "title": [["X1"]]}),
        ("title:x1", {"title": ["x1", "X1 b"]}, {"title": [["x1"], ["X1"]]}),
        ("has:message", {"message": "card"}, {}),
        ("card", {"message": ["none", 5, None]}, {}),
        ("card", 5, {}),
        ("x1", {"message": "İİ x1"}, {"message": [["x1"]]}),
    ],
)  # fmt: skip
def test_what_matched_is_marked(q: str, record: Any, right: dict[str, Any]) -> None:
    assert marked(q, record) == right


def test_long_texts_are_cut_between_words() -> None:
    text = " ".join(["word"] * 500 + ["card"] + ["word"] * 500 + ["card"] + ["word"] * 500 + ["card"])
    found = highlight(query("card", CONFIG), {"message": text}, 1, chars=80, snippets=2)["message"]
    assert len(found) == 2
    for snippet in found:
        assert len(snippet.text) <= 100
        assert set(snippet.text.split()) == {"word", "card"}


@pytest.mark.parametrize("seed", range(20))
def test_what_matches_by_text_alone_is_marked_in_its_words(seed: int) -> None:
    draw = random.Random(seed)
    for record in random_records(draw):
        try:
            plan = query(random_query(draw, 0), CONFIG)
        except ValueError:
            continue
        found = highlight(plan, record, 1)
        if isinstance(plan, Text):
            assert bool(found) == matcher(plan, 1)(record) or not plan.phrase
            assert found or not matcher(plan, 1)(record)
        for snippets in found.values():
            for snippet in snippets:
                assert snippet.marks
                assert all(words(snippet.text[start:end]) for start, end in snippet.marks)
