"""A small node that publishes: a real database, a store in memory, and ends and objects that are made up."""

import hashlib
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from streams_node.manifest import (
    FORMAT,
    Chain,
    Drop,
    End,
    Header,
    Object,
    Producer,
    Record,
    apply_found,
    changes,
    check,
    claim,
    compose,
    feed,
    local,
    own,
    parts_of,
    published,
    put_snapshot,
    unapplied,
)
from streams_node.manifest.mirror import command_apply, command_snapshot
from streams_node.manifest.records import encode_all
from streams_node.objects import MemoryStore, ObjectStore, RequestCounts, RetryingStore, RetryPolicy
from streams_node.placement.made import ObjectFacts
from streams_node.wal.migrate import migrate

QUICK = RetryPolicy(attempts_max=4, wait_ms=1, wait_ms_max=2)
NODE = "a" * 32
RIVAL = "b" * 32
NOW_US = 1_700_000_000_000_000


def retrying(store: ObjectStore | None = None) -> RetryingStore:
    return RetryingStore(store or MemoryStore(), RequestCounts(), QUICK)


def new_database(path: Path | str = ":memory:") -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    migrate(db)
    return db


def header(generation: int = 1, previous: str = "", **more: Any) -> Header:
    facts: dict[str, Any] = {
        "format": FORMAT, "generation": generation, "node": NODE, "fence": 1, "previous": previous, "made_us": NOW_US,
        "through_row": 0, "next_stream": 1, "next_bucket": 1, "epoch_base": 0, "epoch_newest": 0,
    }  # fmt: skip
    return Header(**(facts | more))


def facts_of(made: str, stream: int | None = None, first_seq: int = 0, end_seq: int = 0, **more: Any) -> ObjectFacts:
    values: dict[str, Any] = {
        "made": made, "kind": "pack" if stream is None else "segment", "level": 0, "stream": stream,
        "first_seq": first_seq, "end_seq": end_seq, "min_stream": stream or 1, "max_stream": stream or 1, "streams": 1,
        "entries": end_seq - first_seq, "bytes": 10, "sha256": hashlib.sha256(made.encode()).hexdigest(),
        "payload_bytes": 10, "min_ts": 1, "max_ts": 2, "first_row": 1, "last_row": 2,
    }  # fmt: skip
    return ObjectFacts(**(values | more))


class Published(NamedTuple):
    header: Header
    sum: str
    data: bytes


class World:
    """One node with its bucket. What it "appended" since the last publish waits in `ends` and `producers`."""

    def __init__(self, store: RetryingStore, folder: Path, db: sqlite3.Connection | None = None) -> None:
        self.store = store
        self.chain = Chain(store)
        self.folder = folder
        self.db = db or new_database()
        self.random = random.Random(1)
        self.node = NODE
        self.next_stream = 1
        self.rows = 0
        self.waiting: list[Record] = []
        self.told_ends: dict[int, End] = {}
        self.told_producers: dict[tuple[int, str], Producer] = {}
        self.objects: dict[str, ObjectFacts] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self.fence = claim(store, self.node, "here", NOW_US)
        own(self.db, self.node, self.fence)

    # --- what clients do ---

    def bucket(self, name: str) -> int:
        self.db.execute(
            "INSERT INTO buckets (name, created_us) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET alive = 1",
            (name, NOW_US),
        )
        found: int = self.db.execute("SELECT id FROM buckets WHERE name = ?", (name,)).fetchone()[0]
        return found

    def create(self, bucket: int, name: str, **more: Any) -> int:
        found = self.db.execute("SELECT id FROM streams WHERE bucket = ? AND name = ?", (bucket, name)).fetchone()
        if found:
            return int(found[0])
        dead = self.db.execute("SELECT epoch FROM tombstones WHERE bucket = ? AND name = ?", (bucket, name)).fetchone()
        stream, self.next_stream = self.next_stream, self.next_stream + 1
        values = {
            "bucket": bucket, "name": name, "id": stream, "content_type": "application/json",
            "created_us": NOW_US + stream, "first_epoch": dead[0] + 1 if dead else 0,
        } | more  # fmt: skip
        columns, marks = ", ".join(values), ", ".join("?" * len(values))
        self.db.execute("BEGIN")
        insert = f"INSERT INTO streams ({columns}) VALUES ({marks})"  # noqa: S608 - own words
        self.db.execute(insert, list(values.values()))
        self.db.execute("INSERT INTO heads (stream, ts) VALUES (?, ?)", (stream, NOW_US))
        self.db.execute("UPDATE buckets SET streams = streams + 1 WHERE id = ?", (bucket,))
        self.db.execute("COMMIT")
        return stream

    def append(self, stream: int, entries: int = 1, producer: str | None = None, *, close: bool = False) -> None:
        """As if sealed: an end that the next publish tells."""
        newest = next((each for each in reversed(self.waiting) if isinstance(each, End) and each.id == stream), None)
        before = newest or self.told_ends.get(stream)
        next_seq = (before.next_seq if before else 0) + entries
        self.rows += 1
        more: dict[str, Any] = {"closed": True, "closed_by": producer} if close else {}
        self.waiting.append(
            End(
                id=stream, next_seq=next_seq, ordinal=(before.ordinal if before else 0) + 1, position=next_seq * 10,
                ts=NOW_US + self.rows, schema_version=0, **more,
            )
        )  # fmt: skip
        if producer:
            self.waiting.append(Producer(id=stream, producer=producer, epoch=0, seq=self.rows, next_seq=next_seq))

    def open_epoch(self, stream: int) -> None:
        first, count = self.db.execute(
            "SELECT first_epoch, epoch_count FROM streams WHERE id = ?", (stream,)
        ).fetchone()
        self.db.execute(
            "INSERT INTO epochs (stream, epoch, first_seq) VALUES (?, ?, ?)", (stream, first + count, count)
        )
        self.db.execute("UPDATE streams SET epoch_count = epoch_count + 1 WHERE id = ?", (stream,))

    def delete(self, stream: int) -> None:
        bucket, name, epoch = self.db.execute(
            "SELECT bucket, name, first_epoch + epoch_count - 1 FROM streams WHERE id = ?", (stream,)
        ).fetchone()
        self.db.execute("BEGIN")
        self.db.execute("DELETE FROM streams WHERE id = ?", (stream,))
        for table in ("heads", "epochs", "producers"):
            self.db.execute(f"DELETE FROM {table} WHERE stream = ?", (stream,))  # noqa: S608 - own words
        self.db.execute("UPDATE buckets SET streams = streams - 1 WHERE id = ?", (bucket,))
        self.db.execute("REPLACE INTO tombstones VALUES (?, ?, ?, ?, ?)", (bucket, name, epoch, stream, NOW_US))
        self.db.execute("COMMIT")

    # --- what the node does ---

    def publish(
        self,
        objects: Sequence[ObjectFacts] = (),
        drops: Sequence[str] = (),
        *,
        limit: int = 1000,
        extra: Sequence[Record] = (),
        dies: bool = False,
        **more: Any,
    ) -> Published:
        """`dies` before the transaction."""
        known, told = local(self.db), changes(self.db, limit)
        made = header(
            known.generation + 1, known.generation_sum, node=self.node, fence=self.fence, through_row=self.rows,
            next_stream=self.next_stream, next_bucket=99, complete=told.complete, **more,
        )  # fmt: skip
        records = [*told.records, *map(Object.of, objects), *(Drop(made=each) for each in drops), *extra]
        data = compose(made, records, encode_all(self.waiting))
        check(self.store, self.node, self.fence)
        checksum = self.chain.commit(made, data)
        self._told(objects, drops)
        if not dies:
            self.db.execute("REPLACE INTO node VALUES ('heads_through', ?)", (self.rows,))
            published(self.db, made, checksum, objects, drops, told.newest_change, NOW_US)
        return Published(made, checksum, data)

    def _told(self, objects: Sequence[ObjectFacts], drops: Sequence[str]) -> None:
        for each in self.waiting:
            if isinstance(each, End):
                before = self.told_ends.get(each.id)
                closing = {} if each.closed or not (before and before.closed) else {"closed": True}
                self.told_ends[each.id] = End(**(_values(before) | _values(each) | closing))
            elif isinstance(each, Producer):
                self.told_producers[each.id, each.producer] = each
        self.waiting = []
        self.objects |= {each.made: each for each in objects}
        for made in drops:
            self.objects.pop(made, None)

    def reconcile(self) -> int:
        known = local(self.db)
        found = list(unapplied(self.chain, known.generation, known.generation_sum, self.node, self.fence))
        for each in found:
            apply_found(self.db, each, NOW_US)
        return len(found)

    def mirror(self, *, anew: bool = False) -> dict[str, Any]:
        known = local(self.db)
        return command_apply(feed(self.chain, self.folder, known.generation, known.generation_sum, anew=anew))

    def snapshot(self, part_bytes: int = 1 << 20) -> int:
        answer = self.mirror()
        if "broken" in answer:
            answer = self.mirror(anew=True)
        assert "broken" not in answer
        made = parts_of(command_snapshot({"folder": str(self.folder), "part_bytes": part_bytes}))
        put_snapshot(self.store, *made)
        return made.generation

    # --- what has to come out of the bucket ---

    def expected(self) -> dict[str, list[tuple[Any, ...]]]:
        found = {name: self.db.execute(query).fetchall() for name, query in STATE.items()}
        living = {row[2] for row in found["streams"]}
        found["heads"] = sorted(_head(stream, self.told_ends.get(stream)) for stream in living)
        found["producers"] = sorted(
            (each.id, each.producer, each.epoch, each.seq, each.next_seq)
            for each in self.told_producers.values()
            if each.id in living
        )
        found["objects"] = sorted(
            (each.made, each.stream, each.first_seq, each.end_seq) for each in self.objects.values()
        )
        return found


STATE = {
    "buckets": "SELECT id, name, created_us, alive, streams FROM buckets ORDER BY id",
    "streams": """SELECT bucket, name, id, content_type, created_us, ttl_s, expires_us, first_epoch, epoch_count,
                         profile, soft_deleted, source, fork_seq, fork_sub, earliest_seq FROM streams
                   ORDER BY bucket, name""",
    "epochs": "SELECT stream, epoch, first_seq FROM epochs ORDER BY stream, epoch",
    "tombstones": """SELECT bucket, name, epoch, stream FROM tombstones AS t WHERE NOT EXISTS (
                     SELECT 1 FROM streams AS s WHERE s.bucket = t.bucket AND s.name = t.name) ORDER BY bucket, name""",
}


def restored(data: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The same of a data folder."""
    with closing(sqlite3.connect(data / "streams.db")) as db:
        found = {name: db.execute(query).fetchall() for name, query in STATE.items()}
        heads = "SELECT stream, next_seq, ordinal, position, ts, closed FROM heads ORDER BY stream"
        # An end that was never published has no time of its own.
        found["heads"] = [row if row[2] else (*row[:4], None, row[5]) for row in db.execute(heads)]
        producers = "SELECT stream, producer, epoch, seq, next_seq FROM producers ORDER BY stream, producer"
        found["producers"] = db.execute(producers).fetchall()
        found["objects"] = db.execute("SELECT made, stream, first_seq, end_seq FROM objects ORDER BY made").fetchall()
        return found


def _head(stream: int, end: End | None) -> tuple[Any, ...]:
    if end is None:
        return (stream, 0, 0, 0, None, 0)
    return (stream, end.next_seq, end.ordinal, end.position, end.ts, int(end.closed is True))


def _values(end: End | None) -> dict[str, Any]:
    return {} if end is None else {name: getattr(end, name) for name in end.__struct_fields__}
