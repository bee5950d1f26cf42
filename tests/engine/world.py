"""Entries of a few streams, put into companions, mini-companions and a tail at random; and what is right about them."""

import math
import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cmp_to_key, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from indexers.companion import Layout, Pack, View
from search.engine import Entry, SortKey, Span, build_mini
from search.language import AllOf, AnyOf, NotOf, Plan, Target, Text, has_text, matcher, values, words
from streams_node.schema.search_config import Field, Kind, SearchConfig, parse
from tests.language.examples import CONFIG as EXAMPLE

STREAM, OTHER = 7, 8


def _config() -> SearchConfig:
    document: dict[str, Any] = deepcopy(EXAMPLE)
    for name in ("ok", "tags", "service", "status"):
        document["fields"][name].update(sortable=True, aggregatable=True)
    return parse(document)


CONFIG = _config()
LAYOUT = Layout(CONFIG.fields)


@dataclass
class World:
    """`spans` say which entries of the companions count; `trimmed` do not, though they are in the companions."""

    packs: list[Pack]
    views: list[View]
    spans: list[Span]
    tail: list[Entry]
    records: dict[int, object]  # of entries that count
    indexed: list[object]  # of all documents of the view
    asked: int = 0

    def fetch(self, seqs: Sequence[int]) -> dict[int, object]:
        self.asked += len(seqs)
        return {seq: self.records[seq] for seq in seqs if seq in self.records}


def built(folder: Path, records: Sequence[object], draw: random.Random, *, stitched: bool = True) -> World:
    """Neighbouring entries in each companion; those of another stream beside them; some trimmed, some in the tail."""
    folder.mkdir()
    tail_from = draw.choice([0, len(records), draw.randint(0, len(records)), draw.randint(0, len(records))])
    cuts = sorted({0, tail_from, *(draw.randint(0, tail_from) for _ in range(draw.randrange(4)))})
    packs = [
        pack(folder, STREAM, [Entry(seq, seq * 10, records[seq]) for seq in range(first, end)])
        for first, end in pairwise(cuts)
    ]
    indexed = list(records[:tail_from])
    if packs and draw.random() < 0.5:
        others = [draw.choice(records) for _ in range(draw.randint(1, 5))]
        packs.append(pack(folder, OTHER, [Entry(seq, seq, record) for seq, record in enumerate(others)]))
        indexed += others
    spans = _spans(tail_from, draw)
    counted = [seq for first, end in spans for seq in range(first, end)]
    tail = [Entry(seq, seq * 10, records[seq]) for seq in range(tail_from, len(records))]
    draw.shuffle(tail)
    views = [View([each], folder / f"view-{at}") for at, each in enumerate(packs)]
    if packs and stitched:
        views = [View(packs, folder / "view")]
    every = {
        seq: records[seq] for seq in [*filter(range(tail_from).__contains__, counted), *range(tail_from, len(records))]
    }
    return World(packs, views, spans, tail, every, indexed)


def pack(folder: Path, stream: int, entries: Sequence[Entry]) -> Pack:
    name = f"{stream}-{entries[0].seq}"
    target = build_mini(
        entries, stream=stream, config="c", layout=LAYOUT, version=1, folder=folder / f"w{name}", target=folder / name
    )
    return Pack(target)


def _spans(end: int, draw: random.Random) -> list[Span]:
    if draw.random() < 0.5:
        return [(0, end)] if draw.random() < 0.5 else [(0, end + 10)]
    cuts = sorted(draw.randint(0, end) for _ in range(4))
    return [(cuts[0], cuts[1]), (cuts[2], cuts[3])]


# --- records and queries that meet each other -----------------------------------------------------------------------

_WORDS = ["card", "Card", "declined", "by", "bank", "ba", "b", "É", "x1", "İ", "日本", "e\u0301"]
_TERMS = ["card", "Card", "declined", "ba", "bank", "É", "x1", "", "a\nb", "a.*", "\ud800", "q" * 70_000, "ba" * 80]
_NUMBERS = [-3, -1, 0, 1, 2, 3, 5, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**70, -(2**70)]
_FLOATS = [0.0, -0.0, 1.0, 1.5, -2.25, 3.0, 1e300, -1e300, 5e-324]
_DATES = [
    "2026-03-25T10:04:00Z", "2026-03-25T10:04:00.000000001Z", "2026-03-25T10:04:00.0000001Z", "2026-03-25",
    "1500-01-01", "+275760-09-13T00:00:00Z", 1774433040000, 1774433040001, 0, -1,
]  # fmt: skip
_ODD = [None, True, {}, {"a": 1}, "", "7", 2, 1.5, "card"]


def _text(draw: random.Random) -> str:
    return " ".join(draw.choice(_WORDS) for _ in range(draw.choice([0, 1, 1, 2, 3, 5, 60])))


_POOLS: dict[str, Callable[[random.Random], Any]] = {
    "eventTime": lambda draw: draw.choice(_DATES),
    "level": lambda draw: draw.choice(_TERMS),
    "service": lambda draw: draw.choice(_TERMS[:4]),
    "status": lambda draw: draw.choice(_NUMBERS),
    "dur": lambda draw: draw.choice(_FLOATS),
    "ok": lambda draw: draw.random() < 0.5,
    "tags": lambda draw: draw.choice(_TERMS),
    "message": _text,
    "title": _text,
}


def random_records(draw: random.Random, most: int = 60) -> list[Any]:
    """`odd`: how often something is missing, wrong, or several."""
    odd = draw.choice([0.0, 0.05, 0.4])
    found = [_record(draw, odd) for _ in range(draw.randint(0, most))]
    if draw.random() < 0.4:
        for at, record in enumerate(found):
            if isinstance(record, dict) and isinstance(record.get("eventTime"), str | int):
                record["eventTime"] = 1774433040000 + 1000 * at + draw.randrange(5000)  # about in the order of entries
    return found


def _record(draw: random.Random, odd: float) -> Any:
    if draw.random() < odd / 5:
        return draw.choice([5, "x", None, [1]])
    record = {}
    for name, pool in _POOLS.items():
        if draw.random() >= odd:
            record[name] = pool(draw)
        elif draw.random() < 0.6:
            record[name] = draw.choice([draw.choice(_ODD), [pool(draw) for _ in range(draw.randrange(4))]])
    return record


def random_query(draw: random.Random, depth: int = 2) -> str:
    if depth and draw.random() < 0.6:
        parts = [random_query(draw, depth - 1) for _ in range(draw.randint(1, 3))]
        joined = f"({draw.choice([' AND ', ' OR ', ' ']).join(parts)})"
        return f"NOT {joined}" if draw.random() < 0.2 else joined
    return draw.choice([_has, _keyword, _number, _date, _bool, _bare, _bare, _bare])(draw)


def _has(draw: random.Random) -> str:
    return f"has:{draw.choice(['eventTime', 'level', 'service', 'status', 'dur', 'ok', 'tags', 'message', 'title'])}"


def _keyword(draw: random.Random) -> str:
    name, term = draw.choice(["level", "tags"]), draw.choice(_TERMS)
    if draw.random() < 0.5:
        return f"{name}:{_quoted(term)}"
    return f"{name}:{_quoted(term[: draw.choice([1, 2, 110, 80_000])] + '*')}"


def _number(draw: random.Random) -> str:
    literal = f'{draw.choice(["", ">", ">=", "<", "<="])}"'
    return (
        f'status:{literal}{draw.choice(_NUMBERS)}"' if draw.random() < 0.5 else f'dur:{literal}{draw.choice(_FLOATS)}"'
    )


def _date(draw: random.Random) -> str:
    return f'eventTime:{draw.choice(["", ">", ">=", "<", "<="])}"{draw.choice(_DATES)}"'


def _bool(draw: random.Random) -> str:
    return f"ok:{draw.choice(['', '>', '>=', '<', '<='])}{draw.choice(['true', 'false'])}"


def _bare(draw: random.Random) -> str:
    words = [draw.choice(_WORDS) for _ in range(draw.choice([1, 1, 2, 3]))]
    star = draw.choice(["", "", "*"])
    term = f'"{" ".join(words)}{star}"' if draw.random() < 0.5 else f"{'-'.join(words)}{star}"
    return draw.choice(["", "message:", "title:"]) + term


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# --- what is right --------------------------------------------------------------------------------------------------


def matching(world: World, plan: Plan) -> list[int]:
    matches = matcher(plan, 1)
    return [seq for seq, record in world.records.items() if matches(record)]


def expected(world: World, plan: Plan, keys: Sequence[SortKey]) -> list[int]:
    """All hits in order, when no key is the score."""
    return sorted(matching(world, plan), key=cmp_to_key(partial(_compared, world, keys)))


def _compared(world: World, keys: Sequence[SortKey], a: int, b: int) -> int:
    for key in keys:
        left, right = (_value(world, key, seq) for seq in (a, b))
        if left == right:
            continue
        greater = left is None or (right is not None and left > right)
        return 1 if greater != key.descending else -1
    return 0


def _value(world: World, key: SortKey, seq: int) -> Any:
    if key.field is None:
        return seq
    found = values(key.field, 1)(world.records[seq])
    return found[0] if found else None


def score(world: World, plan: Plan, record: object) -> float | None:
    """BM25 as the manual writes it, over the documents of the view; without a view, over those of the tail."""
    documents = world.indexed if world.packs else [entry.record for entry in world.tail]
    if not has_text(plan) or isinstance(plan, NotOf):
        return 0.0 if matcher(plan, 1)(record) else None
    if isinstance(plan, AllOf | AnyOf):
        found = [each for each in (score(world, part, record) for part in plan.parts) if each is not None]
        return sum(found) if len(found) >= (len(plan.parts) if isinstance(plan, AllOf) else 1) else None
    assert isinstance(plan, Text)
    scores = [
        _target_score(documents, plan, target, record)
        for target in plan.targets
        if matcher(Text((target,), plan.phrase, plan.prefix), 1)(record)
    ]
    return max(scores, default=None)


def _target_score(documents: Sequence[object], clause: Text, target: Target, record: object) -> float:
    total = 0.0
    lengths = [len(_words(target.field, each)) for each in documents]
    average = sum(lengths) / len(lengths)
    own = _words(target.field, record)
    ratio = _rounded(len(own)) / average if average else 1
    if clause.phrase and not clause.prefix and len(target.tokens) > 1:
        found = [sum(token in _words(target.field, each) for each in documents) for token in target.tokens]
        idf = sum(math.log(1 + (len(documents) - df + 0.5) / (df + 0.5)) for df in found)
        n = sum(_occurrences(words(str(value)), target.tokens) for value in values(target.field, 1)(record))
        return target.boost * idf * 2.2 * n / (n + 1.2 * (0.25 + 0.75 * ratio))
    for at, token in enumerate(target.tokens):
        if clause.prefix and at == len(target.tokens) - 1:
            total += 1
            continue
        df = sum(token in _words(target.field, each) for each in documents)
        idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
        if target.field.kind is Kind.KEYWORD:
            total += idf
            continue
        n = own.count(token)
        total += idf * 2.2 * n / (n + 1.2 * (0.25 + 0.75 * ratio))
    return total * target.boost


def _occurrences(text: Sequence[str], phrase: Sequence[str]) -> int:
    return sum(tuple(text[at : at + len(phrase)]) == tuple(phrase) for at in range(len(text)))


def _words(field: Field, record: object) -> list[str]:
    found = [str(value) for value in values(field, 1)(record)]
    return found if field.kind is Kind.KEYWORD else [word for text in found for word in words(text)]


def _rounded(length: int) -> int:
    """Five bits of it are kept, the first of them always set, beyond 24 and counted from there."""
    if length <= 40:
        return length
    above = length - 24
    drop = above.bit_length() - 4
    return 24 + (above >> drop << drop)
