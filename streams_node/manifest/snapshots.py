"""Snapshots in the bucket: parts, and an index that is put last. One without it was cut off, and counts for nothing."""

from typing import NamedTuple

from streams_node.errors import CatalogueError, ObjectMissing, PreconditionFailed, StoreCorrupt
from streams_node.manifest.compose import numbered_lines
from streams_node.manifest.dump import PartFile
from streams_node.manifest.records import INDEX_PART, Index, Part, decode_index
from streams_node.objects import Checksum, Generation, RetryingStore, WriteId
from streams_node.objects.keys import SNAPSHOTS, parse, snapshot_key

_SUM_SHOWN = 16


class Listed(NamedTuple):
    """A snapshot as the store lists it; `complete` as far as the listing knows."""

    generation: int
    complete: bool
    parts: tuple[int, ...]
    bytes: int


def put_snapshot(store: RetryingStore, generation: int, parts: list[PartFile]) -> None:
    """Put the parts in their order. Parts that are there already are fine if they are the same."""
    for part in parts:
        put_part(store, generation, part)


def put_part(store: RetryingStore, generation: int, part: PartFile) -> None:
    key = snapshot_key(Generation(generation), part.part)
    write = WriteId(f"snapshot-{generation}-{part.part}-{part.sha256[:_SUM_SHOWN]}")
    try:
        store.put(key, part.file, write_id=write)
    except PreconditionFailed as problem:
        there = store.head(key)
        if there is None or there.checksum != part.sha256:
            raise CatalogueError(
                f"`{key}` in {store.place} is of another attempt to make this snapshot; the next one will be "
                "of a later generation"
            ) from problem


def snapshots(store: RetryingStore) -> list[Listed]:
    """All snapshots, newest first, as the store lists them: one that has just been made may be missing."""
    found: dict[int, dict[int, int]] = {}
    after = None
    while True:
        page = store.list(SNAPSHOTS, after)
        for listed in page.objects:
            place = parse(listed.key)
            if place is not None and place.generation is not None and place.part is not None:
                found.setdefault(place.generation, {})[place.part] = listed.size
        if page.next_after is None:
            break
        after = page.next_after
    return [
        Listed(generation, INDEX_PART in sizes, tuple(sorted(sizes)), sum(sizes.values()))
        for generation, sizes in sorted(found.items(), reverse=True)
    ]


def fetch_index(store: RetryingStore, generation: int) -> Index:
    """What a snapshot consists of; CatalogueError for one that is not whole."""
    what = f"snapshot {generation}"
    data = _fetch(store, generation, INDEX_PART, None, f"{what}, index")
    line = next(numbered_lines(data, f"{what}, index"), None)
    if line is None:
        raise CatalogueError(f"{what}, index is damaged: it is empty")
    index = decode_index(line[1], f"{what}, index")
    if index.generation != generation:
        raise CatalogueError(f"{what}, index is damaged: it is of snapshot {index.generation}")
    return index


def fetch_part(store: RetryingStore, generation: int, part: Part) -> bytes:
    """The bytes of a part, verified against the index."""
    return _fetch(store, generation, part.part, part.sha256, f"snapshot {generation}, part {part.part}")


def _fetch(store: RetryingStore, generation: int, part: int, expected: str | None, what: str) -> bytes:
    key = snapshot_key(Generation(generation), part)
    try:
        return store.get(key, expected=None if expected is None else Checksum(expected)).data
    except ObjectMissing as problem:
        raise CatalogueError(f"{what} is missing (`{key}` in {store.place})") from problem
    except StoreCorrupt as problem:
        raise CatalogueError(f"{what} is damaged ({problem.message})") from problem
