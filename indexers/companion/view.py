"""Many companions of one configuration as one index to search."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import tantivy

from indexers.companion.layout import ROW, SEG
from indexers.companion.pack import Pack
from indexers.companion.stitch import StitchingBroken, counted, stitch, stitching_works
from indexers.runs import IndexDamaged


class Address(NamedTuple):
    """A document: its stream's incarnation, and its sequence."""

    stream: int
    seq: int


class View:
    """One searcher over companions. `folder` is new; it may be removed when the view is not used any more.

    `segments` are the numbers of documents of each segment, and `counted` are all of these: those that Tantivy's scores
    are made of, with what a merge left out and did not yet drop.
    """

    def __init__(self, packs: Sequence[Pack], folder: Path) -> None:
        if len(packs) > 1 and not stitching_works():
            raise StitchingBroken("several companions cannot be searched as one with this version of tantivy")
        if len({pack.directory.config for pack in packs}) != 1:
            raise ValueError("a view is of companions of one configuration")
        self.packs = tuple(packs)
        folders = []
        for number, pack in enumerate(packs):
            folders.append(folder / str(number))
            pack.unpack(folders[-1])
        whole = folders[0]
        if len(folders) > 1:
            whole = folder / "view"
            stitch(folders, whole)
        try:
            self.index = tantivy.Index.open(str(whole))
            self.searcher = self.index.searcher()
            self.segments = tuple(counted(whole))
        except (ValueError, KeyError, OSError) as problem:
            raise IndexDamaged(packs[0].name, f"Tantivy cannot open it: {problem}") from problem
        self.counted = sum(self.segments)
        self.schema = self.index.schema

    @property
    def docs(self) -> int:
        return int(self.searcher.num_docs)

    def addresses(self, found: Sequence[tantivy.DocAddress]) -> list[Address]:
        """Which entries these documents are. Holds the interpreter: for one page at a time."""
        streams = self.searcher.fast_field_values(SEG, list(found))
        seqs = self.searcher.fast_field_values(ROW, list(found))
        return [Address(int(stream or 0), int(seq or 0)) for stream, seq in zip(streams, seqs, strict=True)]
