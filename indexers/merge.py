"""Makes one index object of several: what a `Merge` orders.

    merge(order, paths, folder, made) -> Made       paths: the local file of each input, by its `made`

Keeps    the covers of the inputs come out with the ordinals of the output; what an input covers and the order does not
         name (of deleted streams, of superseded configurations) is not in the output. An input that is not what the
         order says is `IndexDamaged`, with its `made` as the name.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from indexers import lexicon
from indexers.build import EXTENSIONS, Made
from indexers.lexicon import Lexicon
from indexers.messages import Cover, IndexObject, Merge
from indexers.runs import RunReader


def merge(order: Merge, paths: Mapping[str, Path], folder: Path, made: str) -> Made:
    """The index object, as a file in `folder`."""
    path = folder / f"{made}.{EXTENSIONS[order.family]}"
    readers = [Lexicon(paths[each.made], name=each.made) for each in order.inputs]
    written = lexicon.merge(readers, path)
    covers = _covers(order.inputs, readers)
    return Made(
        IndexObject(
            made=made,
            family=order.family,
            level=order.level,
            bytes=written.size,
            sum=written.xxh128,
            rows=written.rows,
            covers=covers,
        ),
        path,
    )


def _covers(inputs: list[IndexObject], readers: list[RunReader] | list[Lexicon]) -> list[Cover]:
    covers, before = list[Cover](), 0
    for each, reader in zip(inputs, readers, strict=True):
        covers += [msgspec.structs.replace(cover, ordinal=cover.ordinal + before) for cover in each.covers]
        before += len(reader.objects)
    return covers
