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
from streams_node.searching.look import _candidates, look, ruled_out, word_of
from streams_node.searching.recent import Piece
from streams_node.searching.sieve import Wanted
from tests.search.world import CONFIG

WORDS = ("card", "Card", "CARDS", "ca", "rd", "naïve", "\u212aard", "İx", "a\nb", '"card"', "\\card", "x", "日本")


BY_OFFSET = (SortKey("offset"),)


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
        matches, one = matcher(plan, 1), piece(texts)
        some = _candidates(Wanted(plan, 1, BY_OFFSET, Top(5, None), lambda _: None))(one)
        assert list(some) == sorted(set(some))
        assert {at for at, record in enumerate(records) if matches(record)} <= set(some), q


@pytest.mark.parametrize("seed", range(20))
def test_what_is_ruled_out_has_no_match(seed: int) -> None:
    """By values of keywords, learnt piece by piece while these grow; and it is often ruled out."""
    random, said = Random(seed), [0, 0]
    levels: tuple[Any, ...] = ("a", "B", "b", "c d", "ü", ["a", ["x", 7]], [], None, 5, "rare")
    pieces: list[Piece] = []
    for _ in range(30):
        records: list[Any] = [{"level": random.choice(levels[:-1])} for _ in range(random.randrange(1, 20))]
        records.append({"level": "rare"} if random.random() < 0.02 else None)
        first = pieces[-1].end if pieces else 100
        more = Piece(first, [json.dumps(record).encode() for record in records], records, plain=True)
        if pieces and random.random() < 0.7:
            more = pieces.pop().and_then(more)
        pieces.append(more)
        for q in ("level:a", "level:rare", "level:none", "level:rare AND level:a", "NOT level:rare", "level:x text:y"):
            plan = query(q, CONFIG)
            wanted, spans = Wanted(plan, 1, BY_OFFSET, Top(5, None), lambda _: None), [Range(105, pieces[-1].end)]
            looked, matches = ruled_out(pieces, spans, wanted), matcher(plan, 1)
            found = [
                piece.first + at
                for piece in pieces
                for at, record in enumerate(piece.records)
                if piece.first + at >= 105 and matches(record)
            ]
            said[looked is None] += 1
            if looked is not None:
                assert not found, q
                assert sorted(range(*spans[0])) == sorted(seq for part in looked.ranges for seq in range(*part))
                assert looked.bytes == sum(len(piece.texts[seq - piece.first]) for piece in pieces
                                           for seq in range(max(105, piece.first), piece.end))  # fmt: skip
            look(pieces, spans, wanted, lambda: False)
            assert [hit.seq for hit in wanted.top.best()] == found[::-1][:5], q
    assert min(said) > 20


def test_a_first_look_at_many_entries_is_not_taken_on_the_loop() -> None:
    records = [{"level": "a"}] * 200
    one = Piece(0, [b'{"level":"a"}'] * 200, records, plain=True)
    wanted = Wanted(query("level:none", CONFIG), 1, BY_OFFSET, Top(5, None), lambda _: None)
    assert ruled_out([one], [Range(0, 200)], wanted) is None
    look([one], [Range(0, 200)], wanted, lambda: False)
    assert ruled_out([one], [Range(0, 200)], wanted) is not None
    longer = one.and_then(Piece(200, [b"{}"] * 20, [{}] * 20, plain=True))
    assert ruled_out([longer], [Range(0, 220)], wanted) is not None


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
        ("level:error", b"error"), ("level:error card", b"error"), ("level:ä", None),
        ("card", b"card"), ("a card", b"card"), ("text:car*", b"car"), ("card OR x", None), ("NOT card", None),
        ("level:Err*", b"err"), ("status:500", None), ("naïve", None), ("naïve x", b"x"),
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


def test_keywords_with_very_many_values_are_not_learnt() -> None:
    """They would take more memory than their entries; what is sought is looked for in the texts then."""
    records: list[Any] = [{"level": [f"v{number}" for number in range(first, first + 600)]} for first in (0, 600, 5)]
    few, many = piece([json.dumps(records[0]).encode()]), piece([json.dumps(record).encode() for record in records])
    level = CONFIG.fields["level"]
    assert few.with_value(level, 1, "v7") == (0,)
    assert many.with_value(level, 1, "v7") is None
    assert many.and_then(piece([b"{}"])).with_value(level, 1, "v7") is None
    assert not many.learnt[next(iter(many.learnt))].places
    for q, found in (("level:v7", [102, 100]), ("level:v700", [101]), ("level:none", [])):
        wanted = Wanted(query(q, CONFIG), 1, BY_OFFSET, Top(5, None), lambda _: None)
        assert ruled_out([many], [Range(100, 103)], wanted) is None
        look([many], [Range(100, 103)], wanted, lambda: False)
        assert [hit.seq for hit in wanted.top.best()] == found


def test_what_was_asked_for_longest_ago_is_forgotten_first() -> None:
    one = piece([b'{"level":"a"}'])
    level = CONFIG.fields["level"]
    for version in range(99):
        one.with_value(level, version, "a")
        assert len(one.learnt) < 9
    assert one.unlearnt(level, 98) == one.unlearnt(level, 97) == 0
    assert one.unlearnt(level, 1) > len(one.texts[0])
