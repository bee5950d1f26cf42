"""Looks at everything that the catalogue names, and at the catalogue itself; changes nothing.

Keeps    one finding a damage, and one a kind of thing with how many of it were fine. A node may publish and delete
         meanwhile: what is amiss is looked at anew as of a newer generation, as long as there is one, and only what
         that names is damage.
"""

import contextlib
import itertools
import sqlite3
from array import array
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeAlias

from xxhash import xxh3_128_hexdigest

from streams_node.errors import CatalogueError, ObjectDamaged, ObjectMissing, StoreCorrupt, StoreError
from streams_node.manifest.chain import Chain
from streams_node.manifest.compose import Damage, parse
from streams_node.manifest.index_tables import of_indexes
from streams_node.manifest.owner import look
from streams_node.manifest.rebuild import rebuild
from streams_node.manifest.records import Drop, IndexDrop, IndexObject
from streams_node.manifest.snapshots import fetch_index, fetch_part, snapshots
from streams_node.manifest.statements import mirror_statements
from streams_node.manifest.tables import OBJECT_COLUMNS, load_snapshot, open_mirror, sum_of
from streams_node.objects import Checksum
from streams_node.objects.keys import INDEX_FAMILIES, Key, ObjectId, index_filter_key, index_key
from streams_node.placement.made import ObjectFacts

_READERS = 4
_STREAMS_SHOWN = 200  # one lost pack may be of a hundred thousand
_SQL = mirror_statements()
_LOOKS_MAX = 5  # each is only at what the one before did not find in order
Covered = list[tuple[int, int, int]]
Stretches: TypeAlias = (
    "array[int]"  # stream, first_seq, end_seq, one after the other: of a pack they may be a hundred thousand
)


class Finding(NamedTuple):
    """`what` was looked at: `good` of them are as they should be; or one, `name`, is not, and `problem` says how."""

    what: str
    name: str
    good: int
    problem: str


def verify(chain: Chain, folder: Path, *, quick: bool = False) -> Iterator[Finding]:
    """Everything, oldest first. `quick` asks the store for sizes and checksums, and reads no object."""
    newest = chain.newest()
    if not newest:
        raise CatalogueError(f"{chain.store.place} holds no catalogue")
    yield from _owner(chain)
    yield from _generations(chain, newest)
    yield from _snapshots(chain, folder)
    yield from _restored(chain, folder, newest, quick=quick)


def _owner(chain: Chain) -> Iterator[Finding]:
    try:
        seen = look(chain.store)
    except CatalogueError as problem:
        yield Finding("owner", "owner", 0, problem.message)
        return
    if seen is None:
        yield Finding("owner", "owner", 0, "there is no owner record")
    else:
        yield Finding("owner", seen.owner.node, 1, "")


def _generations(chain: Chain, newest: int) -> Iterator[Finding]:
    first = min((number for number, _ in chain.generations()), default=newest)
    good, previous, started = 0, "", False
    for number in range(first, newest + 1):
        name = f"generation {number}"
        try:
            data = chain.fetch(number)
            header, records = parse(data, name)
            for _ in records:
                pass
            _follows(name, number, header.generation, header.previous, previous if started else None)
        except CatalogueError as problem:
            if not _collected(chain, number):
                yield Finding("generation", str(number), 0, problem.message)
            started = False
            continue
        previous, started = sum_of(data), True
        good += 1
    yield Finding("generation", f"{first} to {newest}", good, "")


def _follows(name: str, number: int, says: int, names: str, previous: str | None) -> None:
    if says != number:
        raise CatalogueError(f"{name} says that it is generation {says}")
    if previous is not None and names != previous:
        raise CatalogueError(f"{name} does not name the checksum of the one before it: the chain is broken")


def _collected(chain: Chain, number: int) -> bool:
    """Whether a missing generation is one that a node has just removed, as snapshots stand for it."""
    return number < min((each for each, _ in chain.generations()), default=0)


def _snapshots(chain: Chain, folder: Path) -> Iterator[Finding]:
    good = 0
    for listed in snapshots(chain.store):
        name = str(listed.generation)
        if not listed.complete:
            yield Finding("snapshot", f"{name}, cut off", 1, "")  # a node was killed while it made it: nothing is lost
            continue
        path = folder / "snapshot.db"
        path.unlink(missing_ok=True)
        try:
            index = fetch_index(chain.store, listed.generation)
            with contextlib.closing(open_mirror(path, building=True)) as db:
                load_snapshot(db, index, (fetch_part(chain.store, index.generation, part) for part in index.parts))
        except CatalogueError as problem:
            if any(each.complete and each.generation == listed.generation for each in snapshots(chain.store)):
                yield Finding("snapshot", name, 0, problem.message)
            continue  # otherwise a node has just removed it: newer ones stand for it
        good += 1
    yield Finding("snapshot", "whole ones", good, "")


# --- objects --------------------------------------------------------------------------------------------------------


def _restored(chain: Chain, folder: Path, newest: int, *, quick: bool) -> Iterator[Finding]:
    """What a start from the bucket would find: the objects, and the entries in them."""
    seen: dict[str, Stretches] = {}  # of objects that are fine, which never change
    for looks in range(1, _LOOKS_MAX + 1):
        rebuilt = rebuild(chain, folder, newest, accept_loss=True)
        with contextlib.closing(open_mirror(rebuilt.path)) as db:
            named = _named(db)
            bad = _look_at_all(chain, folder, [facts for facts in named if facts.made not in seen], seen, quick=quick)
            now = chain.newest(newest)
            if (bad or rebuilt.lost) and now > newest and looks < _LOOKS_MAX:
                newest = now
                continue
            yield from (Finding("restore", f"generation {newest}", 0, lost) for lost in rebuilt.lost)
            yield from (Finding("object", facts.key(), 0, problem) for facts, problem in bad)
            yield Finding("object", f"{len(named)} named", len(named) - len(bad), "")
            yield from _indexes(chain, db, newest, quick=quick)
            if not quick:
                yield from _coverage(db, [seen[facts.made] for facts in named if facts.made in seen])
            return


def _named(db: sqlite3.Connection) -> list[ObjectFacts]:
    rows = db.execute(_SQL.all_objects).fetchall()
    return [ObjectFacts(**dict(zip(OBJECT_COLUMNS, row, strict=True))) for row in rows]


def _look_at_all(
    chain: Chain, folder: Path, objects: list[ObjectFacts], seen: dict[str, Stretches], *, quick: bool
) -> list[tuple[ObjectFacts, str]]:
    """Those that are not as they should be; what the others hold goes into `seen`."""
    bad: list[tuple[ObjectFacts, str]] = []
    with ThreadPoolExecutor(_READERS) as readers:
        for facts, covered, problem in readers.map(lambda facts: _look_at(chain, folder, facts, quick=quick), objects):
            if problem is None:
                seen[facts.made] = array("q", itertools.chain.from_iterable(covered))
            else:
                bad.append((facts, problem))
    return bad


def _indexes(chain: Chain, db: sqlite3.Connection, newest: int, *, quick: bool) -> Iterator[Finding]:
    """Objects of indexes. One that is not as it should be costs a rebuild, and no entry."""
    good, bad = 0, []
    named = [record for record in of_indexes(db) if isinstance(record, IndexObject)]
    with ThreadPoolExecutor(_READERS) as readers:
        for found in readers.map(lambda each: _index_problems(chain, each, quick=quick), named):
            good += not found
            bad += found
    dropped = _dropped_since(chain, newest) if bad else set()
    for each, key, problem in bad:
        if each.made not in dropped:
            yield Finding("index", key, 0, problem)
    yield Finding("index", f"{len(named)} named", good, "")


def _index_problems(chain: Chain, each: IndexObject, *, quick: bool) -> list[tuple[IndexObject, str, str]]:
    parts: list[tuple[str, int, str]] = []
    if each.family in INDEX_FAMILIES:  # a later version may have more
        made = ObjectId(each.made)
        parts.append((index_key(each.family, made), each.bytes, each.sum))
        if each.filter_bytes:
            parts.append((index_filter_key(made), each.filter_bytes, each.filter_sum))
    return [
        (each, key, problem)
        for key, size, checksum in parts
        if (problem := _index_problem(chain, Key(key), size, checksum, quick=quick))
    ]


def _index_problem(chain: Chain, key: Key, size: int, checksum: str, *, quick: bool) -> str | None:
    try:
        stored = chain.store.head(key)
        if stored is None:
            return "it is missing"
        if stored.size != size:
            return f"it has {stored.size} bytes, {size} were expected"
        if not quick and xxh3_128_hexdigest(chain.store.get(key).data) != checksum:
            return f"its checksum is not {checksum}"
    except (ObjectMissing, StoreCorrupt) as problem:
        return problem.message
    return None


def _look_at(chain: Chain, folder: Path, facts: ObjectFacts, *, quick: bool) -> tuple[ObjectFacts, Covered, str | None]:
    try:
        if quick:
            return facts, [], _seen(chain, facts)
        data = chain.store.get(facts.key(), expected=Checksum(facts.sha256)).data
        if len(data) != facts.bytes:
            return facts, [], f"it has {len(data)} bytes, {facts.bytes} were expected"
        return facts, _covered(facts, data, folder), None
    except (ObjectMissing, StoreCorrupt, ObjectDamaged) as problem:
        return facts, [], problem.message


def _seen(chain: Chain, facts: ObjectFacts) -> str | None:
    stored = chain.store.head(facts.key())
    if stored is None:
        return "it is missing"
    if stored.size != facts.bytes or stored.checksum not in {None, facts.sha256}:
        return (
            f"it has {stored.size} bytes and the checksum {stored.checksum}; {facts.bytes} and {facts.sha256} expected"
        )
    return None


def _covered(facts: ObjectFacts, data: bytes, folder: Path) -> Covered:
    """What an object holds, by its own account, which has to agree with the catalogue's."""
    from streams_node.segments.directory import Directory  # noqa: PLC0415 - with the reader
    from streams_node.segments.reader import SealedFile  # noqa: PLC0415 - loads pyarrow

    path = folder / f"{facts.made}.parquet"
    path.write_bytes(data)
    try:
        with SealedFile(path, facts.made) as file:
            packed = file.directory()
            if file.entries != facts.entries:
                raise ObjectDamaged(facts.made, f"it has {file.entries} entries, {facts.entries} were expected")
            if facts.stream is not None:
                return [(facts.stream, facts.first_seq, facts.end_seq)]
            if packed is None:
                raise ObjectDamaged(facts.made, "it is a pack without a directory")
            return [(stream, seq, seq + count) for stream, seq, count in Directory.unpack(packed, facts.made).places()]
    finally:
        path.unlink(missing_ok=True)


def _dropped_since(chain: Chain, newest: int) -> set[str]:
    dropped: set[str] = set()
    for number in range(newest + 1, chain.newest(newest) + 1):
        damage: Damage = []
        with contextlib.suppress(StoreError):
            _, records = parse(chain.fetch(number), f"generation {number}", damage)
            dropped |= {record.made for record in records if isinstance(record, Drop | IndexDrop)}
    return dropped


def _coverage(db: sqlite3.Connection, held: Iterable[Stretches]) -> Iterator[Finding]:
    db.execute(_SQL.make_covered)
    for flat in held:
        db.executemany(_SQL.put_covered, zip(*[iter(flat)] * 3, strict=True))
    bad = set()
    for stream, name, kind, first, end in db.execute(_SQL.covered_badly):
        bad.add(stream)
        if len(bad) <= _STREAMS_SHOWN:
            yield Finding("stream", f"{name} ({stream})", 0, f"{kind}: entries {first} to {end - 1}")
    if len(bad) > _STREAMS_SHOWN:
        yield Finding("stream", f"{len(bad) - _STREAMS_SHOWN} more", 0, "as those above")
    streams: int = db.execute(_SQL.mirror_counts).fetchone()[1]
    yield Finding("stream", f"{streams} living", streams - len(bad), "")
