"""A bucket that a node could have written: a real catalogue and real objects, of entries that the test knows."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from streams_node.manifest import FORMAT, Chain, Drop, End, Header, Object, Record, Stream, compose
from streams_node.manifest import Bucket as BucketRecord
from streams_node.objects import ObjectStore, RequestCounts, RetryingStore, RetryPolicy, WriteId
from streams_node.placement.made import ObjectFacts
from streams_node.segments.format import SCHEMA
from streams_node.segments.writer import ObjectWriter

NODE = "a" * 32
BIRTH_US = 1_790_000_000_000_000
BUCKETS = {1: "_default", 2: "agents"}


@dataclass(frozen=True)
class Entry:
    seq: int
    payload: bytes
    key: str | None = None

    @property
    def ts(self) -> int:
        return BIRTH_US + self.seq * 1000


def entries(first: int, end: int, text: str = "e") -> list[Entry]:
    return [
        Entry(seq, f'{{"n":{seq},"of":"{text}"}}'.encode(), None if seq % 3 else f"key-{seq % 7}")
        for seq in range(first, end)
    ]


@dataclass
class Bucket:
    """Streams are lines of the catalogue; `publish` puts a generation."""

    bare: ObjectStore
    folder: Path
    generation: int = 0
    sum: str = ""
    row: int = 0
    records: list[Record] = field(default_factory=list)
    objects: list[ObjectFacts] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = RetryingStore(self.bare, RequestCounts(), RetryPolicy(4, 1, 2))
        self.chain = Chain(self.store)
        for number, name in BUCKETS.items():
            self.records.append(BucketRecord(id=number, name=name, created_us=BIRTH_US, alive=True))

    def stream(self, number: int, name: str, bucket: int = 1, **more: Any) -> None:
        facts: dict[str, Any] = {"content_type": "application/json", "created_us": BIRTH_US, "profile": "generic"}
        self.records.append(Stream(id=number, bucket=bucket, name=name, **({"first_epoch": 0} | facts | more)))

    def put(self, held: Mapping[int, Iterable[Entry]], *, pack: bool = True, level: int = 0) -> ObjectFacts:
        """An object of these entries, newer in the log than all before it."""
        made = secrets.token_hex(16)
        self.row += 10
        rows = [(stream, entry) for stream in sorted(held) for entry in held[stream]]
        columns: list[list[Any]] = [
            [stream for stream, _ in rows], [entry.seq for _, entry in rows], [entry.ts for _, entry in rows],
            [True] * len(rows), [0] * len(rows), [entry.key for _, entry in rows],
            [entry.payload for _, entry in rows],
        ]  # fmt: skip
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        with ObjectWriter(self.folder, made, kind="pack" if pack else "segment", level=level) as writer:
            writer.write(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
            done = writer.finish()
        known = {name: getattr(done, name) for name in ObjectFacts.__struct_fields__ if hasattr(done, name)}
        facts = ObjectFacts(**known, bytes=done.size, first_row=self.row - 9, last_row=self.row)
        self.store.put(facts.key(), done.file, write_id=WriteId(made))
        done.file.unlink()
        self.records.append(Object.of(facts))
        self.objects.append(facts)
        return facts

    def drop(self, facts: ObjectFacts) -> None:
        """Nothing is in it any more: it is deleted, too."""
        self.records.append(Drop(made=facts.made))
        self.store.delete(facts.key())

    def end(self, stream: int, next_seq: int) -> None:
        self.records.append(End(id=stream, next_seq=next_seq, ordinal=1, position=1, ts=1, schema_version=0))

    def publish(self) -> None:
        header = Header(
            format=FORMAT, generation=self.generation + 1, node=NODE, fence=1, previous=self.sum, made_us=BIRTH_US,
            through_row=self.row, next_stream=1000, next_bucket=10, epoch_base=0, epoch_newest=9,
        )  # fmt: skip
        self.sum = self.chain.commit(header, compose(header, self.records))
        self.generation, self.records = header.generation, []
