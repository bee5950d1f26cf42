"""Sealed files, and what is in them."""

from pathlib import Path
from typing import Any

from streams_node.placement.made import ObjectFacts
from streams_node.segments.reader import SealedFile
from streams_node.segments.writer import Written
from tests.segments.entries import Entry


def facts_of(written: Written, row: int) -> ObjectFacts:
    names = set(ObjectFacts.__struct_fields__) & set(Written._fields)
    known = {name: getattr(written, name) for name in names}
    return ObjectFacts(**known, bytes=written.size, first_row=row, last_row=row)


def entries_in(file: Path, made: str) -> list[Entry]:
    with SealedFile(file, made) as opened:
        rows = [row for batch in opened.batches() for row in zip(*map(values, batch.columns), strict=True)]
    return [Entry(row[0], row[1], row[6], row[2], row[3], row[4], row[5]) for row in rows]


def values(column: Any) -> list[Any]:
    return column.cast("int64").to_pylist() if str(column.type).startswith("timestamp") else column.to_pylist()  # type: ignore[no-any-return]
