"""Finds the streams whose rows contradict each other: they are stuck, and everybody else goes on."""

from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from streams_node.protocol.frames import KEY_FOR_ALL, KEY_OF_FEW, pack_each, unpack_few, unpack_keys, unpack_lens
from streams_node.segmenter.columns import Rows, Stretches
from streams_node.wal.heads import CONTINUES, FIRST

_LEN_BYTES = 4
_NOT_ONE_EACH = "it does not have one routing key an entry"
_NO = pa.scalar(False)  # noqa: FBT003 - pyarrow's own signature


def damaged(rows: Rows, stretches: Stretches) -> dict[int, str]:
    """The streams that cannot be sealed, each with what is wrong first."""
    found: dict[int, str] = {}
    for at in _gaps(rows):
        stream, row = rows.column("stream")[at].as_py(), rows.column("row_id")[at].as_py()
        found.setdefault(stream, f"row {row} does not follow the one before it")
    others = rows.column("stream").filter(pc.invert(_sound(rows, stretches)))
    if not len(others):
        return found
    for stream, start, end in stretches.of(pc.is_in(stretches.streams, value_set=others)).ranges():
        if problem := _contradiction(_Lists.of(rows.part(start, end))):
            found.setdefault(stream, problem)
    return found


def _gaps(rows: Rows) -> list[int]:
    """Rows that do not begin where the row of the stream before them ended, or are not numbered after it.

    A plain row has no number here. It is an entry, so a row that is missing before or after it is a gap in those.
    """
    if rows.size < 2:  # noqa: PLR2004 - a pair
        return []
    streams, seqs, ordinals = (_pairs(rows.column(name)) for name in ("stream", "seq", "ordinal"))
    ends = pc.add(seqs[0], _pairs(rows.column("count"))[0])
    jumps = pc.or_(pc.not_equal(seqs[1], ends), pc.coalesce(pc.not_equal(ordinals[1], pc.add(ordinals[0], 1)), _NO))
    found: list[int] = pc.add(pc.indices_nonzero(pc.and_(jumps, pc.equal(*streams))), 1).to_pylist()
    return found


def _pairs(column: Any) -> tuple[Any, Any]:
    """Each value but the last, and the one after it."""
    return column.slice(0, len(column) - 1), column.slice(1)


def _sound(rows: Rows, stretches: Stretches) -> Any:
    """Which rows hold whole entries that fit their lengths: where all of a stream's do, nothing contradicts another."""
    flags = rows.column("flags")
    goes_on = pc.equal(pc.bit_wise_and(flags, FIRST), 0)
    starts = pc.is_in(pa.arange(0, rows.size), value_set=stretches.starts)
    bad = pc.or_(pc.not_equal(pc.bit_wise_and(flags, CONTINUES), 0), pc.and_(goes_on, starts))
    bad = pc.or_(bad, pc.less(rows.column("seq"), 0))
    return pc.and_not(pc.and_(_good_lens(rows), _good_keys(rows.column("keys"))), bad)


def _good_lens(rows: Rows) -> Any:
    """Which rows are one entry, or have the length of each and are as long as all of them with their commas."""
    if rows.column("lens").null_count == rows.size:
        return pc.equal(rows.column("count"), 1)
    columns = (rows.column(name).to_pylist() for name in ("lens", "count", "size"))
    return pa.array([_adds_up(lens, count, size) for lens, count, size in zip(*columns, strict=True)], pa.bool_())


def _adds_up(lens: bytes | None, count: int, size: int) -> bool:
    if lens is None:
        return count == 1
    return len(lens) == _LEN_BYTES * count and sum(unpack_lens(lens)) + count - 1 == size


def _good_keys(keys: Any) -> Any:
    """Which rows have no key, or one for all entries; when one of those is no text, which have none."""
    none = keys.is_null()
    if keys.null_count == len(keys):
        return none
    one = pc.starts_with(keys, KEY_FOR_ALL)
    try:
        keys.filter(one).cast(pa.string())
    except pa.ArrowInvalid:
        return none
    return pc.or_(none, pc.coalesce(one, _NO))


class _Lists(NamedTuple):
    """The rows of a stream as lists, to be gone through one by one."""

    row_ids: list[int]
    seqs: list[int]
    counts: list[int]
    flags: list[int]
    lens: list[bytes | None]
    keys: list[bytes | None]
    sizes: list[int]

    @classmethod
    def of(cls, rows: Rows) -> "_Lists":
        names = ("row_id", "seq", "count", "flags", "lens", "keys", "size")
        return cls(*(rows.column(name).to_pylist() for name in names))


def _contradiction(rows: _Lists) -> str | None:
    """What is wrong with the rows of one stream."""
    unfinished = False  # the row before began an entry that goes on
    if not rows.flags[0] & FIRST:
        return f"row {rows.row_ids[0]} goes on with an append that does not begin"
    for at, row in enumerate(rows.row_ids):
        problem = _wrong(rows, at, unfinished=unfinished)
        if problem:
            return f"row {row}: {problem}"
        unfinished = rows.counts[at] == 0 and rows.sizes[at] > 0
    return f"row {rows.row_ids[-1]} ends within an entry" if unfinished else None


def _wrong(rows: _Lists, at: int, *, unfinished: bool) -> str | None:
    count, lens = rows.counts[at], rows.lens[at]
    if count < 0 or rows.seqs[at] < 0:
        return "a negative number"
    if bool(rows.flags[at] & CONTINUES) != unfinished:
        return "a piece of an entry stands alone"
    if unfinished and (lens is not None or count > 1):
        return "a piece of an entry holds other entries"
    if lens is None:
        if count > 1:
            return f"{count} entries without their lengths"
    elif not _adds_up(lens, count, rows.sizes[at]):
        return "the lengths of its entries do not add up"
    return _wrong_keys(rows.keys[at], count)


def _wrong_keys(blob: bytes | None, count: int) -> str | None:
    if blob is None:
        return None
    try:
        if blob[:1] == KEY_OF_FEW:
            few, places = unpack_few(blob)
            return None if len(places) == count and max(places, default=-1) < len(few) else _NOT_ONE_EACH
        keys = unpack_keys(blob, count)
    except (UnicodeDecodeError, ValueError):
        return "its routing keys are no text"
    if len(keys) != count:
        return _NOT_ONE_EACH
    if blob[:1] != KEY_FOR_ALL and pack_each(keys) != blob:  # unpacking is lenient
        return "its routing keys are cut off"
    return None
