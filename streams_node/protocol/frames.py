"""How entries lie in a log row: the JSON elements of a body, their lengths, their keys, and the cut into rows.

payload   entry                           one entry, or a piece of one
          entry , entry , entry           entries of a JSON stream, so that a page of JSON is a slice
lens      u32le u32le u32le               length of each entry; absent for one entry or a piece of one
keys      01 utf-8                        every entry has this routing key
          02 (u32le length, utf-8)*       one key an entry; length ffffffff is "no key"
"""

import re
import sys
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

KEY_FOR_ALL = b"\x01"
KEY_PER_ENTRY = b"\x02"
_NO_KEY = 0xFFFFFFFF
_WHITE = b" \t\r\n"
_NOT_STRUCTURE = bytes(set(range(256)) - set(b"[]{},"))
_INNERMOST = re.compile(rb"\[[^\[\]{}]*\]|\{[^\[\]{}]*\}")
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_ANY = msgspec.json.Decoder(msgspec.Raw)


class Piece(NamedTuple):
    """What one log row stores of an append."""

    entries: int  # that end in this piece
    size: int  # bytes of its entries, without the commas between them
    payload: bytes
    lens: bytes | None = None
    continues: bool = False  # it goes on with an entry that an earlier piece began


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
            _bound(body, elements_max)
            return [bytes(element) for element in _ELEMENTS.decode(body)]
        return [bytes(_ANY.decode(body))]
    except TooManyElements:
        raise
    except (ValueError, RecursionError) as problem:  # msgspec's errors are ValueErrors
        raise BadJson(str(problem)) from None


def _bound(body: bytes, elements_max: int | None) -> None:
    if elements_max is not None and body.count(b",") >= elements_max and elements_of(body) > elements_max:
        raise TooManyElements


def elements_of(body: bytes) -> int:
    """How many elements an array has, without making one of them: strings are taken out, then what is nested.

    Exact for valid JSON. For anything else it is some number, and the decoder refuses the body afterwards.
    """
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(plain.split(b'"')[::2]).translate(None, delete=_NOT_STRUCTURE)
    inner = outside[1:-1]
    while True:
        flat = _INNERMOST.sub(b"", inner)
        if len(flat) == len(inner):
            return flat.count(b",") + 1
        inner = flat


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
    parts = [KEY_PER_ENTRY]
    for key in keys:
        raw = b"" if key is None else key.encode("utf-8")
        parts += [(_NO_KEY if key is None else len(raw)).to_bytes(4, "little"), raw]
    return b"".join(parts)


def unpack_keys(blob: bytes | None, count: int) -> list[str | None]:
    """The routing key of each of `count` entries."""
    if blob is None:
        return [None] * count
    if blob[:1] == KEY_FOR_ALL:
        return [blob[1:].decode("utf-8")] * count
    keys: list[str | None] = []
    at = 1
    while at < len(blob):
        length = int.from_bytes(blob[at : at + 4], "little")
        at += 4
        if length == _NO_KEY:
            keys.append(None)
        else:
            keys.append(blob[at : at + length].decode("utf-8"))
            at += length
    return keys
