"""The entries of an append to a stream that means something: normalised, validated, keyed, and cut into pieces.

Made beside the event loop where a body is large, so it decides nothing: what is wrong is handed on, and said when its
turn comes among the checks of the append.
"""

from typing import NamedTuple

import orjson

from streams_node.errors import BadProfile, InvalidEntry, InvalidRequest, StreamsError, TooLarge
from streams_node.meaning.meaning import Meaning
from streams_node.protocol.frames import (
    BadJson,
    Elements,
    Piece,
    TooManyElements,
    cut_elements,
    json_elements,
    keyed,
)
from streams_node.schema.errors import EntryRefused
from streams_node.schema.routing import checked_key
from streams_node.schema.validation import check_depth

_LARGE_BYTES = 64 << 10  # to validate that much takes about a millisecond
_SHORT_UNITS = 20_000.0  # of a tenth of a microsecond, at worst: as long may an append hold the event loop
_COMMA_UNITS = 5  # to parse what stands before a comma, and to find the key of what may be an entry
_NORMALISED_UNITS = 35  # and to normalise it
_ENVELOPE = b"{{{[" + b"," * 30  # as many values has what a profile makes of an entry that has none
_AT_ONCE_BYTES = 320 << 10  # whose types are looked at within a millisecond, mostly, and two at worst:
_AT_ONCE_COMMAS = 16_000  # what is between them takes a tenth of a microsecond each, however short it is
_BATCH = 16  # entries: fewer are not worth the types that are made for them


class Bounds(NamedTuple):
    """Limits of the node."""

    entries_max: int
    piece_bytes_max: int
    key_bytes_max: int


class Prepared(NamedTuple):
    """Pieces ready to be stored; or what is wrong with the body, or why the stream refuses what is in it."""

    pieces: list[Piece]
    wrong: StreamsError | None = None
    refused: StreamsError | None = None


class Keys(NamedTuple):
    """The keys of entries, None where they have none of their own."""

    each: list[str | None] | None


def takes_long(meaning: Meaning, body: bytes) -> bool:
    """Whether to prepare a body may hold the event loop for long: for its size, or for what the schema asks of it."""
    if len(body) >= _LARGE_BYTES:
        return True
    validator, normalises = meaning.validator, meaning.hook is not None
    left = _SHORT_UNITS - (body.count(b",") + 1) * (_NORMALISED_UNITS if normalises else _COMMA_UNITS)
    if left < 0 or validator is None:
        return left < 0
    if normalises:
        return not validator.within(body + _ENVELOPE * body.count(b"{"), left)
    return not validator.within(body, left)


def prepared(meaning: Meaning, body: bytes, key: bytes | None, now_us: int, bounds: Bounds) -> Prepared:
    """A JSON body for a stream. `key` is the packed `Stream-Key`, if there is one."""
    try:
        elements = json_elements(body, bounds.entries_max)
        keys = _surely(meaning, body, len(elements.lens), key, bounds)
        if keys is not None:
            return _cut(elements, keys.each, bounds)
        entries = orjson.loads(body)
    except (BadJson, orjson.JSONDecodeError) as problem:
        return Prepared([], InvalidRequest("the body of a JSON stream", f"valid JSON; {problem}"))
    except TooManyElements:
        return Prepared([], TooLarge(f"an append may hold {bounds.entries_max} messages; this one has more"))
    if not isinstance(entries, list):
        entries = [entries]
    if meaning.problem is not None:
        return Prepared([], refused=meaning.problem)
    try:
        each, texts = _checked(meaning, elements.each(), entries, key, now_us, bounds)
    except EntryRefused as refusal:
        return Prepared([], refused=InvalidEntry(str(refusal)))
    except BadProfile as refusal:
        return Prepared([], refused=refusal)
    return _cut(elements if meaning.hook is None else Elements.of(texts), each, bounds)


def prepared_at_once(meaning: Meaning, body: bytes, key: bytes | None, bounds: Bounds) -> Prepared | None:
    """The same on the event loop, for a batch whose types show soon that it is valid; None for all others.

    It would have the interpreter's lock for as long anyway, and a thread has to be woken and waited for.
    """
    validator = meaning.validator
    if len(body) > _AT_ONCE_BYTES or validator is None or not validator.is_quick or body.count(b",") > _AT_ONCE_COMMAS:
        return None
    try:
        elements = json_elements(body, bounds.entries_max)
        keys = _surely(meaning, body, len(elements.lens), key, bounds)
    except (BadJson, TooManyElements):
        return None
    return None if keys is None else _cut(elements, keys.each, bounds)


def _cut(elements: Elements, keys: list[str | None] | None, bounds: Bounds) -> Prepared:
    pieces = cut_elements(elements, bounds.piece_bytes_max)
    return Prepared(pieces if keys is None else keyed(pieces, keys))


def _surely(meaning: Meaning, body: bytes, count: int, key: bytes | None, bounds: Bounds) -> Keys | None:
    """The keys of a batch whose types alone show that it is valid; None where it has to be looked at more closely."""
    validator, routing = meaning.validator, meaning.registry.routing_key
    if count < _BATCH or validator is None or meaning.hook is not None or meaning.problem is not None:
        return None
    if routing is not None and key is not None:
        return None
    quick = validator.quick()
    if quick is None or not (routing is None or quick.reaches(routing.tokens)):
        return None
    entries = quick.entries(body)
    if entries is None:
        return None
    if routing is None:
        return Keys(None)
    values = quick.values(entries, routing.tokens)
    if values is None:
        return None
    try:
        return Keys(routing.checked(values, bounds.key_bytes_max))
    except EntryRefused:
        return None


def _checked(
    meaning: Meaning, texts: list[bytes], entries: list[object], key: bytes | None, now_us: int, bounds: Bounds
) -> tuple[list[str | None] | None, list[bytes]]:
    """The keys of the entries, if they have keys of their own, and the texts to store."""
    routing = meaning.registry.routing_key
    if routing is not None and key is not None:
        raise EntryRefused("Stream-Key not allowed when routingKey is configured")
    if not texts:
        return None, texts
    check_depth(texts, entries)
    derived: list[str | None] | None = None
    if meaning.hook is not None:
        texts, derived = meaning.hook(texts, now_us)
        if meaning.validator is not None or routing is not None:
            entries = orjson.loads(b"[%b]" % b",".join(texts))
    if meaning.validator is not None:
        meaning.validator.check(entries, texts)
    if routing is not None:
        return routing.keys(entries, bounds.key_bytes_max), texts
    if key is not None or derived is None:
        return None, texts
    return [None if own is None else checked_key(own, bounds.key_bytes_max) for own in derived], texts
