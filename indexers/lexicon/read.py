"""Reads lexicon runs: pages of distinct keys, and the objects of one."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import pyarrow.compute as pc

from indexers.lexicon.write import FAMILY
from indexers.runs import RunReader, Source, Written

_CHUNK_ROWS = 512  # keys that become Python's at a time: about a page
_FIRST_ROWS = 64  # and at first: of many runs, each gives a part of the page


class KeyPage(NamedTuple):
    """Distinct keys in byte order; `next_after` continues behind them, and is None when there are no more."""

    keys: list[str]
    next_after: str | None


class Lexicon(RunReader):
    """An open lexicon run."""

    def __init__(self, source: Source, *, name: str = "", expected: Written | None = None) -> None:
        super().__init__(FAMILY, source, name=name, expected=expected)

    def keys(self, stream: int, after: str | None = None, *, among: frozenset[int] | None = None) -> Iterator[str]:
        """The keys of a stream behind `after`, in byte order; row groups are read as far as they are asked for.

        `among`: only those that one of these sources holds, by their index in `objects`.
        """
        return chain.from_iterable(self.blocks(stream, after, among=among))

    def blocks(
        self, stream: int, after: str | None = None, *, among: frozenset[int] | None = None
    ) -> Iterator[list[str]]:
        """The same in lists, none of which is empty."""
        rows = _FIRST_ROWS
        columns = ("stream", "key") if among is None else ("stream", "key", "objects")
        for number in self.groups_within([(stream, stream), (after, None)]):
            table = self.group(number, columns)
            start, end = _stretch(table, stream)
            keys = table.column("key").chunk(0)
            start = _behind(keys, start, end, after)
            while start < end:
                at, start = start, min(end, start + rows)
                rows = _CHUNK_ROWS
                some = keys.slice(at, start - at).to_pylist()
                if among is not None:
                    sources = table.column("objects").chunk(0).slice(at, len(some)).to_pylist()
                    some = [key for key, held in zip(some, sources, strict=True) if not among.isdisjoint(held)]
                if some:
                    yield some

    def objects_of(self, stream: int, key: str) -> list[str]:
        """The objects that hold entries with this key; all others of the run hold none."""
        return self.names_of(self.ordinals_of(stream, key))

    def ordinals_of(self, stream: int, key: str) -> list[int]:
        """The same by their index in `objects`: what covers name them by."""
        for number in self.groups_within([(stream, stream), (key, key)]):
            table = self.group(number)
            found = table.filter(pc.and_(pc.equal(table.column("stream"), stream), pc.equal(table.column("key"), key)))
            if found.num_rows:
                return self.checked(found.column("objects")[0].as_py())
        return []


def key_page(lexicons: Sequence[Lexicon], stream: int, *, after: str | None = None, limit: int) -> KeyPage:
    """The first `limit` distinct keys behind `after` in all of the runs."""
    keys = first_keys([lexicon.blocks(stream, after) for lexicon in lexicons], limit + 1)
    if len(keys) <= limit:
        return KeyPage(keys, None)
    return KeyPage(keys[:limit], keys[limit - 1] if limit else after)


def first_keys(runs: Sequence[Iterator[list[str]]], most: int) -> list[str]:
    """The first distinct keys of all runs, in order: each time those that no run can have one before any more."""
    found, begun = list[str](), [(block, run) for run in runs if (block := next(run, []))]
    while begun and len(found) < most:
        last = min(block[-1] for block, _ in begun)
        some, left = set[str](), list[tuple[list[str], Iterator[list[str]]]]()
        for block, run in begun:
            at = bisect_right(block, last)
            some.update(block[:at])
            rest = block[at:] or next(run, [])
            if rest:
                left.append((rest, run))
        found += sorted(some)
        begun = left
    return found[:most]


def _stretch(table: Any, stream: int) -> tuple[int, int]:
    """The rows of a stream in a table that is sorted by it."""
    streams = table.column("stream").chunk(0)
    if len(streams) and streams[0].as_py() == stream == streams[-1].as_py():
        return 0, len(streams)
    rows = range(len(streams))
    start = bisect_left(rows, stream, key=lambda row: streams[row].as_py())
    return start, bisect_right(rows, stream, lo=start, key=lambda row: streams[row].as_py())


def _behind(keys: Any, start: int, end: int, after: str | None) -> int:
    """The first row from `start` on whose key is greater."""
    if after is None:
        return start
    while start < end:
        middle = (start + end) // 2
        if keys[middle].as_py() <= after:
            start = middle + 1
        else:
            end = middle
    return start
