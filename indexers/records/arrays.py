"""Payloads -> Arrow's columns of what is at pointers, without an object of Python for a record: a third of the time.

Keeps    a column is what a strict reader of JSON finds in each payload. Where that is not sure (a payload that is no
         object, a value of another type than its column, a name twice, a number beyond its type), there are no columns
         at all, and whoever asked reads record by record.
"""

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from search.language.pointers import segments

_NO_NUMBERS = re.compile(rb"[:,\[\s-](?:NaN|Inf)")  # what Arrow reads as numbers, and JSON does not have
_BRACKETS_MAX = 1000  # of a payload: readers of JSON refuse what is nested deeper, and Arrow does not
_Tree = dict[str, Any]  # name -> a type, or what is below it


def arrays(payloads: Any, types: Mapping[str, Any]) -> dict[str, Any] | None:
    """Pointer -> what all payloads have there, null where one has nothing. `types`: of each pointer, Arrow's."""
    tree = _tree(types)
    if not tree or not len(payloads):
        return None
    try:
        table = _table(payloads, pa.schema(list(_struct(tree))))
    except (pa.ArrowException, OverflowError):  # the latter: more bytes than a block may have
        return None
    if table is None or table.num_rows != len(payloads):
        return None
    found = {pointer: _at(table, segments(pointer)) for pointer in types}
    return found if all(map(_is_finite, found.values())) else None


def _tree(types: Mapping[str, Any]) -> _Tree | None:
    """None where a pointer is of the whole, or leads through another one."""
    tree: _Tree = {}
    for pointer, type_ in types.items():
        *above, name = segments(pointer) or (None,)
        if name is None:
            return None
        place = tree
        for each in above:
            place = place.setdefault(each, {})
            if not isinstance(place, dict):
                return None
        if place.setdefault(name, type_) is not type_:
            return None
    return tree


def _struct(tree: _Tree) -> Any:
    return pa.struct([(name, _struct(below) if isinstance(below, dict) else below) for name, below in tree.items()])


def _table(payloads: Any, schema: Any) -> Any:
    """A row for each JSON value; None where a payload may be anything but one object.

    Each begins and ends in braces, and no two can be parts of one object: after a brace that ends something comes none
    that begins something, and no text goes over a line. So with as many rows as payloads, each is one row.
    """
    if not pc.all(pc.and_(pc.starts_with(payloads, b"{"), pc.ends_with(payloads, b"}"))).as_py():
        return None
    if pc.max(pc.binary_length(payloads)).as_py() > 2 * _BRACKETS_MAX and any(map(_may_be_deep, payloads.to_pylist())):
        return None
    payloads.cast(pa.string())  # raises where anything is no UTF-8, also where no column looks
    lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(payloads)], pa.int32()), payloads), b"\n")
    data = lines[0].as_buffer()
    text = data.to_pybytes()
    if (b"NaN" in text or b"Inf" in text) and _NO_NUMBERS.search(text):
        return None
    return pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _may_be_deep(payload: bytes) -> bool:
    return payload.count(b"[") + payload.count(b"{") > _BRACKETS_MAX


def _at(table: Any, path: tuple[str, ...]) -> Any:
    column = table.column(path[0])
    found = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    for name in path[1:]:
        found = pc.struct_field(found, name)
    return found


def _is_finite(column: Any) -> bool:
    return column.type != pa.float64() or pc.all(pc.is_finite(column)).as_py() is not False
