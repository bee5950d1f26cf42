"""Recent entries that cannot have a word are passed over by their stored texts, and none that has it."""

import json
from random import Random
from typing import Any

import pytest

from search.language import matcher, query
from streams_node.searching.look import word_of
from streams_node.searching.recent import Piece
from tests.search.world import CONFIG

WORDS = ("card", "Card", "CARDS", "ca", "rd", "naïve", "\u212aard", "İx", "a\nb", '"card"', "\\card", "x", "日本")


def piece(texts: list[bytes], *, plain: bool = True) -> Piece:
    return Piece(100, texts, [json.loads(text) for text in texts], plain)


@pytest.mark.parametrize("seed", range(30))
def test_no_entry_that_matches_is_passed_over(seed: int) -> None:
    random = Random(seed)
    records: list[Any] = [
        {random.choice(["text", "title", "level"]): random.choice([" ".join(random.choices(WORDS, k=3)), "card", 7])}
        for _ in range(random.randrange(1, 40))
    ]
    texts = [json.dumps(record, ensure_ascii=random.random() < 0.5).encode() for record in records]
    for q in (
        "card",
        "kard",
        '"card x"',
        "text:car*",
        "title:x card",
        "NOT card",
        "card OR x",
        "level:card",
        "日本 card",
    ):
        plan = query(q, CONFIG)
        word, matches = word_of(plan), matcher(plan, 1)
        some = range(len(texts)) if word is None else piece(texts).may_hold(word)
        assert list(some) == sorted(set(some))
        assert {at for at, record in enumerate(records) if matches(record)} <= set(some), q


def test_what_is_passed_over() -> None:
    texts = [
        b'{"text":"A card"}',
        b'{"text":"other"}',
        b'{"text":"c\\u0061rd"}',
        '{"text":"ä"}'.encode(),
        b'{"card":1}',
    ]
    assert piece(texts).may_hold(b"card") == [0, 2, 3, 4]
    assert list(piece(texts, plain=False).may_hold(b"card")) == [0, 1, 2, 3, 4]
    assert piece([b'{"text":"card card"}'] * 3).may_hold(b"card") == [0, 1, 2]
    assert piece([b"{}"]).may_hold(b"card") == []


@pytest.mark.parametrize(
    ("q", "word"),
    [
        ("card", b"card"), ("a card", b"card"), ("text:car*", b"car"), ("card OR x", None), ("NOT card", None),
        ("level:error", None), ("level:error card", b"card"), ("naïve", None), ("naïve x", b"x"),
    ],
)  # fmt: skip
def test_the_word_that_every_match_has(q: str, word: bytes | None) -> None:
    assert word_of(query(q, CONFIG)) == word
