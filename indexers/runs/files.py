"""The file of a run.

columns   the family's; rows sorted by its key columns (text and binary by bytes), each key once
metadata  streams.index   {"family": "exact", "format": 1, "objects": ["<id>", …]}
pages     zstd, with checksums; row groups of at most 16,384 rows and about 1 MiB, with statistics on the key columns
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from indexers.runs.damage import IndexDamaged, IndexTooNew, damage
from indexers.runs.sink import Sink

METADATA_KEY = b"streams.index"
GROUP_ROWS = 1 << 14  # what a lookup decodes: about a millisecond
GROUP_BYTES = 1 << 20  # in memory; long keys make groups of fewer rows
_SLICE_ROWS_MIN = 256  # a group of longer rows than 4 KiB each may pass GROUP_BYTES
_ZSTD_LEVEL = 3
_READ_BYTES = 1 << 20  # of a checksum of the whole
_NAME_CHARS_MAX = 40

Source = Path | bytes  # where a run is read from
Target = Path | BinaryIO  # where a run is written to: a new file, or anything with `write`


class Family(NamedTuple):
    """The format of one family's runs. A key column of which every run has few values goes into `dictionary`; there are
    statistics of the columns of the key, and of those in `bounded`.
    """

    name: str
    format: int
    schema: Any
    key: tuple[str, ...]
    dictionary: tuple[str, ...]
    encodings: dict[str, str]
    bounded: tuple[str, ...] = ()


class Written(NamedTuple):
    """A whole run, and what its catalogue has to know of it."""

    family: str
    format: int
    objects: tuple[str, ...]  # what it covers, in the order of the ordinals in its rows
    rows: int
    size: int
    xxh128: str  # of the whole file, as 32 hex digits
    min_stream: int | None  # None: the run has no rows
    max_stream: int | None


class _Metadata(msgspec.Struct, frozen=True):
    family: str
    format: int
    objects: tuple[str, ...]


class _AnyMetadata(msgspec.Struct):
    family: str
    format: int


_DECODER = msgspec.json.Decoder(_Metadata, strict=True)
_ANY_DECODER = msgspec.json.Decoder(_AnyMetadata, strict=True)


class RunWriter:
    """One run in the making: sorted tables in, `finish` at the end. Left without that, it leaves no file behind."""

    def __init__(self, family: Family, target: Target, objects: Sequence[str]) -> None:
        self._family = family
        self._objects = tuple(objects)
        self._path = target if isinstance(target, Path) else None
        self._sink = Sink(target.open("xb") if isinstance(target, Path) else target)
        self._parquet = pq.ParquetWriter(
            pa.PythonFile(self._sink, mode="w"),
            family.schema,
            compression="zstd",
            compression_level=_ZSTD_LEVEL,
            use_dictionary=list(family.dictionary),
            column_encoding=family.encodings,
            write_statistics=[*family.key, *family.bounded],
            write_page_checksum=True,
            store_schema=False,
        )
        self._open: list[Any] = []  # slices of the row group that is not full yet
        self._open_rows = 0
        self._open_bytes = 0
        self._last: tuple[Any, ...] | None = None
        self._rows = 0
        self._first_stream: int | None = None
        self._done = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._done:
            self._abandon()

    def write(self, table: Any) -> None:
        """The next rows, sorted and distinct by the key."""
        if not table.num_rows:
            return
        table = table.select(self._family.schema.names).cast(self._family.schema).combine_chunks()
        first = key_at(table, self._family.key, 0)
        if self._last is not None and first <= self._last:
            raise ValueError(f"rows of a {self._family.name} run come in order")
        if self._first_stream is None:
            self._first_stream = table.column("stream")[0].as_py()
        self._last = key_at(table, self._family.key, table.num_rows - 1)
        self._rows += table.num_rows
        step = max(_SLICE_ROWS_MIN, min(GROUP_ROWS, GROUP_BYTES * table.num_rows // max(1, table.nbytes)))
        start = 0
        while start < table.num_rows:
            part = table.slice(start, min(step, GROUP_ROWS - self._open_rows))
            self._open.append(part)
            self._open_rows += part.num_rows
            self._open_bytes += part.nbytes
            start += part.num_rows
            if self._open_rows >= GROUP_ROWS or self._open_bytes >= GROUP_BYTES:
                self._end_group()

    def finish(self) -> Written:
        """Write the rest and the footer. Whoever puts the file somewhere waits for that disk."""
        self._end_group()
        metadata = _Metadata(self._family.name, self._family.format, self._objects)
        self._parquet.add_key_value_metadata({METADATA_KEY: msgspec.json.encode(metadata)})
        self._parquet.close()
        self._done = True
        self._sink.end(own=self._path is not None)
        return Written(
            family=self._family.name,
            format=self._family.format,
            objects=self._objects,
            rows=self._rows,
            size=self._sink.size,
            xxh128=self._sink.hash.hexdigest(),
            min_stream=self._first_stream,
            max_stream=None if self._last is None else self._last[0][1],
        )

    def _end_group(self) -> None:
        if self._open:
            self._parquet.write_table(pa.concat_tables(self._open), row_group_size=self._open_rows)
            self._open, self._open_rows, self._open_bytes = [], 0, 0

    def _abandon(self) -> None:
        self._done = True
        self._sink.dropped = True
        with suppress(pa.ArrowException, OSError):
            self._parquet.close()
        if self._path is not None:
            with suppress(OSError):  # what is still buffered may find the disk full
                self._sink.end(own=True)
            self._path.unlink(missing_ok=True)


class RunReader:
    """An open run, for one thread at a time. `expected` is what the catalogue knows of it: given, the whole file is
    verified first.
    """

    def __init__(self, family: Family, source: Source, *, name: str = "", expected: Written | None = None) -> None:
        self.name = name or (source.name if isinstance(source, Path) else f"{len(source)} bytes")
        self.family = family
        if expected is not None:
            self._verify(source, expected)
        with damage(self.name):
            self._source = pa.OSFile(str(source)) if isinstance(source, Path) else pa.BufferReader(source)
        self._known: list[list[tuple[Any, Any]]] | None = None
        self._last: tuple[tuple[int, tuple[str, ...] | None], Any] | None = None
        try:
            with damage(self.name):
                self._parquet = pq.ParquetFile(self._source, page_checksum_verification=True, pre_buffer=False)
                self._metadata = self._parquet.metadata
                self.objects = self._check()
        except BaseException:
            self._source.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Tables that were read stay usable."""
        self._parquet.close()
        self._source.close()

    @property
    def rows(self) -> int:
        return int(self._metadata.num_rows)

    @property
    def groups(self) -> int:
        return int(self._metadata.num_row_groups)

    def group(self, number: int, columns: tuple[str, ...] | None = None) -> Any:
        """A row group as a table of one chunk a column. The last one is kept: who reads pages asks for it again."""
        if self._last is None or self._last[0] != (number, columns):
            self._last = (number, columns), self._read(number, columns)
        return self._last[1]

    def tables(self) -> Iterator[Any]:
        """Every row group, in order: what a merge reads."""
        for number in range(self.groups):
            yield self._read(number, None)

    def _read(self, number: int, columns: tuple[str, ...] | None) -> Any:
        with damage(self.name):
            wanted = None if columns is None else list(columns)
            table = self._parquet.read_row_group(number, columns=wanted, use_threads=False).combine_chunks()
            table.validate(full=True)  # text that is not UTF-8 would only fail at whoever looks at it
        if table.num_rows != self._metadata.row_group(number).num_rows or not table.num_rows:
            raise IndexDamaged(self.name, f"row group {number} has {table.num_rows} rows, not what the footer says")
        return table

    def groups_within(self, bounds: Sequence[tuple[Any, Any]]) -> Iterator[int]:
        """Row groups that may hold rows whose leading key columns lie in these closed bounds; None is no bound."""
        for number, known in enumerate(self._bounds()):
            if all(_overlaps(*pair, low, high) for pair, (low, high) in zip(known, bounds, strict=False)):
                yield number

    def bounds_of(self, number: int, column: str) -> tuple[Any, Any]:
        """The least and the greatest value of a bounded column in a row group; None where that is not known of all."""
        with damage(self.name):
            statistics = self._metadata.row_group(number).column(self.family.schema.get_field_index(column)).statistics
            if statistics is None or statistics.null_count:
                return None, None
            return _least_and_most(statistics)

    def names_of(self, ordinals: Iterable[int]) -> list[str]:
        """The objects that rows mean by these numbers."""
        return [self.objects[ordinal] for ordinal in self.checked(ordinals)]

    def checked(self, ordinals: Iterable[int]) -> list[int]:
        """Ordinals out of rows: they are of objects of the run."""
        count = len(self.objects)
        found = list(ordinals)
        if found and not 0 <= min(found) <= max(found) < count:
            raise IndexDamaged(self.name, f"its rows name objects that its {count} are not")
        return found

    def _bounds(self) -> list[list[tuple[Any, Any]]]:
        """The least and the greatest value of each key column in each row group. Kept: asking costs 10 µs a column."""
        if self._known is None:
            with damage(self.name):
                groups = [self._metadata.row_group(number) for number in range(self.groups)]
                columns = range(len(self.family.key))
                self._known = [[_least_and_most(group.column(at).statistics) for at in columns] for group in groups]
        return self._known

    def _check(self) -> tuple[str, ...]:
        text = (self._metadata.metadata or {}).get(METADATA_KEY)
        if text is None:
            raise IndexDamaged(self.name, "it is a Parquet file, and no run of an index")
        any_of = _ANY_DECODER.decode(text)
        if any_of.family != self.family.name:
            seen = any_of.family[:_NAME_CHARS_MAX]
            raise IndexDamaged(self.name, f"it is of the family `{seen}`, not `{self.family.name}`")
        if any_of.format > self.family.format:
            raise IndexTooNew(
                self.name,
                f"it has format {any_of.format}, this version knows {self.family.format}; "
                "run the newer version that wrote it, or rebuild the index",
            )
        if any_of.format < self.family.format:
            raise IndexDamaged(
                self.name,
                f"it has format {any_of.format}, this version reads {self.family.format}; rebuild the index",
            )
        if not self._metadata.schema.to_arrow_schema().equals(self.family.schema):
            raise IndexDamaged(self.name, "its columns are not those of its format")
        return _DECODER.decode(text).objects

    def _verify(self, source: Source, expected: Written) -> None:
        digest, size = xxhash.xxh3_128(), 0
        with BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
            while block := file.read(_READ_BYTES):
                digest.update(block)
                size += len(block)
        if size != expected.size:
            raise IndexDamaged(self.name, f"it has {size} bytes, and should have {expected.size}")
        if digest.hexdigest() != expected.xxh128:
            raise IndexDamaged(self.name, "its bytes have another checksum than when it was written")


def key_at(table: Any, key: Sequence[str], row: int) -> tuple[Any, ...]:
    """A row's sort key: comparable as the run is sorted, nulls first. Text compares by code point, and so by UTF-8."""
    values = (table.column(name)[row].as_py() for name in key)
    return tuple((value is not None, value) for value in values)


def _least_and_most(statistics: Any) -> tuple[Any, Any]:
    """Unknown where there are no statistics: there are none for very long text."""
    if statistics is None or not statistics.has_min_max:
        return None, None
    return statistics.min, statistics.max


def _overlaps(least: Any, most: Any, low: Any, high: Any) -> bool:
    """Whether values within bounds may be there; None is no bound."""
    return (high is None or least is None or least <= high) and (low is None or most is None or most >= low)
