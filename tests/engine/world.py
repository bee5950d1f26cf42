"""Entries of a few streams, put into companions, mini-companions and a tail at random; and what is right about them."""

import math
import random
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cmp_to_key
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
        for first, end in zip(cuts, cuts[1:], strict=False)
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


# --- what is right --------------------------------------------------------------------------------------------------


def matching(world: World, plan: Plan) -> list[int]:
    matches = matcher(plan, 1)
    return [seq for seq, record in world.records.items() if matches(record)]


def expected(world: World, plan: Plan, keys: Sequence[SortKey]) -> list[int]:
    """All hits in order, when no key is the score."""
    return sorted(matching(world, plan), key=cmp_to_key(lambda a, b: _compared(world, keys, a, b)))


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
    for at, token in enumerate(target.tokens):
        if clause.prefix and at == len(target.tokens) - 1:
            total += 1
            continue
        df = sum(token in _words(target.field, each) for each in documents)
        idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
        if target.field.kind is Kind.KEYWORD:
            total += idf
            continue
        ratio = _rounded(len(own)) / average if average else 1
        n = own.count(token)
        total += idf * 2.2 * n / (n + 1.2 * (0.25 + 0.75 * ratio))
    return total * target.boost


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
