"""Finds the streams whose rows contradict each other: they are stuck, and everybody else goes on."""

from itertools import compress, islice, repeat
from operator import add, ne

from streams_node.protocol.frames import KEY_FOR_ALL, pack_keys, unpack_keys, unpack_lens
from streams_node.segmenter.rows import Columns, Stretch
from streams_node.wal.heads import CLOSES, CONTINUES, FIRST

_LEN_BYTES = 4
_PLAIN_FLAGS = {FIRST, FIRST | CLOSES}


def damaged(columns: Columns, stretches: list[Stretch]) -> dict[int, str]:
    """The streams that cannot be sealed, each with what is wrong first."""
    found: dict[int, str] = {}
    for at in _gaps(columns, stretches):
        found.setdefault(columns.streams[at], f"row {columns.row_ids[at]} does not follow the one before it")
    if _plain(columns):
        return found
    for stretch in stretches:
        if problem := _contradiction(columns, stretch):
            found.setdefault(stretch.stream, problem)
    return found


def _gaps(columns: Columns, stretches: list[Stretch]) -> list[int]:
    """Rows that do not begin where the row of the stream before them ended, or are not numbered after it."""
    seqs, ordinals = columns.seqs, columns.ordinals
    ends = map(add, seqs, columns.counts)
    jumps = list(compress(range(1, len(seqs)), map(ne, islice(seqs, 1, None), ends)))
    jumps += compress(range(1, len(seqs)), map(ne, islice(ordinals, 1, None), map(add, ordinals, repeat(1))))
    starts = {each.start for each in stretches} if jumps else set()
    return [at for at in jumps if at not in starts]


def _plain(columns: Columns) -> bool:
    """Whether every row is one entry without a key, as most are: then there is nothing to contradict."""
    rows = len(columns.counts)
    return (
        columns.counts.count(1) == rows
        and columns.lens.count(None) == rows
        and columns.keys.count(None) == rows
        and set(columns.flags) <= _PLAIN_FLAGS
        and min(columns.seqs, default=0) >= 0
    )


def _contradiction(columns: Columns, stretch: Stretch) -> str | None:
    """What is wrong with the rows of one stream."""
    unfinished = False  # the row before began an entry that goes on
    if not columns.flags[stretch.start] & FIRST:
        return f"row {columns.row_ids[stretch.start]} goes on with an append that does not begin"
    for at in range(stretch.start, stretch.end):
        problem = _wrong(columns, at, unfinished=unfinished)
        if problem:
            return f"row {columns.row_ids[at]}: {problem}"
        unfinished = columns.counts[at] == 0 and bool(columns.payloads[at])
    return f"row {columns.row_ids[stretch.end - 1]} ends within an entry" if unfinished else None


def _wrong(columns: Columns, at: int, *, unfinished: bool) -> str | None:
    count, lens, payload = columns.counts[at], columns.lens[at], columns.payloads[at]
    if count < 0 or columns.seqs[at] < 0:
        return "a negative number"
    if bool(columns.flags[at] & CONTINUES) != unfinished:
        return "a piece of an entry stands alone"
    if unfinished and (lens is not None or count > 1):
        return "a piece of an entry holds other entries"
    if lens is None:
        if count > 1:
            return f"{count} entries without their lengths"
    elif len(lens) != _LEN_BYTES * count or sum(unpack_lens(lens)) + count - 1 != len(payload):
        return "the lengths of its entries do not add up"
    return _wrong_keys(columns.keys[at], count)


def _wrong_keys(blob: bytes | None, count: int) -> str | None:
    if blob is None:
        return None
    try:
        keys = unpack_keys(blob, count)
    except (UnicodeDecodeError, ValueError):
        return "its routing keys are no text"
    if len(keys) != count:
        return "it does not have one routing key an entry"
    if blob[:1] != KEY_FOR_ALL and pack_keys(keys) != blob:  # unpacking is lenient
        return "its routing keys are cut off"
    return None
