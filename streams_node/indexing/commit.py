"""What a driver made becomes what is indexed: checked against its claim, then one transaction.

Keeps    covers lie in what was claimed, and none overlaps another one. Those of streams that died meanwhile, or that
         are to be indexed in another way by now, are left out.
Dies     before the transaction ends: nothing of it is there. After it: all of it is, and the catalogue is told later.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import msgspec

import sql
from indexers.messages import CommitRequest, Cover, IndexObject, Merge
from indexers.plan import Family
from streams_node.errors import IndexRefused
from streams_node.indexing.covers import plan_of_stream
from streams_node.indexing.leases import Lease
from streams_node.indexing.spans import Span, holds, united
from streams_node.objects.keys import Key, ObjectId, index_filter_key, index_key
from streams_node.testing.crashpoints import crash_point
from streams_node.wal.batch import rollback

_INDEX = sql.queries("index")


class Outcome(NamedTuple):
    """What came of a commit. `streams` got covers, or lost some."""

    covers: int
    left_out: int
    streams: set[int]


class Checked(NamedTuple):
    """A commit that fits its claim. `inputs`: for each object, the index objects that it takes the place of."""

    objects: list[IndexObject]
    inputs: dict[str, tuple[str, ...]]

    def parts(self) -> Iterator[tuple[Key, int]]:
        """Everything that has to be in the store, with its size."""
        for each in self.objects:
            yield index_key(each.family, ObjectId(each.made)), each.bytes
            if each.filter_bytes:
                yield index_filter_key(ObjectId(each.made)), each.filter_bytes


def check(request: CommitRequest, lease: Lease) -> Checked:
    """Hold a commit against its claim; IndexRefused with the first thing that does not fit."""
    made = [each.made for each in request.objects]
    if len(set(made)) != len(made):
        raise IndexRefused("an object is named twice")
    inputs: dict[str, tuple[str, ...]] = {}
    for output, *merged in request.merged:
        if output not in made or output in inputs or tuple(merged) not in lease.merges:
            raise IndexRefused(f"`{output}` is no merge of this claim")
        inputs[output] = tuple(merged)
    if len(set(inputs.values())) != len(inputs):
        raise IndexRefused("a merge is named twice")
    seen: dict[tuple[int, Family], list[Span]] = {}
    for each in request.objects:
        if each.made in inputs:
            _check_merged(each, lease.merges[inputs[each.made]])
        else:
            _check_built(each, lease)
            for cover in each.covers:
                seen.setdefault((cover.stream, each.family), []).append((cover.first_seq, cover.end_seq))
    for (stream, family), spans in seen.items():
        _check_apart(stream, family, spans)
    return Checked(request.objects, inputs)


def commit(db: sqlite3.Connection, checked: Checked, now_us: int) -> Outcome:
    """The transaction."""
    crash_point("index.commit.before")
    db.execute("BEGIN IMMEDIATE")
    try:
        outcome = _apply(db, checked, now_us)
        crash_point("index.commit.inside")
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise
    crash_point("index.commit.after")
    return outcome


def known(db: sqlite3.Connection, made: Iterable[str]) -> bool:
    """Whether objects have been committed before."""
    return all(db.execute(_INDEX.index_object, (each,)).fetchone() is not None for each in made)


def any_idle(db: sqlite3.Connection) -> bool:
    """Whether there are objects that cover nothing."""
    return db.execute(_INDEX.idle_objects, {"limit": 1}).fetchone() is not None


def kill_idle(db: sqlite3.Connection, now_us: int, limit: int) -> int:
    """Objects that cover nothing any more, as their streams are gone, leave the catalogue."""
    db.execute("BEGIN IMMEDIATE")
    try:
        count = _kill_idle(db, now_us, limit)
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise
    return count


def discard_object(db: sqlite3.Connection, made: str, now_us: int) -> set[int]:
    """An object that cannot be used covers nothing any more; returns whose entries have to be indexed again."""
    db.execute("BEGIN IMMEDIATE")
    try:
        row = db.execute(_INDEX.index_object, (made,)).fetchone()
        streams: set[int] = set()
        if row is not None and row[-1] is None:
            streams = {each[0] for each in db.execute(_INDEX.object_covers, (row[0],))}
            db.executemany(_INDEX.count_move, [(stream,) for stream in streams])
            db.execute(_INDEX.uncover_object, (row[0],))
            _kill(db, row[0], now_us)
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise
    return streams


def discard(db: sqlite3.Connection, stream: int, families: Iterable[Family], now_us: int) -> int:
    """Nothing covers a stream in these families any more; returns how many covers there were."""
    db.execute("BEGIN IMMEDIATE")
    try:
        count = 0
        for family in sorted(set(families)):
            for (number,) in db.execute(_INDEX.objects_of, (stream, family)).fetchall():
                db.execute(_INDEX.tell, ("object", number))
            count += db.execute(_INDEX.uncover_family, (stream, family)).rowcount
        db.execute(_INDEX.count_move, (stream,))
        _kill_idle(db, now_us, count)
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise
    return count


# --- the claim ------------------------------------------------------------------------------------------------------


def _check_built(each: IndexObject, lease: Lease) -> None:
    if each.level:
        raise IndexRefused(f"`{each.made}` is new, and new objects have level 0")
    for cover in each.covers:
        _check_shape(each, cover)
        wanted = lease.builds.get((cover.stream, each.family))
        if wanted is None or wanted.config != cover.config:
            raise IndexRefused(f"`{each.made}` covers stream {cover.stream} as nobody claimed it")
        if not holds(wanted.spans, [(cover.first_seq, cover.end_seq)]):
            raise IndexRefused(
                f"`{each.made}` covers entries {cover.first_seq} to {cover.end_seq - 1} of stream {cover.stream}, "
                "beyond its claim"
            )


def _check_merged(each: IndexObject, merge: Merge) -> None:
    if (each.family, each.level) != (merge.family, merge.level):
        raise IndexRefused(f"`{each.made}` is not of the family and level that its merge has")
    before: dict[tuple[int, str], list[Span]] = {}
    for merged in merge.inputs:
        for cover in merged.covers:
            before.setdefault((cover.stream, cover.config), []).append((cover.first_seq, cover.end_seq))
    before = {key: united(spans) for key, spans in before.items()}
    after: dict[tuple[int, str], list[Span]] = {}
    for cover in each.covers:
        _check_shape(each, cover)
        span = (cover.first_seq, cover.end_seq)
        if not holds(before.get((cover.stream, cover.config), []), [span]):
            raise IndexRefused(f"`{each.made}` covers entries of stream {cover.stream} that its inputs do not")
        after.setdefault((cover.stream, cover.config), []).append(span)
    for (stream, _), spans in after.items():
        _check_apart(stream, each.family, spans)


def _check_shape(each: IndexObject, cover: Cover) -> None:
    numbers = (cover.first_seq, cover.entries, cover.payload_bytes, cover.ordinal, cover.skipped, cover.min_ts)
    if min(numbers) < 0 or cover.end_seq - cover.first_seq != cover.entries or cover.max_ts < cover.min_ts:
        raise IndexRefused(f"the numbers of a cover of `{each.made}` do not fit together")


def _check_apart(stream: int, family: str, spans: list[Span]) -> None:
    ordered = sorted(spans)
    for before, after in pairwise(ordered):
        if after[0] < before[1]:
            raise IndexRefused(f"two covers of stream {stream} in `{family}` overlap at entry {after[0]}")


# --- the transaction ------------------------------------------------------------------------------------------------


def _apply(db: sqlite3.Connection, checked: Checked, now_us: int) -> Outcome:
    streams: set[int] = set()
    touched: set[tuple[int, Family]] = set()
    count = left_out = 0
    desired: dict[int, Mapping[Family, str]] = {}
    for each in checked.objects:
        inputs = checked.inputs.get(each.made, ())
        living = _uncovered(db, inputs, now_us)
        covers = []
        for cover in each.covers:
            if cover.stream not in desired:
                desired[cover.stream] = plan_of_stream(db, cover.stream).configs
            if inputs:
                kept = (cover.stream, cover.config) in living
            else:
                kept = desired[cover.stream].get(each.family) == cover.config
            if kept:
                covers.append(cover)
                touched.add((cover.stream, each.family))
        left_out += len(each.covers) - len(covers)
        count += len(covers)
        _insert(db, each, covers, now_us)
        streams |= {cover.stream for cover in covers}
    for stream in sorted(streams):
        db.execute(_INDEX.count_move, (stream,))
    for stream, family in sorted(touched):
        _retire_covered(db, stream, family, desired[stream].get(family))
    _kill_idle(db, now_us, len(checked.objects) + len(touched))
    return Outcome(count, left_out, streams)


def _uncovered(db: sqlite3.Connection, inputs: Iterable[str], now_us: int) -> set[tuple[int, str]]:
    """Take the covers of a merge's inputs away; returns which streams and configurations they were of."""
    living: set[tuple[int, str]] = set()
    for made in inputs:
        row = db.execute(_INDEX.index_object, (made,)).fetchone()
        if row is None or row[-1] is not None:
            continue
        living |= {(each[0], each[3]) for each in db.execute(_INDEX.object_covers, (row[0],))}
        db.execute(_INDEX.uncover_object, (row[0],))
        _kill(db, row[0], now_us)
    return living


def _insert(db: sqlite3.Connection, each: IndexObject, covers: list[Cover], now_us: int) -> None:
    payload = sum(cover.payload_bytes for cover in covers)
    sections = msgspec.json.encode(each.sections).decode()
    values = (
        each.made, each.family, each.level, each.bytes, each.sum, each.rows, each.filter_bytes, each.filter_sum,
        sections, payload, now_us,
    )  # fmt: skip
    try:
        number: int = db.execute(_INDEX.insert_index_object, values).fetchone()[0]
    except sqlite3.IntegrityError:
        raise IndexRefused(f"`{each.made}` has been committed before") from None
    db.execute(_INDEX.tell, ("object", number))
    for cover in covers:
        before = (cover.stream, each.family, cover.config, cover.end_seq)
        rival = db.execute(_INDEX.overlapping, before).fetchone()
        if rival is not None and rival[1] > cover.first_seq:
            raise IndexRefused(
                f"entries {rival[0]} to {rival[1] - 1} of stream {cover.stream} are covered in `{each.family}` already"
            )
        row = (
            cover.stream, each.family, cover.config, cover.first_seq, cover.end_seq, number, cover.ordinal,
            cover.entries, cover.payload_bytes, cover.min_ts, cover.max_ts, cover.skipped,
        )  # fmt: skip
        db.execute(_INDEX.insert_cover, row)


def _retire_covered(db: sqlite3.Connection, stream: int, family: Family, desired: str | None) -> None:
    """Configurations of before go once the desired one covers as much."""
    asked = {"stream": stream, "family": family, "config": desired or ""}
    if not db.execute(_INDEX.other_config, asked).fetchone()[0]:
        return
    by_config: dict[str, list[Span]] = {}
    for found, config, first, end in db.execute(_INDEX.spans_of, (stream,)):
        if found == family:
            by_config.setdefault(config, []).append((first, end))
    now = by_config.pop(desired, []) if desired is not None else []
    retired = False
    start = _start_of(db, stream)
    for config, spans in by_config.items():
        if desired is None or holds([*now, (0, start)], spans):
            db.execute(_INDEX.retire, (stream, family, config))
            retired = True
    if retired:
        db.execute(_INDEX.count_move, (stream,))
        db.execute(_INDEX.tell, ("plan", stream))


def retire_unplanned(db: sqlite3.Connection, stream: int, now_us: int) -> None:
    """What covers a stream in families that it does not have any more goes: nothing will ever take its place."""
    db.execute("BEGIN IMMEDIATE")
    try:
        configs = plan_of_stream(db, stream).configs
        families = {family for family, _ in _configs_of(db, stream)}
        for family in sorted(families - set(configs)):
            _retire_covered(db, stream, family, None)
        for family in sorted(families & set(configs)):
            _retire_covered(db, stream, family, configs[family])
        _kill_idle(db, now_us, 1000)
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise


def _start_of(db: sqlite3.Connection, stream: int) -> int:
    """The first entry of a stream that is kept."""
    row = db.execute(_INDEX.measure, {"streams": f"[{stream}]"}).fetchone()
    return 0 if row is None else int(row[1])


def _configs_of(db: sqlite3.Connection, stream: int) -> set[tuple[Family, str]]:
    return {(family, config) for family, config, _, _ in db.execute(_INDEX.spans_of, (stream,))}


def _kill_idle(db: sqlite3.Connection, now_us: int, limit: int) -> int:
    idle = [number for (number,) in db.execute(_INDEX.idle_objects, {"limit": limit})]
    for number in idle:
        _kill(db, number, now_us)
    return len(idle)


def _kill(db: sqlite3.Connection, number: int, now_us: int) -> None:
    db.execute(_INDEX.kill_index_object, (now_us, number))
    db.execute(_INDEX.tell, ("object", number))
