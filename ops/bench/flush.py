"""`python -m ops.bench.flush`: how fast the log is sealed, on one core.

Builds logs of several shapes, seals each one as a worker's child would, and prints a table; nothing is kept. Reading
SQLite, sorting, Parquet with zstd and SHA-256 are all in the time.
"""

import argparse
import gc
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import sql
from ops.bench import machine
from ops.bench.payloads import SEED, SERVICES, json_batch
from streams_node.protocol.frames import Elements, Piece, cut_bytes, cut_elements, json_elements, keyed
from streams_node.segmenter.build import build
from streams_node.segmenter.messages import Built, Order
from streams_node.wal.heads import CONTINUES, FIRST
from streams_node.wal.migrate import migrate

MIB = 1 << 20
PIECE_BYTES = 256 << 10
BIRTH_US = 1_790_000_000_000_000
ENTRY_BYTES = 300
BATCHES = 24  # different ones, of a thousand events: what repeats too soon would shrink too well
SMALL_STREAMS = 30_000
HOT_STREAMS = 61  # a prime: with 64 each got the same few hundred events over and over, and shrank to a thirtieth

Append = tuple[int, list[Piece]]


class Shape(NamedTuple):
    title: str
    appends: Callable[[int], Iterator[Append]]


class Sample(NamedTuple):
    seconds: float
    cpu_s: float
    built: Built


@lru_cache(maxsize=1)
def entries() -> list[bytes]:
    """Log events as JSON, 300 bytes each."""
    found = [element for index in range(BATCHES) for element in json_elements(json_batch(index)).each()]
    return [element[:-2] + b" " * (ENTRY_BYTES - len(element)) + element[-2:] for element in found]


def in_batches(size: int) -> Iterator[Append]:
    """One busy stream that is sent a thousand events at a time."""
    events = entries()
    for at in range(size // (ENTRY_BYTES * 1000)):
        first = at * 1000 % len(events)
        yield 1, cut_elements(Elements.of(events[first : first + 1000]), PIECE_BYTES)


def in_keyed_batches(size: int) -> Iterator[Append]:
    """The same, where each event has a routing key of its own."""
    for stream, pieces in in_batches(size):
        events = sum(piece.entries for piece in pieces)
        yield stream, keyed(pieces, [SERVICES[at * 7919 % len(SERVICES)] for at in range(events)])


def in_small_batches(size: int) -> Iterator[Append]:
    """A few dozen streams that are sent ten events at a time."""
    events = entries()
    for at in range(size // (ENTRY_BYTES * 10)):
        first = at * 7919 * 10 % len(events)
        yield 1 + at % HOT_STREAMS, cut_elements(Elements.of(events[first : first + 10]), PIECE_BYTES)


def one_by_one(size: int) -> Iterator[Append]:
    """A few dozen streams that are sent one event at a time."""
    events = entries()
    for at in range(size // ENTRY_BYTES):
        yield 1 + at % HOT_STREAMS, cut_bytes(events[at * 7919 % len(events)], PIECE_BYTES)


def many_streams(_: int) -> Iterator[Append]:
    """Thirty thousand streams with two events each."""
    events = entries()
    for at in range(SMALL_STREAMS * 2):
        yield 1 + at * 7919 % SMALL_STREAMS, cut_bytes(events[at * 7919 % len(events)], PIECE_BYTES)


def large_entries(size: int) -> Iterator[Append]:
    """Entries of a mebibyte, each in several rows of the log, of bytes that hardly shrink."""
    source = b"".join(entries())[:MIB]
    for at in range(size // MIB):
        yield 1 + at % 4, cut_bytes(bytes((at % 256,)) + source[1:], PIECE_BYTES)


SHAPES = (
    Shape("1 stream, 1,000 entries an append", in_batches),
    Shape("1 stream, 1,000 entries an append, each with a key", in_keyed_batches),
    Shape(f"{HOT_STREAMS} streams, 10 entries an append", in_small_batches),
    Shape(f"{HOT_STREAMS} streams, 1 entry an append", one_by_one),
    Shape("30,000 streams × 2 entries", many_streams),
    Shape("4 streams, entries of 1 MiB", large_entries),
)


def fill(path: Path, appends: Iterator[Append]) -> int:
    """Write the log as the ingest would; returns its newest row."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    migrate(db)
    db.execute("BEGIN")
    row = 0
    tails: dict[int, tuple[int, int, int, int]] = {}
    statement = sql.queries("log").append_rows
    for stream, pieces in appends:
        flags = FIRST
        for piece in pieces:
            row += 1
            seq, ordinal, position, before = tails.get(stream, (0, 0, 0, 0))
            flags |= CONTINUES if piece.continues else 0
            db.execute(
                statement,
                (row, stream, seq, piece.entries, ordinal + 1, before, 0, position, BIRTH_US + row, flags, 0,
                 None, None, None, None, piece.lens, piece.keys, piece.payload),
            )  # fmt: skip
            tails[stream] = (seq + piece.entries, ordinal + 1, position + piece.size, row)
            flags = 0
    for stream in tails:
        db.execute(sql.queries("streams").insert_head, (stream, 0))
    db.execute("COMMIT")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return row


def measure(folder: Path, shape: Shape, size: int, rounds: int) -> list[Sample]:
    database = folder / "streams.db"
    order = Order(
        database=str(database),
        folder=str(folder / "sealing"),
        after_row=0,
        through_row=fill(database, shape.appends(size)),
        flush_bytes_max=1 << 40,
        own_segment_bytes=MIB,
        segment_bytes=16 * MIB,
        segment_entries=100_000,
    )
    return [_once(order) for _ in range(rounds + 1)][1:]


def _once(order: Order) -> Sample:
    folder = Path(order.folder)
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    began, cpu_began = time.perf_counter(), time.process_time()
    built = build(order)
    return Sample(time.perf_counter() - began, time.process_time() - cpu_began, built)


def row(shape: Shape, samples: list[Sample]) -> str:
    """One line of the table: the median, and how far the others were from it."""
    built = samples[0].built
    rates = [built.log_bytes / sample.cpu_s / 1e6 for sample in samples]
    rate = statistics.median(rates)
    stored = sum(made.facts.bytes for made in built.objects)
    seconds = statistics.median(sample.seconds for sample in samples)
    return (
        f"| {shape.title} | {built.log_bytes / 1e6:.0f} | {built.rows:,} | {len(built.objects)} "
        f"| {stored / built.log_bytes:.2f} | {seconds * 1000:.0f} | {rate:.0f} ({min(rates):.0f}–{max(rates):.0f}) |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench.flush", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mib", type=int, default=64, help="payload of a log (the many streams have their own size)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work-dir", type=Path, help="folder on a real disk; default: the system's temporary one")
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core, whatever pyarrow would like
    gc.disable()  # as in the child
    print("| log | MB | rows | objects | size | ms | MB per s of CPU |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for shape in SHAPES:
        with tempfile.TemporaryDirectory(dir=options.work_dir, prefix="flush-") as folder:
            print(row(shape, measure(Path(folder), shape, options.mib * MIB, options.rounds)), flush=True)
    place = options.work_dir or Path(tempfile.gettempdir())
    print(
        f"\nEntries of {ENTRY_BYTES} B unless said otherwise; JSON log events, seed {SEED}. Median (range) of the runs."
    )
    print("MB are of payload in the log; `size` is that of the objects to it; `ms` is wall time. Files are not synced.")
    print(machine.stamp(place, "pyarrow"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
