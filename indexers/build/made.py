"""What comes of a build or a merge."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import xxhash

from indexers.companion import Pack
from indexers.messages import Cover, IndexObject
from indexers.plan import Family
from indexers.runs import Written

EXTENSIONS: dict[Family, str] = {
    "lexicon": "parquet",
    "exact": "parquet",
    "companion": "companion",
    "rollups": "parquet",
    "metrics": "parquet",
}
FILTER = "filter"


class Made(NamedTuple):
    """An index object, and where its bytes are."""

    object: IndexObject
    path: Path
    filter: Path | None = None  # of an exact run


class Place(NamedTuple):
    """Where an index object is to be made."""

    folder: Path
    family: Family
    made: str
    level: int = 0

    @property
    def path(self) -> Path:
        return self.folder / f"{self.made}.{EXTENSIONS[self.family]}"

    def holds(self, written: Written, covers: Sequence[Cover], filtered: bytes = b"") -> Made:
        """The object, once its file is written; the filter of an exact run is written beside it."""
        beside = None
        if filtered:
            beside = self.folder / f"{self.made}.{FILTER}"
            beside.write_bytes(filtered)
        parts = Pack(self.path).bytes_of if self.family == "companion" else None
        return Made(
            IndexObject(
                made=self.made,
                family=self.family,
                level=self.level,
                bytes=written.size,
                sum=written.xxh128,
                rows=written.rows,
                covers=list(covers),
                filter_bytes=len(filtered),
                filter_sum=xxhash.xxh3_128_hexdigest(filtered) if filtered else "",
                col_bytes=0 if parts is None else parts.col,
                fts_bytes=0 if parts is None else parts.fts,
            ),
            self.path,
            beside,
        )
