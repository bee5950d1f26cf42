"""Entries of a page as the current version has them. What is of the current version stays the bytes that are stored."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from streams_node.errors import LensError
from streams_node.meaning.meaning import Meaning
from streams_node.protocol.frames import json_elements
from streams_node.schema.errors import LensFailed
from streams_node.schema.promotion import room_for

GROWTH_BYTES_MAX = 32 << 20  # of one page: beyond it, or beyond its time, a page ends early
_LOOK_AT_CLOCK = 64  # entries
_TOO_LARGE = "document becomes nested too deep"


class Promoted(NamedTuple):
    """A page that was promoted: comma-joined entries, and the sequence after the last one."""

    payload: bytes
    end: int


def promoted(
    meaning: Meaning, start: int, payload: bytes, token: Callable[[int], str], *, framed: bool, seconds: float
) -> Promoted:
    """The entries of a JSON page from `start` on. It ends early rather than take too long, but has one entry."""
    texts = json_elements(payload if framed else b"[%b]" % payload).each()
    ends = time.monotonic() + seconds
    left = GROWTH_BYTES_MAX
    old = min(len(texts), meaning.registry.current_from - start)
    for at, (document, text) in enumerate(zip(_promoted(meaning, start, texts[:old], token), texts[:old], strict=True)):
        texts[at] = _dumps(document, start + at, token)
        left -= max(0, len(texts[at]) - len(text))
        if left < 0 or (at % _LOOK_AT_CLOCK == 0 and time.monotonic() > ends):
            return Promoted(b",".join(texts[: at + 1]), start + at + 1)
    return Promoted(b",".join(texts), start + len(texts))


def documents(meaning: Meaning, start: int, texts: Sequence[bytes], token: Callable[[int], str]) -> Iterator[Any]:
    """Neighbouring entries, parsed, as the current version has them: for who looks into them."""
    old = max(0, min(len(texts), meaning.registry.current_from - start))
    yield from _promoted(meaning, start, texts[:old], token)
    yield from map(orjson.loads, texts[old:])


def _promoted(meaning: Meaning, start: int, texts: Sequence[bytes], token: Callable[[int], str]) -> Iterator[Any]:
    if meaning.problem is not None:
        raise meaning.problem
    registry, promote = meaning.registry, meaning.promoter.promote
    bounds = [(each.offset, each.version) for each in registry.boundaries]
    at = registry.version_of(start) - 1  # versions are numbered from 1, and none is left out
    for seq, text in enumerate(texts, start):
        while at + 1 < len(bounds) and bounds[at + 1][0] <= seq:
            at += 1
        try:
            yield promote(orjson.loads(text), bounds[at][1], room_for(len(text)))
        except LensFailed as problem:
            raise _failed(str(problem), seq, token) from None


def _dumps(document: Any, seq: int, token: Callable[[int], str]) -> bytes:
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError:
        raise _failed(_TOO_LARGE, seq, token) from None


def _failed(problem: str, seq: int, token: Callable[[int], str]) -> LensError:
    return LensError(f"{problem}; the entry after offset {token(seq)} cannot be shown, format=raw shows it as stored")
