"""Looks into a node's tables, also while it runs, and says what does not fit together.

Owns     nothing: a read-only connection for one snapshot.
Keeps    the log is the truth; heads, producers, counters and graves are held against it. A head may lag behind the log,
         never run ahead of it, and never lack a row at or below `heads_through`. Rows up to `released_through` are in
         published objects and leave the log oldest first: what they said can not be asked any more.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_CLOSES = 2
_ANCHORS = ((1, 32), (2, 32 * 32))


class Facts(NamedTuple):
    rows: int
    unreplayed: int
    graves: int


def check_tables(path: Path, *, whole: bool = False) -> Facts:
    """Raise with everything that is wrong; `whole` lets SQLite check its pages, too."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)) as db:
        db.row_factory = sqlite3.Row
        db.execute("BEGIN")
        tables = Tables(db)
        wrong = list(tables.wrong())
        if whole:
            wrong += [str(row[0]) for row in db.execute("PRAGMA integrity_check") if row[0] != "ok"]
    if wrong:
        raise AssertionError(f"{len(wrong)} contradictions in {path}:\n" + "\n".join(wrong[:20]))
    return Facts(len(tables.rows), sum(row["row_id"] > tables.through for row in tables.rows), len(tables.graves))


class Tables:
    """One snapshot."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.rows = db.execute(_sql("log_rows")).fetchall()
        self.heads = {row["stream"]: row for row in db.execute(_sql("heads"))}
        self.graves = dict(tuple(row) for row in db.execute(_sql("graves")))
        self.through: int = db.execute(_sql("heads_through")).fetchone()[0]
        self.released: int = db.execute(_sql("released_through")).fetchone()[0]
        self._chains: dict[int, list[sqlite3.Row]] = defaultdict(list)
        for row in self.rows:
            self._chains[row["stream"]].append(row)

    def wrong(self) -> Iterator[str]:
        for name in ("lonely_heads", "miscounted_buckets", "miscounted_stretches", "wrong_tombstones"):
            yield from (f"{name}: {tuple(row)}" for row in self._db.execute(_sql(name)))
        for stream, chain in self._chains.items():
            yield from _broken_chain(stream, chain, self.released)
            if stream not in self.heads and stream not in self.graves:
                yield f"stream {stream} is dead, and nothing will free its {len(chain)} rows"
        for stream, last_row in self.graves.items():
            chain = self._chains[stream]
            if stream in self.heads:
                yield f"stream {stream} lives and has a grave"
            if (chain or last_row > self.released) and (not chain or chain[-1]["row_id"] != last_row):
                yield f"the grave of stream {stream} begins at row {last_row}, its rows end {chain[-1:]}"
        for stream, head in self.heads.items():
            yield from self._broken_head(head, self._chains[stream])
        yield from self._broken_producers()

    def _broken_head(self, head: sqlite3.Row, chain: list[sqlite3.Row]) -> Iterator[str]:
        who = f"stream {head['stream']} `{head['name']}`"
        covered = [row for row in chain if row["row_id"] <= head["last_row"]]
        missed = [row["row_id"] for row in chain if head["last_row"] < row["row_id"] <= self.through]
        if missed:
            yield f"{who}: its head lacks rows {missed[:5]} at or below heads_through {self.through}"
        last = covered[-1] if covered else None
        if last is None and head["last_row"] <= self.released and head["ordinal"]:
            return  # all of it has been released
        if head["last_row"] and (last is None or last["row_id"] != head["last_row"]):
            yield f"{who}: its head says row {head['last_row']}, which the log does not have"
            return
        expected = {"next_seq": 0, "ordinal": 0, "position": 0}
        if last is not None:
            expected = {name: last[name] for name in ("ordinal", "ts")}
            expected |= {"next_seq": last["seq"] + last["count"], "position": last["end"]}
        expected["closed"] = int(any(row["flags"] & _CLOSES for row in covered))
        cut = bool(covered) and covered[0]["ordinal"] > 1
        for level, step in _ANCHORS:
            anchors = [row["row_id"] for row in covered if row["ordinal"] % step == 0]
            if anchors or not cut:
                expected[f"anchor_{level}"] = anchors[-1] if anchors else 0
        for name, value in expected.items():
            if head[name] != value:
                yield f"{who}: its head says {name} {head[name]}, its rows {value}"

    def _broken_producers(self) -> Iterator[str]:
        stored = {(row["stream"], row["producer"]): row for row in self._db.execute(_sql("producers"))}
        counts: dict[int, int] = defaultdict(int)
        for stream, _ in stored:
            counts[stream] += 1
            if stream not in self.heads:
                yield f"stream {stream} is dead and has producers"
        for stream, head in self.heads.items():
            if head["producers"] != counts[stream]:
                yield f"stream {stream}: its head counts {head['producers']} producers, there are {counts[stream]}"
        for (stream, producer), rows in self._by_producer().items():
            if stream in self.heads:
                yield from self._broken_producer(
                    f"producer {producer} of stream {stream}", rows, stored.get((stream, producer))
                )

    def _broken_producer(self, who: str, rows: list[sqlite3.Row], stored: Any) -> Iterator[str]:
        triples = [(row["producer_epoch"], row["producer_seq"]) for row in rows]
        if triples != sorted(set(triples)):
            yield f"{who}: stored twice or out of order: {triples[-10:]}"
        must = [row for row in rows if row["row_id"] <= self.through]
        if must and (stored is None or (stored["epoch"], stored["seq"]) < triples[len(must) - 1]):
            yield f"{who}: the table says {stored and tuple(stored)}, the log {triples[len(must) - 1]}"
        released = stored is not None and rows[0]["ordinal"] > 1 and (stored["epoch"], stored["seq"]) < triples[0]
        if stored is not None and not released and (stored["epoch"], stored["seq"]) not in triples:
            yield f"{who}: the table says {tuple(stored)}, which no row of the log does"

    def _by_producer(self) -> dict[tuple[int, str], list[sqlite3.Row]]:
        """One row an append: the first one of those that an append takes carries the triple as the others do."""
        found: dict[tuple[int, str], list[sqlite3.Row]] = defaultdict(list)
        for row in self.rows:
            if row["producer"] is not None and row["flags"] & 1:
                found[row["stream"], row["producer"]].append(row)
        return found


def _broken_chain(stream: int, chain: list[sqlite3.Row], released: int) -> Iterator[str]:
    """Rows of one stream: numbered from 1, each naming the one before it, entries and bytes without gap."""
    before: Any = {"row_id": 0, "ordinal": 0, "seq": 0, "count": 0, "end": 0, "ts": 0}
    if chain and 0 < chain[0]["prev_row"] <= released:
        chain, before = chain[1:], chain[0]
    for row in chain:
        expected = {"ordinal": before["ordinal"] + 1, "prev_row": before["row_id"],
                    "seq": before["seq"] + before["count"], "position": before["end"]}  # fmt: skip
        for name, value in expected.items():
            if row[name] != value:
                yield f"stream {stream}, row {row['row_id']}: {name} is {row[name]}, not {value}"
        if row["ts"] < before["ts"]:
            yield f"stream {stream}, row {row['row_id']}: time runs backwards"
        before = row


@cache
def _statements() -> dict[str, str]:
    text = Path(__file__).with_suffix(".sql").read_text("utf-8")
    blocks = (block.split("\n", 1) for block in text.split("-- name: ")[1:])
    return {name.strip(): body for name, body in blocks}


def _sql(name: str) -> str:
    return _statements()[name]
