"""Work for drivers: objects of a bucket as a node would give them out, and the lexicon that has to come of them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from indexers.lexicon import Lexicon
from indexers.messages import Build, IndexObject, Meaning, Source, StoreAt, Stretch
from indexers.plan import FAMILIES
from streams_node.objects import ObjectId, RetryingStore
from streams_node.objects.keys import index_key
from streams_node.placement.made import ObjectFacts
from streams_node.schema.registry import Registry
from tests.spark.bucket import Bucket, Entry

MEANING = Meaning(
    registry=msgspec.Raw(Registry("orders").encode()),
    profile="generic",
    content_type="application/json",
    configs={"lexicon": "1" * 32},
)


def store_at(bucket: Bucket) -> StoreAt:
    return StoreAt(kind="folder", folder=str(bucket.folder.parent / "objects"))


def build(facts: ObjectFacts, held: Mapping[int, Iterable[Entry]]) -> Build:
    """All entries of an object."""
    stretches, row = [], 0
    for stream in sorted(held):
        seqs = [entry.seq for entry in held[stream]]
        stretches.append(
            Stretch(
                stream=stream, first_seq=seqs[0], end_seq=seqs[-1] + 1, row_index=row, meaning=0, families=["lexicon"]
            )
        )  # fmt: skip
        row += len(seqs)
    source = Source(made=facts.made, key=facts.key(), kind=facts.kind, bytes=facts.bytes, sha256=facts.sha256)
    return Build(source=source, stretches=stretches)


def put(bucket: Bucket, held: Mapping[int, list[Entry]], *, pack: bool = True) -> Build:
    return build(bucket.put(held, pack=pack), held)


def keys_of(store: RetryingStore, objects: Iterable[IndexObject], folder: Path) -> Counter[tuple[int, str]]:
    """How often each key of each stream is in the lexicons."""
    found: Counter[tuple[int, str]] = Counter()
    for each in objects:
        assert each.family in FAMILIES
        path = folder / each.made
        path.write_bytes(store.get(index_key(each.family, ObjectId(each.made))).data)
        with Lexicon(path, name=each.made) as lexicon:
            for table in lexicon.tables():
                for row in table.to_pylist():
                    found[row["stream"], row["key"]] += row["count"]
    return found


def counted(*held: Mapping[int, Iterable[Entry]]) -> Counter[tuple[int, str]]:
    return Counter(
        (stream, entry.key) for each in held for stream in each for entry in each[stream] if entry.key is not None
    )
