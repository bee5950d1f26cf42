"""Looks into a bucket from outside, and says what does not belong there, or is missing.

Owns     nothing: a store of its own, and a read-only look into the database.
Keeps    every key of the bucket is one that `objects/keys.py` makes, and is named by somebody: an object by the
         catalogue, a generation or a snapshot by the chain. The catalogue is read by `manifest/rebuild`, from the
         bucket alone, and held against the node's table of objects.
"""

import asyncio
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from streams_node.config import Settings
from streams_node.manifest import Chain
from streams_node.manifest.rebuild import rebuild
from streams_node.manifest.records import INDEX_PART
from streams_node.objects import RequestCounts, RetryingStore, connect
from streams_node.objects.keys import EVERYTHING, Key, parse

_POLL_S = 0.1


class Told(NamedTuple):
    """What a database says of the bucket."""

    generation: int
    live: set[str]
    dead: set[str]
    unpublished: int
    above: int  # log rows that no generation covers
    snapshot: int
    merged: int  # how often, at most, entries were merged


def told(database: Path) -> Told:
    with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)) as db:
        db.execute("BEGIN")
        node = dict(db.execute(_sql("node_values")).fetchall())
        objects = db.execute(_sql("objects")).fetchall()
        return Told(
            int(node["generation"]),
            {made for made, dead, _ in objects if not dead},
            {made for made, dead, _ in objects if dead},
            db.execute(_sql("unpublished")).fetchone()[0],
            db.execute(_sql("rows_above"), (node["released_through"],)).fetchone()[0],
            int(node["snapshot"]),
            max((level for _, _, level in objects), default=0),
        )


class Tail(NamedTuple):
    """Log rows that no generation covers, by row the stream; and the streams that are there."""

    rows: dict[int, int]
    streams: set[int]

    @property
    def living(self) -> set[int]:
        return {row for row, stream in self.rows.items() if stream in self.streams}

    def lost_in(self, later: "Tail") -> set[int]:
        """Rows of streams that are still there."""
        return {row for row in self.living - later.rows.keys() if self.rows[row] in later.streams}


def tail(database: Path) -> Tail:
    with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)) as db:
        db.execute("BEGIN")
        rows = dict(db.execute(_sql("tail")).fetchall())
        return Tail(rows, {stream for (stream,) in db.execute(_sql("streams"))})


class Held(NamedTuple):
    """What a bucket holds, by kind. `strange` is what nobody should have left there."""

    objects: set[str]
    generations: set[int]
    snapshots: Mapping[int, set[int]]
    strange: set[str]


def held(store: RetryingStore) -> Held:
    objects: set[str] = set()
    generations: set[int] = set()
    snapshots: dict[int, set[int]] = defaultdict(set)
    strange: set[str] = set()
    for key in _keys(store):
        place = parse(key)
        if place is None or place.artifact == "probe":
            strange.add(key)
        elif place.made is not None:
            objects.add(place.made)
        elif place.generation is not None and place.part is not None:
            snapshots[place.generation].add(place.part)
        elif place.generation is not None:
            generations.add(place.generation)
    return Held(objects, generations, snapshots, strange)


def named(store: RetryingStore) -> set[str]:
    """The objects that the catalogue in the bucket names, found out as a bootstrap would."""
    chain = Chain(store)
    with tempfile.TemporaryDirectory() as folder:
        mirrored = rebuild(chain, Path(folder), chain.newest())
        with closing(sqlite3.connect(mirrored.path)) as db:
            return {made for (made,) in db.execute(_sql("mirrored_objects"))}


class Bucket:
    """The bucket of one node, whatever its kind."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def store(self) -> RetryingStore:
        return connect(self.settings, RequestCounts())

    async def quiet(self, database: Path, seconds: float) -> None:
        """Wait until nothing is left to publish, to release, or to collect."""
        ends = time.monotonic() + seconds
        while problems := await asyncio.to_thread(lambda: list(self.unfinished(database))):
            if time.monotonic() > ends:
                raise AssertionError("the tiers do not come to rest:\n" + "\n".join(problems))
            await asyncio.sleep(_POLL_S)

    def unfinished(self, database: Path) -> Iterator[str]:
        """What is not as it must be once there is nothing to do."""
        about = told(database)
        if about.above or about.unpublished:
            yield f"{about.above} rows and {about.unpublished} names are not published"
            return
        with closing(self.store()) as store:
            found = held(store)
            if found.strange:
                yield f"nobody needs these keys: {sorted(found.strange)[:5]}"
            if orphans := found.objects - about.live - about.dead:
                yield f"{len(orphans)} objects that nobody names, as {sorted(orphans)[:3]}"
            if about.dead:
                yield f"{len(about.dead)} objects that left the catalogue are still there"
            if lost := about.live - found.objects:
                yield f"{len(lost)} objects that the database names are gone, as {sorted(lost)[:3]}"
            yield from _chained(found, about)
            if (catalogue := named(store)) != about.live:
                yield f"the catalogue names {len(catalogue - about.live)} more and {len(about.live - catalogue)} fewer"

    def verify(self, database: Path) -> None:
        problems = list(self.unfinished(database))
        assert not problems, "\n".join(problems)


def _chained(found: Held, about: Told) -> Iterator[str]:
    """Generations end where the node is; they go on without a gap from the oldest one, or from a whole snapshot."""
    if not about.generation:
        return
    newest, oldest = max(found.generations, default=0), min(found.generations, default=0)
    if newest != about.generation:
        yield f"the newest generation is {newest}, the database says {about.generation}"
    if len(found.generations) != newest - oldest + 1:
        yield f"{newest - oldest + 1 - len(found.generations)} generations are missing from {oldest} to {newest}"
    whole = [generation for generation, parts in found.snapshots.items() if INDEX_PART in parts]
    if oldest > 1 and not any(generation >= oldest - 1 for generation in whole):
        yield f"generations begin at {oldest}, and no snapshot stands for what was before: {whole}"


def _keys(store: RetryingStore) -> Iterator[Key]:
    after = None
    while True:
        page = store.list(EVERYTHING, after)
        yield from (listed.key for listed in page.objects)
        if page.next_after is None:
            return
        after = page.next_after


def _sql(name: str) -> str:
    text = Path(__file__).with_suffix(".sql").read_text("utf-8")
    blocks = dict(block.split("\n", 1) for block in text.split("-- name: ")[1:])
    return blocks[name]
