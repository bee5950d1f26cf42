"""Which streams a pack holds, by its own directory: for queries over so many streams that naming all would be too much.

Keeps    a directory is read once; it has a checksum of its own.
"""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_index.source.ranges import RangeFile
from streams_node.errors import ObjectDamaged
from streams_node.objects import RetryingStore
from streams_node.placement.made import ObjectFacts
from streams_node.segments.directory import Directory
from streams_node.segments.format import check, directory_of

_KEPT_MAX = 256  # of 28 bytes a stream


class Directories:
    """Of the packs of one store."""

    def __init__(self, store: RetryingStore) -> None:
        self._store = store
        self._kept: dict[str, Directory] = {}

    def of(self, facts: ObjectFacts) -> Directory:
        """ObjectDamaged if the pack has none that can be read."""
        found = self._kept.get(facts.made)
        if found is None:
            found = self._read(facts)
            while len(self._kept) >= _KEPT_MAX:
                del self._kept[next(iter(self._kept))]
            self._kept[facts.made] = found
        return found

    def _read(self, facts: ObjectFacts) -> Directory:
        source: Any = pa.PythonFile(RangeFile(self._store, facts.key(), facts.bytes), mode="r")
        try:
            with pq.ParquetFile(source) as file:
                packed = directory_of(check(file.metadata, facts.made))
        except (pa.ArrowException, ValueError, OSError) as problem:
            raise ObjectDamaged(facts.made, str(problem).partition("\n")[0]) from problem
        if packed is None:
            raise ObjectDamaged(facts.made, "it is a pack without a directory")
        return Directory.unpack(packed, facts.made)
