"""Real objects with invented entries, put where the catalogue says."""

import secrets
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from streams_node.objects import RetryingStore, WriteId
from streams_node.placement.made import ObjectFacts
from streams_node.segments.format import SCHEMA
from streams_node.segments.writer import ObjectWriter
from tests.catalogue.world import NOW_US


def put_sealed(store: RetryingStore, folder: Path, held: Mapping[int, tuple[int, int]], *, pack: bool) -> ObjectFacts:
    """An object with the entries [first, end) of each stream."""
    made = secrets.token_hex(16)
    rows = [(stream, seq) for stream, (first, end) in sorted(held.items()) for seq in range(first, end)]
    count = len(rows)
    columns = [
        [stream for stream, _ in rows], [seq for _, seq in rows], [NOW_US] * count, [True] * count, [0] * count,
        [None] * count, [b"{}"] * count,
    ]  # fmt: skip
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    with ObjectWriter(folder, made, kind="pack" if pack else "segment", level=0) as writer:
        writer.write(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
        done = writer.finish()
    known = {name: getattr(done, name) for name in ObjectFacts.__struct_fields__ if hasattr(done, name)}
    facts = ObjectFacts(**known, bytes=done.size, first_row=1, last_row=2)
    store.put(facts.key(), done.file, write_id=WriteId(made))
    done.file.unlink()
    return facts
