"""The one pass: stretches of sealed objects in, an index object of every family out.

    with Builder(meanings, folder) as builder:
        for build in claim.work:
            builder.add(build, sealed_rows(path, build))
        made = builder.finish(new_id)

Owns     the order of things: an entry is decoded once, promoted once, and read once a field for all families.
Pulls    rows of sealed objects, and what their streams' entries mean.
Hands on files in `folder`, and for each of them an `IndexObject` as it is committed: one of each family for all objects
         that were added, but one companion a configuration.
Keeps    every entry of a stretch is covered. What is no JSON object, or cannot be promoted, is covered without a value,
         and counted. An object that does not hold what the claim says is `SourceDamaged`, before anything of it is
         taken in, so the others go on.
Dies     leaving files in `folder`, which belongs to whoever runs it.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow.compute as pc

from indexers import lexicon
from indexers.messages import Build, Cover, IndexObject, Meaning
from indexers.plan import Family
from indexers.runs import Written
from indexers.sealed import Piece, Stretches

EXTENSIONS: dict[Family, str] = {
    "lexicon": "parquet",
    "exact": "parquet",
    "companion": "companion",
    "rollups": "parquet",
    "metrics": "parquet",
}


class Made(NamedTuple):
    """An index object, and where its bytes are."""

    object: IndexObject
    path: Path
    filter: Path | None = None  # of an exact run


class Builder:
    """One task: any number of objects, then `finish`. Not for two threads."""

    def __init__(self, meanings: Sequence[Meaning], folder: Path) -> None:
        self._meanings = meanings
        self._folder = folder
        self._sources: list[str] = []
        self._covers: dict[Family, list[Cover]] = {}
        self._keys: list[tuple[str, list[Any]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is kept outside of the folder."""

    def add(self, build: Build, pieces: Iterable[Piece]) -> None:
        """Take in the stretches of an object. SourceDamaged: nothing was taken in."""
        stretches = Stretches(build, pieces)
        ordinal = len(self._sources)
        self._sources.append(build.source.made)
        table = stretches.table
        if table is None:
            return
        keyed = []
        for at, stretch in enumerate(stretches.stretches):
            rows = table.slice(stretches.starts[at], stretches.starts[at + 1] - stretches.starts[at])
            if "lexicon" in stretch.families:
                keyed.append(rows.select(["stream", "key"]))
                config = self._meanings[stretch.meaning].configs["lexicon"]
                times = pc.min_max(rows.column("append_ts").cast("int64")).as_py()
                cover = Cover(
                    stream=stretch.stream,
                    first_seq=stretch.first_seq,
                    end_seq=stretch.end_seq,
                    config=config,
                    ordinal=ordinal,
                    entries=rows.num_rows,
                    payload_bytes=pc.sum(pc.binary_length(rows.column("payload"))).as_py(),
                    min_ts=times["min"],
                    max_ts=times["max"],
                )
                self._covers.setdefault("lexicon", []).append(cover)
        self._keys.append((build.source.made, keyed))

    def finish(self, new_id: Callable[[], str]) -> list[Made]:
        """The index objects of all that was added, each under an id of 32 hexadecimal digits from `new_id`."""
        found = []
        if "lexicon" in self._covers:
            made = new_id()
            path = self._folder / f"{made}.{EXTENSIONS['lexicon']}"
            found.append(Made(self._object("lexicon", made, lexicon.build(self._keys, path)), path))
        return found

    def _object(self, family: Family, made: str, written: Written) -> IndexObject:
        return IndexObject(
            made=made,
            family=family,
            level=0,
            bytes=written.size,
            sum=written.xxh128,
            rows=written.rows,
            covers=self._covers[family],
        )
