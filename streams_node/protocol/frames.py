"""How entries lie in a log row: the JSON elements of a body, their lengths, their keys, and the cut into rows.

payload   entry                           one entry, or a piece of one
          entry , entry , entry           entries of a JSON stream, so that a page of JSON is a slice
lens      u32le u32le u32le               length of each entry; absent for one entry or a piece of one
keys      01 utf-8                        every entry has this routing key
          02 (u32le length, utf-8)*       one key an entry; length ffffffff is "no key"
"""

import re
import struct
import sys
from array import array
from collections.abc import Sequence
from itertools import accumulate, compress
from typing import NamedTuple

import msgspec

KEY_FOR_ALL = b"\x01"
KEY_PER_ENTRY = b"\x02"
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


class BadJson(ValueError):
    """The body is not JSON; the message says where."""


class TooManyElements(ValueError):
    """The body is an array of more messages than one append may hold."""


def json_elements(body: bytes, elements_max: int | None = None) -> list[bytes]:
    """The messages of a JSON body with the client's own bytes: an array is opened one level, anything else is one.

    The scanner checks syntax but not the text encoding, so that is checked first.
    """
    try:
        if not body.isascii():
            body.decode("utf-8")
        if body.lstrip(_WHITE)[:1] == b"[":
            elements = _array(body, sys.maxsize if elements_max is None else elements_max)
            return [bytes(element) for element in elements]
        return [bytes(_ANY.decode(body))]
    except TooManyElements:
        raise
    except (ValueError, RecursionError) as problem:  # msgspec's errors are ValueErrors
        raise BadJson(str(problem)) from None


def _array(body: bytes, elements_max: int) -> list[msgspec.Raw]:
    if body.count(b",") > _COMMAS_A_MESSAGE * elements_max and elements_of(body, elements_max + 1) > elements_max:
        raise TooManyElements
    elements = _ELEMENTS.decode(body)
    if len(elements) > elements_max:
        raise TooManyElements
    return elements


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


def cut_elements(elements: Sequence[bytes], piece_bytes_max: int) -> list[Piece]:
    """JSON entries as pieces, cut between entries where possible; an entry above the bound gets pieces of its own."""
    pieces: list[Piece] = []
    run: list[bytes] = []
    size = 0
    for element in elements:
        if run and size + len(element) > piece_bytes_max:
            pieces.append(_joined(run, size))
            run, size = [], 0
        if len(element) > piece_bytes_max:
            pieces += cut_bytes(element, piece_bytes_max)
        else:
            run.append(element)
            size += len(element)
    if run:
        pieces.append(_joined(run, size))
    return pieces


def _joined(run: list[bytes], size: int) -> Piece:
    if len(run) == 1:
        return Piece(1, size, run[0])
    return Piece(len(run), size, b",".join(run), pack_lens([len(element) for element in run]))


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
    if all(key is None for key in keys):
        return None
    packed = {key: _packed(key) for key in set(keys)}
    return KEY_PER_ENTRY + b"".join([packed[key] for key in keys])


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
    keys: list[str | None] = []
    add, known, read = keys.append, dict[bytes, str](), _KEY_BYTES.unpack_from
    at, last = 1, len(blob) - _KEY_BYTES.size
    while at <= last:
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
    return keys
