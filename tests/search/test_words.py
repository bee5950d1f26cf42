"""Recent entries that cannot have a word are passed over by their stored texts, and none that has it; what is known of
their words is what their records say.
"""

import json
from functools import partial
from random import Random
from typing import Any

import pytest

from search.engine import SortKey, sort_of
from search.engine.bm25 import OfRecords, WordScore, bm25
from search.engine.sorting import place_of
from search.language import Plan, Scorer, matcher, query
from streams_node.answers.ranges import Range
from streams_node.searching.hits import Top, values_of
from streams_node.searching.look import look, word_of
from streams_node.searching.recent import Piece
from streams_node.searching.sieve import Wanted
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
        "level:CARD AND text:x",
        "level:ca*",
        'level:"a\nb"',
        'level:"card card x"',
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
        ("level:error", b"error"), ("level:error card", b"error"), ("level:Err*", b"err"), ("status:500", None),
        ("level:ä", None), ("naïve", None), ("naïve x", b"x"),
    ],
)  # fmt: skip
def test_the_word_that_every_match_has(q: str, word: bytes | None) -> None:
    assert word_of(query(q, CONFIG)) == word


def best(pieces: list[Piece], plan: Plan, keys: tuple[SortKey, ...], score: Scorer) -> list[tuple[int, float | None]]:
    top = Top(5, None)
    look(pieces, [Range(103, 399)], Wanted(plan, 1, keys, top, score), lambda: False)
    return [(hit.seq, hit.score) for hit in top.best()]


@pytest.mark.parametrize("seed", range(10))
def test_by_one_word_the_same_is_best_as_by_records(seed: int) -> None:
    """Also when a piece becomes longer after others have looked at it."""
    random = Random(seed)
    common = (*["card"] * 5, *WORDS)
    records: list[Any] = [
        {
            "text": [" ".join(random.choices(common, k=random.randrange(9))) for _ in range(random.randrange(3))],
            "at": at,
        }
        for at in range(300)
    ]
    records[7] = None
    texts = [json.dumps(record).encode() for record in records]
    pieces = [Piece(100 + at, texts[at : at + 40], records[at : at + 40], plain=True) for at in range(0, 300, 40)]
    for q, sort in (
        ("text:card", None),
        ("text:x", ["_score:asc"]),
        ("text:rd", ["at", "_score"]),
        ("text:none", None),
        ("text:card", ["offset"]),
    ):
        plan = query(q, CONFIG)
        keys = sort_of(sort, plan, CONFIG)
        score, values, place = bm25(plan, 1, OfRecords(records, plan, 1)), values_of(keys, 1), place_of(keys)
        assert isinstance(score, WordScore)
        found = best(pieces, plan, keys, score)
        assert found == best(pieces, plan, keys, partial(WordScore.__call__, score)), q
        scores = [(seq, score(records[seq - 100])) for seq in range(103, 399)]
        if any(key.by == "score" for key in keys):
            right = [each for each in scores if each[1] is not None]
            right.sort(key=lambda each: place(values(records[each[0] - 100], each[0], each[1] or 0.0)))
            assert found == right[:5], q
        pieces[:2] = [pieces[0].and_then(pieces[1])]


def test_of_many_texts_few_are_known_by_their_words() -> None:
    one = piece([b'{"text":"a card"}', b"7"])
    for version in range(99):
        assert one.spoken(CONFIG.fields["text"], version)[1] == ("  ", 0)
    assert one.spoken(CONFIG.fields["text"], 1) == [(" a  card ", 2), ("  ", 0)]
    assert len(one.learnt) < 9
