"""What the tests of the families share: runs as bytes, object names, a memory pool that remembers its peak."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa

from indexers.runs import Target, Written

GOLDEN = Path(__file__).parent / "golden"
# Mixed case, punctuation, both sides of the surrogates (where UTF-16 orders otherwise), NUL, shared beginnings.
TRICKY = ["", "a", "A", "b", "B", "a-", "a_", "a.", "a/", "aa", "\0", "é", "e\u0301", "\uffff", "\ue000", "\U0001f600",
          "\U00010000", "z\U0001f600", "z\uffff", "ß", "K", "user:1", "user:10", "user:2"]  # fmt: skip


def object_name(number: int) -> str:
    return f"{number:032x}"


def in_memory(make: Callable[[Target], Written]) -> tuple[bytes, Written]:
    sink = BytesIO()
    written = make(sink)
    assert written.size == len(sink.getvalue())
    return sink.getvalue(), written


@contextmanager
def peak_of_memory() -> Iterator[Callable[[], int]]:
    """How many bytes Arrow held at most since the beginning."""
    before = pa.default_memory_pool()
    pool: Any = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        yield lambda: int(pool.max_memory())
    finally:
        pa.set_memory_pool(before)
