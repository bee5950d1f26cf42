"""Offset tokens against plain integers, and what a stream makes of them."""

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from streams_node.errors import Gone, InvalidOffset, StreamsError
from streams_node.ingest.state import StreamState
from streams_node.protocol.numbers import Epoch, Seq
from streams_node.protocol.offsets import START, START_ALIAS, U32, U64, Position, decode, encode
from streams_node.wal.lookup import Configured, Head, Name

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# (epoch, sequence of the last entry read, token): what clients of another server of this format hold.
GOLDEN = (
    (0, -1, "00000000000000000000000000"),
    (0, 0, "0000000000000000000G000000"),
    (0, 1, "00000000000000000010000000"),
    (0, 2, "0000000000000000001G000000"),
    (0, 5, "00000000000000000030000000"),
    (0, 21, "000000000000000000B0000000"),
    (0, 31, "000000000000000000G0000000"),
    (0, 999, "00000000000000000FM0000000"),
    (0, 4294967294, "0000000000001ZZZZZZG000000"),
    (0, 4294967295, "00000000000020000000000000"),
    (0, 2**53, "0000000040000000000G000000"),
    (1, -1, "00000080000000000000000000"),
    (1, 0, "0000008000000000000G000000"),
    (2**32 - 1, 0, "ZZZZZZR000000000000G000000"),
)

steady = settings(deadline=None)  # a shared machine may pause for longer than any example takes
epochs = st.one_of(st.integers(0, 3), st.integers(0, U32))
seqs = st.one_of(st.integers(0, 70_000), st.integers(2**36 - 3, 2**36 + 3), st.integers(0, U64))


def plain(epoch: int, seq: int, in_block: int = 0) -> str:
    """The format's definition, digit by digit."""
    number = (epoch << 96 | seq << 32 | in_block) << 2
    return "".join(ALPHABET[number >> 5 * (25 - at) & 31] for at in range(26))


@pytest.mark.parametrize(("epoch", "last", "token"), GOLDEN)
def test_golden_tokens_are_written_and_read(epoch: int, last: int, token: str) -> None:
    assert encode(epoch, last + 1) == token
    assert decode(token) == (epoch, last + 1)


@steady
@given(epochs, seqs)
def test_a_token_is_the_definition_digit_by_digit(epoch: int, seq: int) -> None:
    assert encode(epoch, seq) == plain(epoch, seq)
    assert decode(plain(epoch, seq)) == (epoch, seq)


@steady
@given(st.tuples(epochs, seqs), st.tuples(epochs, seqs))
def test_text_order_is_number_order(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert (encode(*one) < encode(*other)) == (one < other)


@steady
@given(epochs, seqs, st.integers(0, U32))
def test_a_token_with_a_block_part_was_never_issued(epoch: int, seq: int, in_block: int) -> None:
    assert decode(plain(epoch, seq, in_block)) == (None if in_block else (epoch, seq))


@steady
@given(epochs, seqs, st.randoms(use_true_random=False))
def test_any_case_and_the_aliases_of_crockford_are_read(epoch: int, seq: int, chance: random.Random) -> None:
    spellings = {"0": "0oO", "1": "1iIlL"}
    written = "".join(
        chance.choice(spellings.get(char, char + char.lower())) for char in encode(epoch, seq)
    )  # fmt: skip
    assert decode(written) == (epoch, seq)


@steady
@given(st.text(max_size=40))
def test_other_text_is_no_token(text: str) -> None:
    digits = set(ALPHABET + ALPHABET.lower() + "oOiIlL")
    assume(len(text) != 26 or not set(text) <= digits)
    assert decode(text) is None


@steady
@given(epochs, seqs, st.integers(0, 25), st.characters())
def test_one_wrong_character_makes_no_token(epoch: int, seq: int, at: int, char: str) -> None:
    assume(char.upper() not in ALPHABET + "OIL" or not char.isascii())
    token = encode(epoch, seq)
    assert decode(token[:at] + char + token[at + 1 :]) is None


@pytest.mark.parametrize("char", "uU-_ +/=.\0\u0661\u0131\u017f")
def test_a_letter_outside_the_alphabet_is_refused(char: str) -> None:
    assert decode("0" * 25 + char) is None


def test_the_start_alias_is_no_token_of_ours() -> None:
    assert decode(START_ALIAS) is None
    assert decode("0" * 26) == START


# --- what a stream makes of a position ------------------------------------------------------------------------------


def stream(*fences: tuple[int, int], tail: int, earliest: int = 0) -> StreamState:
    """A stream with these (epoch, first sequence) pairs."""
    config = Configured(1, "text/plain", 0, None, None, None, fences[0][0], len(fences), "generic", 0, earliest, 0)
    head = Head(tail, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, None, None, None, None)
    return StreamState(Name("b", "s"), 1, config, head, {}, list(fences[1:]))


@st.composite
def streams(draw: st.DrawFn) -> StreamState:
    """Epochs that each own at least one entry."""
    first = draw(st.integers(0, 5))
    fences, seq = [(first, 0)], 0
    for step in draw(st.lists(st.integers(1, 9), max_size=3)):
        seq += step
        fences.append((fences[-1][0] + draw(st.integers(1, 3)), seq))
    return stream(*fences, tail=seq + draw(st.integers(int(len(fences) > 1), 9)))


def owner(state: StreamState, seq: int) -> int:
    """The epoch of the entry before a position; the first one for the start."""
    return max((epoch for epoch, first in state.epochs if seq > first), default=state.epochs[0][0])


@steady
@given(streams())
def test_every_issued_token_leads_back_to_its_position_and_sorts(state: StreamState) -> None:
    tokens = [state.token(seq) for seq in range(state.tail.seq + 1)]
    assert tokens == sorted(set(tokens))
    assert tokens == [encode(owner(state, seq), seq) for seq in range(state.tail.seq + 1)]
    assert [state.resolve(position(token)) for token in tokens] == list(range(state.tail.seq + 1))


@steady
@given(streams(), st.integers(0, 20), st.integers(0, 40))
def test_a_position_is_issued_or_gone_or_refused_and_never_another_entry(
    state: StreamState, epoch: int, seq: int
) -> None:
    issued = {state.token(at): at for at in range(state.tail.seq + 1)}
    outcome = resolved(state, epoch, seq)
    if isinstance(outcome, Gone):
        assert epoch < state.epoch
        assert outcome.next_offset in issued
    elif isinstance(outcome, InvalidOffset):
        assert outcome.tail == state.tail_token()
        assert encode(epoch, seq) not in issued
    else:
        assert outcome == 0 == seq or issued[encode(epoch, seq)] == outcome


def resolved(state: StreamState, epoch: int, seq: int) -> int | StreamsError:
    try:
        return state.resolve(Position(Epoch(epoch), Seq(seq)))
    except StreamsError as refusal:
        return refusal


def test_an_offset_of_an_earlier_life_is_gone() -> None:
    with pytest.raises(Gone) as caught:
        stream((2, 0), tail=5).resolve(Position(Epoch(1), Seq(3)))
    assert caught.value.next_offset == encode(2, 0)


def test_an_offset_below_the_earliest_retained_entry_is_gone() -> None:
    with pytest.raises(Gone) as caught:
        stream((0, 0), tail=9, earliest=4).resolve(Position(Epoch(0), Seq(3)))
    assert caught.value.earliest == encode(0, 4)


def test_an_offset_beyond_the_tail_names_the_tail() -> None:
    with pytest.raises(InvalidOffset) as caught:
        stream((0, 0), tail=5).resolve(Position(Epoch(0), Seq(6)))
    assert caught.value.tail == encode(0, 5)


def position(token: str) -> Position:
    found = decode(token)
    assert found is not None
    return found
