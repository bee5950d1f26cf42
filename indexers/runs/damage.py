"""What is wrong with index files, as one error."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa


class IndexDamaged(ValueError):
    """A run that cannot be read: what it covers is to be treated as not covered, never as without a match."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"index run `{name}` cannot be read: {reason}")
        self.name = name
        self.reason = reason


class IndexTooNew(IndexDamaged):
    """A run of a format that this version does not know."""


@contextmanager
def damage(name: str) -> Iterator[None]:
    """Whatever is wrong with the bytes is one error; that there are none is another."""
    try:
        yield
    except (FileNotFoundError, IndexDamaged):
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as problem:
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise IndexDamaged(name, reason) from problem
