"""Mini-companions: entries that no companion covers yet, as one more companion of the same view."""

from collections.abc import Sequence
from pathlib import Path

from indexers.companion import Layout, Writer
from indexers.messages import Cover
from indexers.records import Documents, Table
from search.engine.model import Entry


def build_mini(
    entries: Sequence[Entry], *, stream: int, config: str, layout: Layout, version: int, folder: Path, target: Path
) -> Path:
    """Write a companion of neighbouring entries to `target`. `folder` does not exist, and is used up.

    `config` is the hash that the companions of the view have. `version` is the current schema version.
    """
    seqs = [entry.seq for entry in entries]
    times = [entry.ts for entry in entries]
    records = [entry.record if isinstance(entry.record, dict) else {} for entry in entries]
    writer = Writer(config, layout, folder)
    writer.add([stream] * len(seqs), seqs, times, Table(Documents(records, [], plain=False), version))
    cover = Cover(
        stream=stream, first_seq=seqs[0], end_seq=seqs[-1] + 1, config=config, ordinal=0, entries=len(seqs),
        payload_bytes=0, min_ts=min(times), max_ts=max(times),
    )  # fmt: skip
    writer.finish(target, ["mini"], [cover])
    return target
