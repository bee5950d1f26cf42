"""Offset tokens: 26 characters of Crockford base32 over (epoch u32, entries u64, in_block u32).

    bits   32      64        32         2
         | epoch | entries | in_block | 00 |      130 bits = 26 digits of 5, upper case

`entries` is the number of entries before the position, so the token after entry n holds n+1 and all zeros is the start.
The two spare bits are on the right: clients of other servers hold strings of this form, and text order is number order.
"""

from typing import NamedTuple

from streams_node.protocol.numbers import Epoch, Seq

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_DIGITS = {c: i for i, c in enumerate(_ALPHABET)} | {"O": 0, "I": 1, "L": 1}
_LENGTH = 26
_UNUSED = (1 << 34) - 1  # in_block, which is always 0 so far, and the two spare bits
_SHORT_ENTRIES = 1 << 36  # below it, in epoch 0, only 8 digits differ from zero
START_ALIAS = "0000000000000000_0000000000000000"  # another server's start; public suites send it
U64 = (1 << 64) - 1
U32 = (1 << 32) - 1


class Position(NamedTuple):
    """A decoded token: `seq` is the sequence of the next entry to read."""

    epoch: Epoch
    seq: Seq


START = Position(Epoch(0), Seq(0))


def encode(epoch: int, seq: int) -> str:
    """The token of the position before entry `seq`."""
    if epoch == 0 and seq < _SHORT_ENTRIES:
        pairs, m = _PAIRS, seq << 4
        return f"000000000000{pairs[m >> 30]}{pairs[m >> 20 & 1023]}{pairs[m >> 10 & 1023]}{pairs[m & 1023]}000000"
    digits = ((epoch << 64 | seq) << 4) & ((1 << 100) - 1)
    return "".join(_PAIRS[digits >> shift & 1023] for shift in range(90, -1, -10)) + "000000"


def decode(token: str) -> Position | None:
    """The position of a token in either case, or None when it is not one of ours."""
    if len(token) != _LENGTH or not token.isascii():
        return None
    value = 0
    for char in token.upper():
        digit = _DIGITS.get(char)
        if digit is None:
            return None
        value = value << 5 | digit
    if value & _UNUSED:
        return None  # no token that was issued has these bits set
    value >>= 2
    return Position(Epoch(value >> 96), Seq(value >> 32 & U64))
