"""Sets of sequences as lists of half-open spans. Pure."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

Span = tuple[int, int]


def united(spans: Iterable[Span]) -> list[Span]:
    """The same set: in order, without empty spans, neighbours joined."""
    found: list[Span] = []
    for first, end in sorted(spans):
        if first >= end:
            continue
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return found


def without(spans: Iterable[Span], holes: Iterable[Span]) -> list[Span]:
    """What is left of a set when another one is taken out."""
    found: list[Span] = []
    taken = united(holes)
    at = 0
    for begin, end in united(spans):
        first = begin
        while at < len(taken) and taken[at][1] <= first:
            at += 1
        here = at
        while here < len(taken) and taken[here][0] < end:
            if taken[here][0] > first:
                found.append((first, taken[here][0]))
            first = max(first, taken[here][1])
            here += 1
        if first < end:
            found.append((first, end))
    return found


def meeting(spans: Iterable[Span], first: int, end: int) -> list[Span]:
    """What of a set lies in one span."""
    return united((max(first, each[0]), min(end, each[1])) for each in spans)


def size(spans: Iterable[Span]) -> int:
    return sum(end - first for first, end in united(spans))


def holds(outer: Iterable[Span], inner: Iterable[Span]) -> bool:
    """Whether one set holds all of another."""
    return not without(inner, outer)


def cut(wanted: Sequence[tuple[str, Sequence[Span]]], first: int, end: int) -> list[tuple[int, int, list[str]]]:
    """A span in pieces, each with the names of the sets that hold it; what is in none is left out."""
    inside = [(name, meeting(spans, first, end)) for name, spans in wanted]
    edges = sorted({edge for _, spans in inside for span in spans for edge in span})
    pieces: list[tuple[int, int, list[str]]] = []
    for begin, stop in pairwise(edges):
        names = [name for name, spans in inside if any(span[0] <= begin and stop <= span[1] for span in spans)]
        if names and pieces and pieces[-1][1] == begin and pieces[-1][2] == names:
            pieces[-1] = (pieces[-1][0], stop, names)
        elif names:
            pieces.append((begin, stop, names))
    return pieces
