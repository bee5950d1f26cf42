"""Makes one index object of several: what a `Merge` orders.

    merge(order, paths, folder, made) -> Made       paths: the local file of each input, by its `made`

Keeps    the covers of the inputs come out with the ordinals of the output; what an input covers and the order does not
         name (of deleted streams, of superseded configurations) is not in the output. An input that is not what the
         order says is `IndexDamaged`, with its `made` as the name.
Dies     leaving files in `folder`, which belongs to whoever runs it.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree
from typing import Any

import msgspec

from indexers import companion, exact, lexicon, metrics, rollups
from indexers.build import Made
from indexers.build.made import Place
from indexers.exact import Exact
from indexers.lexicon import Lexicon
from indexers.messages import Cover, IndexObject, Merge
from indexers.metrics import Metrics
from indexers.plan import Family
from indexers.rollups import Rollups
from indexers.runs import Living, RunReader, Written

_READERS: dict[Family, Any] = {"lexicon": Lexicon, "exact": Exact, "rollups": Rollups, "metrics": Metrics}


def merge(order: Merge, paths: Mapping[str, Path], folder: Path, made: str) -> Made:
    """The index object, as a file in `folder`."""
    place = Place(folder, order.family, made, order.level)
    if order.family == "companion":
        return _companions(order, paths, place)
    with ExitStack() as stack:
        readers: list[RunReader] = [
            stack.enter_context(_READERS[order.family](paths[each.made], name=each.made, expected=expected(each)))
            for each in order.inputs
        ]
        covers = _covers(order.inputs, [len(reader.objects) for reader in readers])
        if order.family == "exact":
            built = exact.merge(readers, place.path, [_living(each) for each in order.inputs])
            return place.holds(built.written, covers, built.filter)
        if order.family == "lexicon":
            written = lexicon.merge(readers, place.path, [_living(each) for each in order.inputs])
        elif order.family == "rollups":
            written = rollups.merge(readers, place.path, [_living(each) for each in order.inputs])
        else:
            written = metrics.merge(readers, place.path, [_ranges(each) for each in order.inputs])
        return place.holds(written, covers)


def expected(index: IndexObject) -> Written:
    """What a reader verifies a file by."""
    return Written(index.family, 0, (), index.rows, index.bytes, index.sum, None, None)


def _companions(order: Merge, paths: Mapping[str, Path], place: Place) -> Made:
    packs = [companion.Pack(paths[each.made], name=each.made, expected=(each.bytes, each.sum)) for each in order.inputs]
    scratch = place.folder / f"{place.made}.parts"
    try:
        written = companion.merge(packs, [each.covers for each in order.inputs], scratch, place.path)
    finally:
        rmtree(scratch, ignore_errors=True)
    return place.holds(written, _covers(order.inputs, [len(pack.directory.objects) for pack in packs]))


def _covers(inputs: Sequence[IndexObject], objects: Sequence[int]) -> list[Cover]:
    """The covers of the inputs, each behind the objects of the inputs before its own."""
    covers, before = list[Cover](), 0
    for each, count in zip(inputs, objects, strict=True):
        covers += [msgspec.structs.replace(cover, ordinal=cover.ordinal + before) for cover in each.covers]
        before += count
    return covers


def _living(index: IndexObject) -> Living:
    """The rows of a run that stay."""
    return {(cover.stream, cover.ordinal) for cover in index.covers}


def _ranges(index: IndexObject) -> dict[int, list[tuple[int, int]]]:
    """The sequences of each stream that stay; those that follow each other are one range."""
    found: dict[int, list[tuple[int, int]]] = {}
    for cover in sorted(index.covers, key=lambda cover: (cover.stream, cover.first_seq)):
        ranges = found.setdefault(cover.stream, [])
        if ranges and ranges[-1][1] == cover.first_seq:
            ranges[-1] = ranges[-1][0], cover.end_seq
        else:
            ranges.append((cover.first_seq, cover.end_seq))
    return found
