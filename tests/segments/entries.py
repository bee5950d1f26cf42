"""Entries as plain tuples, their batches of columns, and files made of them."""

import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from streams_node.segments.format import SCHEMA, Kind
from streams_node.segments.writer import ObjectWriter, Written

BIRTH_US = 1_790_000_000_000_000


class Entry(NamedTuple):
    stream: int
    seq: int
    payload: bytes
    ts: int = BIRTH_US
    start: bool = True
    schema_version: int = 0
    key: str | None = None


def entries_of(stream: int, first_seq: int, payloads: Iterable[bytes]) -> list[Entry]:
    return [
        Entry(stream, seq, payload, BIRTH_US + seq, seq % 3 == 0, 0, None if seq % 2 else f"key-{seq % 5}")
        for seq, payload in enumerate(payloads, first_seq)
    ]


def batch_of(entries: Sequence[Entry]) -> Any:
    streams, seqs, payloads, times, starts, versions, keys = zip(*entries, strict=True)
    return pa.record_batch(
        [
            pa.array(streams, pa.int64()),
            pa.array(seqs, pa.int64()),
            pa.array(times, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            pa.array(starts, pa.bool_()),
            pa.array(versions, pa.int32()),
            pa.array(keys, pa.string()),
            pa.array(payloads, pa.binary()),
        ],
        schema=SCHEMA,
    )


def sealed(
    folder: Path, entries: Sequence[Entry], *, kind: Kind = "pack", batch_entries: int = 1000, made: str | None = None
) -> Written:
    with ObjectWriter(folder, made or secrets.token_hex(16), kind=kind, level=0) as writer:
        for start in range(0, len(entries), batch_entries):
            writer.write(batch_of(entries[start : start + batch_entries]))
        return writer.finish()


def golden_entries() -> dict[str, list[Entry]]:
    """What the files in golden/ hold."""
    return {
        "pack": [
            Entry(3, 0, b'{"a":1}', BIRTH_US, start=True, schema_version=2, key="k"),
            Entry(3, 1, b"", BIRTH_US, start=False, schema_version=2, key=None),
            Entry(9, 7, b"\x00\xff,", BIRTH_US + 1, start=True),
        ],
        "segment": entries_of(2**40, 5, [b"one", b"two"]),
    }


def write_golden(folder: Path) -> None:
    """Run once for a format; git keeps what it wrote."""
    for name, entries in golden_entries().items():
        sealed(folder, entries, kind="pack" if name == "pack" else "segment", made=name.encode().hex().rjust(32, "0"))


if __name__ == "__main__":
    write_golden(Path(__file__).parent / "golden")
