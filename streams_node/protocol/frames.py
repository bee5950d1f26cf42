"""How entries lie in a log row: the JSON elements of a body, their lengths, their keys, and the cut into rows.

payload   entry                           one entry, or a piece of one
          entry , entry , entry           entries of a JSON stream, so that a page of JSON is a slice
lens      u32le u32le u32le               length of each entry; absent for one entry or a piece of one
keys      01 utf-8                        every entry has this routing key
          02 (u32le length, utf-8)*       one key an entry; length ffffffff is "no key"
          03 u8 (u32le length, utf-8)* u8*  a few keys: their number less one, each of them, and which an entry has
"""

import re
import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, compress
from typing import NamedTuple

import msgspec

KEY_FOR_ALL = b"\x01"
KEY_PER_ENTRY = b"\x02"
KEY_OF_FEW = b"\x03"
_FEW = 256
_NO_KEY = 0xFFFFFFFF
_KEY_BYTES = struct.Struct("<I")
_WHITE = b" \t\r\n"
_NOT_STRUCTURE = bytes(set(range(256)) - set(b"[]{},"))
_BACKSLASHES = re.compile(rb"\\*")
_PART_BYTES = 1 << 17
_DEPTH_STEPS = bytes.maketrans(b"[{}],", b"\x01\x01\xff\xff\x00")  # as signed bytes: in, out, neither
_COMMAS = bytes.maketrans(b"\x00\x01\xff", b"\x01\x00\x00")
# A body with this many times more commas than it may have messages is counted beforehand, which takes longer than to
# decode it: each element costs some 60 bytes for the time being, so a body of tiny ones would take a gigabyte.
_COMMAS_A_MESSAGE = 8
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_ANY = msgspec.json.Decoder(msgspec.Raw)


class Piece(NamedTuple):
    """What one log row stores of an append."""

    entries: int  # that end in this piece
    size: int  # bytes of its entries, without the commas between them
    payload: bytes
    lens: bytes | None = None
    continues: bool = False  # it goes on with an entry that an earlier piece began
    keys: bytes | None = None  # packed keys of its entries, where they have keys of their own


class Elements(NamedTuple):
    """JSON entries one behind the other, with a comma between each two, and the length of each."""

    text: bytes
    lens: "array[int]"
    start: int = 0  # of the first one in the text, which may be a whole body: a copy of one takes as long as its check

    @classmethod
    def of(cls, each: Sequence[bytes | msgspec.Raw]) -> "Elements":
        return cls(b",".join(each), array("I", map(len, each)))

    def each(self) -> list[bytes]:
        """Most of what is done with them needs no copies, and does not ask."""
        text, at = self.text, self.start
        found = []
        for size in self.lens:
            found.append(text[at : at + size])
            at += size + 1
        return found


class BadJson(ValueError):
    """The body is not JSON; the message says where."""


class TooManyElements(ValueError):
    """The body is an array of more messages than one append may hold."""


def json_elements(body: bytes, elements_max: int | None = None) -> Elements:
    """The messages of a JSON body with the client's own bytes: an array is opened one level, anything else is one.

    The scanner checks syntax but not the text encoding, so that is checked first.
    """
    try:
        if not body.isascii():
            body.decode("utf-8")
        if body.lstrip(_WHITE)[:1] == b"[":
            return _array(body, sys.maxsize if elements_max is None else elements_max)
        return Elements.of([bytes(_ANY.decode(body))])
    except TooManyElements:
        raise
    except (ValueError, RecursionError) as problem:  # msgspec's errors are ValueErrors
        raise BadJson(str(problem)) from None


def _array(body: bytes, elements_max: int) -> Elements:
    commas_max = _COMMAS_A_MESSAGE * elements_max
    if len(body) > commas_max < body.count(b",") and elements_of(body, elements_max + 1) > elements_max:
        raise TooManyElements
    elements: list[msgspec.Raw] = _ELEMENTS.decode(body)
    if len(elements) > elements_max:
        raise TooManyElements
    lens = array("I", map(len, elements))
    if sum(lens) + max(len(lens), 1) + 1 == len(body):  # brackets, commas, and no white space around any of it
        return Elements(body, lens, 1)
    return Elements.of(elements)


def elements_of(body: bytes, enough: int = sys.maxsize) -> int:
    """How many elements an array has, or `enough` if it has as many, without making one of them.

    A part at a time, so that no step keeps the interpreter's lock for long: strings are taken out, and of what is left
    the commas at depth one are counted. Exact for valid JSON; the decoder refuses anything else afterwards.
    """
    count, depth, at, in_string = 1, 0, 0, 0
    while at < len(body) and count < enough:
        end = at + _PART_BYTES
        if body[end - 1 : end] == b"\\":  # what it escapes is in the same part
            run = _BACKSLASHES.match(body, end)
            end = (run.end() if run else end) + 1
        texts = body[at:end].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        structure = b"".join(texts[in_string::2]).translate(_DEPTH_STEPS, delete=_NOT_STRUCTURE)
        depths = list(accumulate(array("b", structure), initial=depth))
        count += list(compress(depths[1:], structure.translate(_COMMAS))).count(1)
        depth, at, in_string = depths[-1], end, in_string ^ (len(texts) - 1 & 1)
    return min(count, enough)


def cut_bytes(body: bytes, piece_bytes_max: int) -> list[Piece]:
    """One entry of opaque bytes as pieces; the last one carries the count."""
    if len(body) <= piece_bytes_max:
        return [Piece(1, len(body), body)]
    starts = range(0, len(body), piece_bytes_max)
    last = starts[-1]
    return [
        Piece(int(start == last), len(part := body[start : start + piece_bytes_max]), part, None, start > 0)
        for start in starts
    ]


def cut_elements(elements: Elements, piece_bytes_max: int) -> list[Piece]:
    """JSON entries as pieces, cut between entries where possible; an entry above the bound gets pieces of its own."""
    text, lens, start = elements
    pieces: list[Piece] = []
    sizes = list(accumulate(lens, initial=0))  # of all entries before each, without commas
    first = 0
    while first < len(lens):
        end = bisect_right(sizes, sizes[first] + piece_bytes_max, first + 1) - 1
        whole = max(end, first + 1)
        payload = text[start + sizes[first] + first : start + sizes[whole] + whole - 1]
        if whole > end:
            pieces += cut_bytes(payload, piece_bytes_max)
        else:
            packed = None if end == first + 1 else pack_lens(lens[first:end])
            pieces.append(Piece(end - first, sizes[end] - sizes[first], payload, packed))
        first = whole
    return pieces


def pack_lens(lens: Sequence[int]) -> bytes:
    """Lengths as little-endian 32-bit numbers."""
    packed = array("I", lens)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_lens(blob: bytes) -> "array[int]":
    """The lengths that `pack_lens` wrote."""
    lens = array("I")
    lens.frombytes(blob)
    if sys.byteorder == "big":
        lens.byteswap()
    return lens


def pack_key(key: str | None) -> bytes | None:
    """The blob of one routing key for all entries of an append."""
    return None if key is None else KEY_FOR_ALL + key.encode("utf-8")


def pack_keys(keys: Sequence[str | None]) -> bytes | None:
    """The blob of a routing key per entry; None when no entry has one."""
    few = {key: at for at, key in enumerate(dict.fromkeys(keys))}
    if len(few) <= 1:
        return pack_key(next(iter(few), None))
    if len(few) > _FEW:
        return pack_each(keys)
    return b"%b%c%b%b" % (KEY_OF_FEW, len(few) - 1, b"".join(map(_packed, few)), bytes(map(few.__getitem__, keys)))


def pack_each(keys: Sequence[str | None]) -> bytes:
    """The blob of keys that hardly repeat."""
    return KEY_PER_ENTRY + b"".join(map(_packed, keys))


def _packed(key: str | None) -> bytes:
    if key is None:
        return _KEY_BYTES.pack(_NO_KEY)
    raw = key.encode("utf-8")
    return _KEY_BYTES.pack(len(raw)) + raw


def key_in_many(key: str) -> bytes:
    """What a blob of a key per entry holds where one of them has this key; it may be elsewhere in it, too."""
    return _packed(key)


def keyed(pieces: Sequence[Piece], keys: Sequence[str | None]) -> list[Piece]:
    """The pieces with the key of each entry; a piece of an entry has the key of the whole."""
    made: list[Piece] = []
    at = 0
    for piece in pieces:
        packed = pack_keys(keys[at : at + piece.entries]) if piece.lens is not None else pack_key(keys[at])
        made.append(piece._replace(keys=packed))
        at += piece.entries
    return made


def unpack_keys(blob: bytes | None, count: int) -> list[str | None]:
    """The routing key of each of `count` entries."""
    if blob is None:
        return [None] * count
    if blob[:1] == KEY_FOR_ALL:
        return [blob[1:].decode("utf-8")] * count
    if blob[:1] == KEY_OF_FEW:
        keys, places = unpack_few(blob)
        return [keys[place] for place in places]
    return _unpacked(blob, 1, len(blob))[0]


def unpack_few(blob: bytes) -> tuple[list[str | None], bytes]:
    """The keys of a blob of few, and which of them each entry has."""
    count = 1 + int.from_bytes(blob[1:2])
    keys, at = _unpacked(blob, 2, count)
    if len(keys) != count:
        raise ValueError("routing keys are cut off")
    return keys, blob[at:]


def _unpacked(blob: bytes, at: int, most: int) -> tuple[list[str | None], int]:
    """The keys that lie in a blob from somewhere on, and where they end."""
    keys: list[str | None] = []
    add, known, read = keys.append, dict[bytes, str](), _KEY_BYTES.unpack_from
    last = len(blob) - _KEY_BYTES.size
    for _ in range(most):
        if at > last:
            break
        (length,) = read(blob, at)
        at += 4
        if length == _NO_KEY:
            add(None)
            continue
        raw = blob[at : at + length]
        at += length
        key = known.get(raw)
        if key is None:
            key = known[raw] = raw.decode("utf-8")
        add(key)
    return keys, at
