"""What Spark calls: planning in processes of the driver's, reading in the executors' Python workers.

Spark starts several processes a query that only ask for the schema, or hand conditions over. So what plans and what
reads is imported where it is called: that is half of what such a process takes.
"""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType
from typing_extensions import override

from spark_index.source.filters import Wanted, take
from spark_index.source.options import Options, options_of
from spark_index.source.plan import Part, parts_of, spans_of, views_of
from spark_index.source.position import Position, between, latest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_index.source.catalogue import Catalogue, Generation, Stream
    from spark_index.source.directories import Directories

COLUMNS = (
    "bucket string, stream string, incarnation bigint, seq bigint, offset string, append_ts timestamp, "
    "schema_version int, key string, payload binary"
)
JSON_COLUMN = ", json string"
_FOLDER = "streams-catalogue-"
_PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: "SparkSession") -> None:
    """Make `format("streams")` known to a session, with the push-down of conditions, which Spark has off by default."""
    spark.conf.set(_PUSH_DOWN, "true")
    spark.dataSource.register(StreamsDataSource)


class StreamsDataSource(DataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = options_of(options)

    @classmethod
    @override
    def name(cls) -> str:
        return "streams"

    @override
    def schema(self) -> str:
        return COLUMNS + (JSON_COLUMN if self._options.json else "")

    @override
    def reader(self, schema: StructType) -> DataSourceReader:
        return _BatchReader(self._options)

    @override
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _StreamReader(self._options)


class _Partition(InputPartition):
    def __init__(self, part: Part, wanted: Wanted) -> None:
        super().__init__(part)
        self.wanted = wanted


def _read(options: Options, partition: InputPartition) -> Iterator[Any]:
    assert isinstance(partition, _Partition)  # noqa: S101 - Spark hands back what `partitions` returned
    from spark_index.source.reading import batches  # noqa: PLC0415 - see above
    from spark_index.stores import shared  # noqa: PLC0415 - see above

    store = shared(options.store, options.keys)
    return batches(store, partition.value, partition.wanted, json=options.json)


class _BatchReader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options
        self._wanted = Wanted()

    @override
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._wanted, left = take(filters)
        return left

    @override
    def partitions(self) -> Sequence[InputPartition]:
        from spark_index.source.catalogue import Catalogue  # noqa: PLC0415 - see above
        from spark_index.source.directories import Directories  # noqa: PLC0415 - see above
        from spark_index.stores import open_at  # noqa: PLC0415 - see above

        at, keys = self._options.store, self._options.keys
        with contextlib.closing(open_at(at, keys)) as store, tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
            found = Catalogue(store, Path(folder)).newest(self._options.pattern)
            views = views_of(found.streams, spans_of(found.streams, self._wanted), lambda _: 0)
            directory_of = Directories(store).of
            parts = parts_of(found.objects, views, self._wanted, self._options.partition_bytes, directory_of)
        return [_Partition(part, self._wanted) for part in parts]

    @override
    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._options, partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`catalogue` lives as long as the query; it is in no pickled copy that a worker gets."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._catalogue: Catalogue | None = None
        self._directories: Directories | None = None
        self._target: Generation | None = None  # of a query that ends with what there was at its start

    @override
    def initialOffset(self) -> dict[str, Any]:
        if not self._options.from_latest:
            return Position().document()
        return latest(Position(), self._newest(), None).document()

    @override
    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._options.entries_max is None else ReadMaxRows(self._options.entries_max)

    @override
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._newest()

    @override
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        entries_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return latest(Position.of(start), self._target or self._newest(), entries_max).document()

    @override
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start == end:
            return []
        found, begins = self._newest(), Position.of(start)
        spans = between(begins, Position.of(end), found)

        def after_row(stream: "Stream") -> int:
            return begins.row if stream.id in begins.ends else 0

        views = views_of(found.streams, spans, after_row)
        assert self._directories is not None  # noqa: S101 - opened with the catalogue
        directory_of = self._directories.of
        parts = parts_of(found.objects, views, Wanted(), self._options.partition_bytes, directory_of)
        return [_Partition(part, Wanted()) for part in parts]

    @override
    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._options, partition)

    @override
    def stop(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
        self._folder = self._catalogue = self._directories = None

    @override
    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_folder": None, "_catalogue": None, "_directories": None, "_target": None}

    def _newest(self) -> "Generation":
        from spark_index.source.catalogue import Catalogue  # noqa: PLC0415 - see above
        from spark_index.source.directories import Directories  # noqa: PLC0415 - see above
        from spark_index.stores import open_at  # noqa: PLC0415 - see above

        if self._catalogue is None:
            self._folder = tempfile.TemporaryDirectory(prefix=_FOLDER)
            store = open_at(self._options.store, self._options.keys)
            self._catalogue, self._directories = Catalogue(store, Path(self._folder.name)), Directories(store)
        return self._catalogue.newest(self._options.pattern)
