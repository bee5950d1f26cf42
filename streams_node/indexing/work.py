"""Puts a claim together: which stretches of which sealed objects, or which index objects to merge."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

import sql
from indexers.messages import Build, Cover, IndexObject, Meaning, Merge, Source, Stretch
from indexers.plan import FAMILIES, Family
from streams_node.indexing.covers import decode_configs
from streams_node.indexing.leases import Wanted
from streams_node.indexing.spans import Span, cut, meeting, united, without
from streams_node.placement.locate import Located
from streams_node.placement.made import ObjectFacts
from streams_node.schema.jsontext import dumps, loads

_INDEX = sql.queries("index")
STRETCHES_MAX = 1000  # in a claim: its commit is one transaction, some 20 µs a cover, and appends wait for that
MEANING_BYTES_MAX = 8 << 20
MERGED = 16
LEVELS = 6
_FUSED_MIN, _ALIKE, _ROWS_ALIKE = 8, 1.6, 10_000  # segments, the largest by the smallest, and what counts as so large
COVERS_MERGED_MAX = 4000  # of the inputs of a merge, for the same reason
_LOOKED_AT = 100_000  # objects of a family and level, 2 µs each: of most configurations there are too few to merge


class Lacking(NamedTuple):
    """A stream: what its entries mean, and which of them lack which family."""

    meaning: Meaning
    wanted: Mapping[Family, list[Span]]

    def spans(self, first: int, end: int) -> list[Span]:
        """What lacks anything, within bounds."""
        return meeting((span for spans in self.wanted.values() for span in spans), first, end)


def lacking(db: sqlite3.Connection, ends: Mapping[int, int]) -> dict[int, tuple[Meaning, dict[Family, list[Span]]]]:
    """Of each stream that should be indexed: its meaning, and the entries that no cover holds. Up to its end in the
    log, or to the one that is given, as heads are written behind: whoever locates them finds out which are sealed.
    """
    asked = {"streams": msgspec.json.encode(list(ends)).decode()}
    found = {}
    for stream, start, next_seq, registry, profile, content_type, configs in db.execute(
        _INDEX.meaning_of, asked
    ).fetchall():
        plan = decode_configs(configs)
        if not plan:
            continue
        end = max(next_seq, ends[stream])
        covered: dict[tuple[str, str], list[Span]] = {}
        for family, config, first, stop in db.execute(_INDEX.spans_of, (stream,)):
            covered.setdefault((family, config), []).append((first, stop))
        wanted = {family: without([(start, end)], covered.get((family, config), ())) for family, config in plan.items()}
        wanted = {family: spans for family, spans in wanted.items() if spans}
        if wanted:
            meaning = Meaning(
                registry=msgspec.Raw(_nameless(registry)),
                profile=profile,
                content_type=content_type,
                configs=dict(plan),
            )
            found[stream] = (meaning, wanted)
    return found


def _nameless(registry: str) -> bytes:
    """Streams that are declared alike have registries that differ in their names only: a claim lists them once."""
    document = loads(registry.encode())
    lenses = {at: {**lens, "schema": ""} for at, lens in document["lenses"].items()}
    return dumps({**document, "schema": "", "lenses": lenses})


@dataclass(slots=True)
class Claimed:
    """What a claim holds so far."""

    bytes_max: int
    source_bytes: int = 0
    stretches: int = 0
    meanings: list[Meaning] = field(default_factory=list)
    wanted: dict[tuple[int, Family], Wanted] = field(default_factory=dict)
    _sources: dict[str, tuple[ObjectFacts, list[Stretch]]] = field(default_factory=dict)
    _places: dict[int, int] = field(default_factory=dict)
    _texts: dict[bytes, int] = field(default_factory=dict)
    _kept: list[Meaning] = field(default_factory=list)
    _meaning_bytes: int = 0

    def fits(self, facts: ObjectFacts) -> bool:
        """Whether stretches of an object may come in; the first object always may."""
        if self.stretches >= STRETCHES_MAX or self._meaning_bytes >= MEANING_BYTES_MAX:
            return False
        return facts.made in self._sources or not self._sources or self.source_bytes + facts.bytes <= self.bytes_max

    @property
    def full(self) -> bool:
        return (
            self.stretches >= STRETCHES_MAX
            or self.source_bytes >= self.bytes_max
            or (self._meaning_bytes >= MEANING_BYTES_MAX)
        )

    def take(self, stream: int, lacking: Lacking, place: Located, within: Iterable[Span]) -> None:
        """All that lacks an index of a stream's entries in one object, within some spans."""
        for first, end in within:
            for begin, stop, names in cut(list(lacking.wanted.items()), first, end):
                families: list[Family] = [name for name in FAMILIES if name in names]
                self._add(stream, lacking.meaning, place, begin, stop, families)

    def work(self) -> list[Build | Merge]:
        return [
            Build(
                source=Source(
                    made=facts.made, key=facts.key(), kind=facts.kind, bytes=facts.bytes, sha256=facts.sha256
                ),
                stretches=sorted(stretches, key=lambda each: each.row_index),
            )
            for facts, stretches in self._sources.values()
        ]

    @property
    def sources(self) -> frozenset[str]:
        return frozenset(self._sources)

    def _add(self, stream: int, meaning: Meaning, place: Located, first: int, end: int, families: list[Family]) -> None:
        made = place.facts.made
        if made not in self._sources:
            self._sources[made] = (place.facts, [])
            self.source_bytes += place.facts.bytes
        row = place.row_index + first - place.first_seq
        stretch = Stretch(
            stream=stream,
            first_seq=first,
            end_seq=end,
            row_index=row,
            meaning=self._place_of(meaning),
            families=families,
        )
        self._sources[made][1].append(stretch)
        self.stretches += 1
        for family in families:
            known = self.wanted.get((stream, family))
            spans = [(first, end)] if known is None else united([*known.spans, (first, end)])
            self.wanted[stream, family] = Wanted(meaning.configs[family], spans)

    def _place_of(self, meaning: Meaning) -> int:
        place = self._places.get(id(meaning))  # each comes again for every object of its stream
        if place is None:
            text = msgspec.json.encode(meaning)
            place = self._texts.get(text)
            if place is None:
                place = self._texts[text] = len(self.meanings)
                self._meaning_bytes += len(text)
                self.meanings.append(meaning)
            self._places[id(meaning)] = place
            self._kept.append(meaning)
        return place


# --- merges ---------------------------------------------------------------------------------------------------------


def merges(
    db: sqlite3.Connection, busy: set[str], bytes_max: int, object_bytes_max: int, merges_max: int
) -> list[Merge]:
    """Sixteen objects of one family and level become one; companions only if they are of one configuration, and of
    sixteen those of about one size, if these are eight.
    """
    found: list[Merge] = []
    left = bytes_max
    for family in FAMILIES:
        for level in range(LEVELS):
            for names, size in _sixteens(db, family, level, busy, object_bytes_max):
                if found and (size > left or len(found) >= merges_max):
                    return found
                inputs = [_object(db, made) for made in names]
                found.append(Merge(family=family, level=level + 1, inputs=inputs))
                left -= size
    return found


class _Input(NamedTuple):
    made: str
    bytes: int
    covers: int
    rows: int


def _sixteens(
    db: sqlite3.Connection, family: Family, level: int, busy: set[str], bytes_max: int
) -> Iterator[tuple[list[str], int]]:
    asked = {"family": family, "level": level, "bytes_max": bytes_max // MERGED, "limit": _LOOKED_AT}
    groups: dict[str | None, list[_Input]] = {}
    for made, size, covers, rows, config in db.execute(_INDEX.mergeable, asked):
        if made in busy or not covers:
            continue
        name = config if family == "companion" else None
        group = groups.get(name, [])
        if group and sum(each.covers for each in group) + covers > COVERS_MERGED_MAX:
            if len(group) > 1:
                yield _taken(group)
            group = []
        group.append(_Input(made, size, covers, rows))
        if len(group) == MERGED:
            some = _fusing(group) if family == "companion" else group
            yield _taken(some)
            group = [each for each in group if each not in some]
        groups[name] = group


def _taken(some: Sequence[_Input]) -> tuple[list[str], int]:
    return [each.made for each in some], sum(each.bytes for each in some)


def _fusing(companions: Sequence[_Input]) -> Sequence[_Input]:
    """Those that Tantivy makes one segment of: it does so with eight or more of about one size. Else all of them."""
    found: Sequence[_Input] = ()
    for most in (max(each.rows, _ROWS_ALIKE) for each in companions):
        some = [each for each in companions if most / _ALIKE < max(each.rows, _ROWS_ALIKE) <= most]
        found = some if len(some) > len(found) else found
    return found if len(found) >= _FUSED_MIN else companions


def _object(db: sqlite3.Connection, made: str) -> IndexObject:
    row: tuple[Any, ...] = db.execute(_INDEX.index_object, (made,)).fetchone()
    number, _, family, level, size, checksum, rows, filter_bytes, filter_sum, sections, _, _ = row
    covers = [
        Cover(
            stream=stream, first_seq=first, end_seq=end, config=config, ordinal=ordinal, entries=entries,
            payload_bytes=payload, min_ts=min_ts, max_ts=max_ts, skipped=skipped,
        )
        for stream, first, end, config, ordinal, entries, payload, min_ts, max_ts, skipped in db.execute(
            _INDEX.object_covers, (number,)
        )
    ]  # fmt: skip
    return IndexObject(
        made=made, family=family, level=level, bytes=size, sum=checksum, rows=rows, covers=covers,
        filter_bytes=filter_bytes, filter_sum=filter_sum,
        sections=msgspec.json.decode(sections, type=dict[str, int]),
    )  # fmt: skip
