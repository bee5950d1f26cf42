"""Runs the pass."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree
from typing import Any, Self

import msgspec
import pyarrow.compute as pc

from indexers.build.batches import Batch, batches
from indexers.build.collect import Blocks, Companions, Keys, Records, Values, Windows
from indexers.build.made import Made, Place
from indexers.messages import Build, Cover, Meaning
from indexers.plan import FAMILIES, Family
from indexers.records import Subject, Table
from indexers.sealed import Piece, Stretches

_SCRATCH = "in-the-making"


class Builder:
    """One task: any number of objects, then `finish`, once. Not for two threads."""

    def __init__(self, meanings: Sequence[Meaning], folder: Path) -> None:
        self._meanings = meanings
        self._folder = folder
        self._scratch = folder / _SCRATCH
        self._subjects: dict[int, Subject] = {}
        self._covers: dict[tuple[Family, str], list[Cover]] = {}  # of a companion's configuration, else of ""
        self._sources = 0
        self._companions = Companions(self._scratch)
        self._collectors: dict[Family, Any] = {
            "lexicon": Keys(),
            "exact": Values(),
            "companion": self._companions,
            "rollups": Windows(),
            "metrics": Blocks(),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        rmtree(self._scratch, ignore_errors=True)

    def add(self, build: Build, pieces: Iterable[Piece]) -> None:
        """Take in the stretches of an object. SourceDamaged: nothing was taken in."""
        stretches = Stretches(build, pieces)
        for each in self._collectors.values():
            each.begin(build.source.made)
        skipped = list[int]()
        for batch in batches(stretches):
            skipped += self._batch(batch)
        self._cover(stretches, skipped)
        self._sources += 1

    def finish(self, new_id: Callable[[], str]) -> Iterator[Made]:
        """The index objects of all that was added, each under an id of 32 hexadecimal digits from `new_id`, and each as
        soon as it is there: it can be put while the next one is made.
        """
        with ThreadPoolExecutor(1, "rest") as resting:
            rested = resting.submit(self._companions.rest)
            for family, config, covers in self._files():
                place = Place(self._folder, family, new_id())
                if family == "companion":
                    rested.result()
                    yield self._companions.finish(place, config, covers)
                else:
                    yield self._collectors[family].finish(place, covers)

    def _files(self) -> Iterator[tuple[Family, str, list[Cover]]]:
        """What comes of it, with its covers, and of a companion its configuration."""
        for family in FAMILIES:
            yield from ((of, config, covers) for (of, config), covers in self._covers.items() if of == family)

    def _batch(self, batch: Batch) -> list[int]:
        """Hand a batch to its families; the rows that are no objects."""
        if batch.families <= {"lexicon"}:
            for family in batch.families:
                self._collectors[family].add(batch)
            return []
        subject = self._subjects.get(batch.meaning)
        if subject is None:
            subject = self._subjects[batch.meaning] = Subject(self._meanings[batch.meaning])
        seqs = batch.column("seq")
        documents = subject.documents(seqs, batch.table.column("payload").combine_chunks())
        streams, times = batch.column("stream"), batch.column("append_ts")
        table = Table(documents, subject.version)
        records = Records(subject, table, streams, seqs, times, documents.skipped)
        for family in batch.families:
            self._collectors[family].add(batch, records)
        return [batch.rows[at] for at in documents.skipped]

    def _cover(self, stretches: Stretches, skipped: list[int]) -> None:
        if stretches.table is None:
            return
        times = stretches.table.column("append_ts").cast("int64")
        sizes = pc.binary_length(stretches.table.column("payload"))
        skipped.sort()
        for at, stretch in enumerate(stretches.stretches):
            start, end = stretches.starts[at], stretches.starts[at + 1]
            bounds = pc.min_max(times.slice(start, end - start)).as_py()
            cover = Cover(
                stream=stretch.stream,
                first_seq=stretch.first_seq,
                end_seq=stretch.end_seq,
                config="",
                ordinal=self._sources,
                entries=end - start,
                payload_bytes=pc.sum(sizes.slice(start, end - start)).as_py(),
                min_ts=bounds["min"],
                max_ts=bounds["max"],
                skipped=bisect_left(skipped, end) - bisect_left(skipped, start),
            )
            for family in stretch.families:
                self._file(family, stretch.meaning, cover)

    def _file(self, family: Family, meaning: int, cover: Cover) -> None:
        config = self._meanings[meaning].configs[family]
        skipped = 0 if family == "lexicon" else cover.skipped
        key = (family, config if family == "companion" else "")
        self._covers.setdefault(key, []).append(msgspec.structs.replace(cover, config=config, skipped=skipped))
