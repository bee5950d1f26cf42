"""The sieve of `filter=`: parses entries, promotes old ones, and asks the query's own evaluator.

Of an entry only the members that the query asks for become values: to pass over the others takes a third of the time.
A query that cannot match without a certain text in the record is spared most of the parsing: only entries that hold the
text are looked at, and those in which an escape may hide it.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypedDict

import msgspec
import orjson

from search.language import AnyOf, Compare, Matcher, Op, Plan, fields, necessary
from search.language.pointers import segments
from streams_node.read.keyed import Chunk, Lenses, Pruner, promoted, shown
from streams_node.schema.search_config import Kind

_TEXTS_MAX = 8  # that are searched for one after another
_FEW = 4  # one entry in so many
_HIDDEN_BY_BACKSLASH = frozenset('"\\/')
_MEMBERS_MAX = 32  # with more of them, there is little to pass over
_PARSERS_MAX = 256
_SHORT_BYTES = 4096
_SPACE = 0x20
_DELETE = 0x7F


class Filtered:
    """The sieve that takes what a matcher takes; of those with a key, if one is given."""

    def __init__(
        self, plan: Plan, matches: Matcher, *, key: str | None = None, lenses: Lenses | None = None, raw: bool = False,
        pruner: Pruner | None = None, parse: Callable[[bytes], Any] | None = None,
    ) -> None:  # fmt: skip
        """`parse` makes of an entry the record that is matched; by default it is all of it."""
        self.key = key
        self.pruner = pruner
        self._matches = matches
        self._texts = needed(plan)
        self._lenses = lenses
        self._raw = raw
        self._parse = parsed if parse is None else parse

    def matching(self, chunk: Chunk, count: int) -> Iterator[tuple[int, bytes | None]]:
        """Those that match, as they are shown."""
        data, begins, ends, matches, parse = chunk.data, chunk.begins, chunk.ends, self._matches, self._parse
        lenses, old = self._lenses, 0
        if lenses is not None:
            old = min(count, bisect_left(chunk.seqs, lenses.current_from))
            for at in range(old):
                document = promoted(lenses, chunk, at)
                if not matches(document):
                    yield at, None
                else:
                    yield at, data[begins[at] : ends[at]] if self._raw else shown(lenses, chunk, at, document)
        for at in self._candidates(chunk, old, count):
            text = data[begins[at] : ends[at]]
            if matches(parse(text)):
                yield at, text

    def _candidates(self, chunk: Chunk, first: int, count: int) -> Iterable[int]:
        """Those that have to be parsed. Where many hold the text, finding each would take longer than it saves."""
        if self._texts is None:
            return range(first, count)
        data = chunk.data
        spelled = b"\\" in data  # to look for one character takes no time
        counts = {text: data.count(text) for text in self._texts if spelled or not text.startswith(b"\\")}
        held = [text for text, times in counts.items() if times]
        if sum(counts.values()) * _FEW > count:
            return range(first, count)
        return _holding(chunk, first, count, held) if held else ()


def parsed(text: bytes) -> Any:
    """The record of an entry. One that the fast parser refuses may still be JSON; what none can read has no fields."""
    try:
        return orjson.loads(text)
    except ValueError:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return None


def parser_of(plan: Plan, version: int) -> Callable[[bytes], Any]:
    """As `parsed`, as far as an evaluation of the plan can tell: a record may lack what is not asked for."""
    pointers = [pointer for field in fields(plan) if (pointer := field.pointer(version)) is not None]
    members = frozenset(segments(pointer)[0] for pointer in pointers if pointer)
    if "" in pointers or len(members) > _MEMBERS_MAX or not all(map(str.isascii, members)):
        return parsed
    some = _parser(members)

    def parse(text: bytes) -> Any:
        # Whatever is strange may be understood in another way, and is left to the parser of whole records: what is no
        # text of ASCII, and numbers of so many digits that Python refuses them.
        if len(text) <= _SHORT_BYTES and text.isascii():
            try:
                return some(text)
            except (msgspec.DecodeError, RecursionError):
                pass
        return parsed(text)

    return parse


@lru_cache(_PARSERS_MAX)
def _parser(members: frozenset[str]) -> Callable[[bytes], Any]:
    """Makes objects of those members that are there; DecodeError for anything but an object."""
    form: Any = TypedDict("form", dict.fromkeys(sorted(members), Any), total=False)  # type: ignore[misc]
    return msgspec.json.Decoder(form).decode


def needed(plan: Plan) -> tuple[bytes, ...] | None:
    """Texts of which every matching record, as it is stored, holds one; None when nothing can be said.

    Sound because a string has two spellings only: its characters, or escapes. So what an escape may begin with is among
    the texts. Values that are compared in lower case, and all that is not text, have too many spellings.
    """
    found = [texts for texts in map(_texts_of, necessary(plan)) if texts]
    if not found:
        return None
    fewest = min(found, key=lambda texts: (len(texts), -min(map(len, texts))))
    return tuple(sorted(fewest))


def _texts_of(part: Plan) -> frozenset[bytes]:
    """None: empty."""
    clauses = part.parts if isinstance(part, AnyOf) else (part,)
    texts: set[bytes] = set()
    for clause in clauses:
        if not isinstance(clause, Compare) or clause.op is not Op.EQ:
            return frozenset()
        if clause.field.kind is not Kind.KEYWORD or clause.field.lowercase:
            return frozenset()
        texts |= _spellings(str(clause.value))
    return frozenset(texts) if len(texts) <= _TEXTS_MAX else frozenset()


def _spellings(value: str) -> set[bytes]:
    """What one of must be in a JSON text that holds this string."""
    try:
        plain = f'"{value}"'.encode()
    except UnicodeEncodeError:  # half a pair: only an escape spells it
        return {b"\\"}
    if all(character not in _HIDDEN_BY_BACKSLASH and ord(character) not in _CONTROL for character in value):
        return {plain, b"\\u"}
    return {plain, b"\\"}


_CONTROL = frozenset((*range(_SPACE), _DELETE))


def _holding(chunk: Chunk, first: int, count: int, texts: Sequence[bytes]) -> Iterator[int]:
    """The entries that hold one of some texts, in their order."""
    if first >= count:
        return
    begins, ends, data = chunk.begins, chunk.ends, chunk.data
    limit = ends[count - 1]
    places = [data.find(text, begins[first], limit) for text in texts]
    while True:
        place = min((place for place in places if place >= 0), default=-1)
        if place < 0:
            return
        at = bisect_right(begins, place) - 1
        if place < ends[at]:  # or else it is in what was left out, or between two entries
            yield at
        after = begins[at + 1] if at + 1 < count else limit
        places = [
            data.find(text, after, limit) if 0 <= found < after else found
            for text, found in zip(texts, places, strict=True)
        ]
