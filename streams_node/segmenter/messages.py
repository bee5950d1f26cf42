"""What the stage orders of the child, and what it gets: values that JSON can hold."""

from pathlib import Path
from typing import Any

import msgspec

from streams_node.errors import WorkerFailed
from streams_node.placement.made import Made, ObjectFacts, Seal


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Seal the log above one row, up to another, or less if that is more than a flush may take."""

    database: str
    folder: str
    after_row: int
    through_row: int
    flush_bytes_max: int
    own_segment_bytes: int
    segment_bytes: int
    segment_entries: int


class BuiltObject(msgspec.Struct, frozen=True, kw_only=True):
    facts: ObjectFacts
    file: str
    directory: bytes | None = None


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """A seal as it travels."""

    after_row: int
    through_row: int
    log_bytes: int
    rows: int
    objects: list[BuiltObject]
    ends: str | None
    stuck: list[tuple[int, str]]


def seal_of(answer: dict[str, Any]) -> Seal:
    """The seal that a child's answer tells of."""
    try:
        built = msgspec.convert(answer, Built)
    except msgspec.ValidationError as problem:
        raise WorkerFailed(f"the worker's seal cannot be understood: {problem}") from problem
    objects = [Made(made.facts, Path(made.file), made.directory) for made in built.objects]
    ends = None if built.ends is None else Path(built.ends)
    return Seal(built.after_row, built.through_row, built.log_bytes, built.rows, objects, ends, built.stuck)
