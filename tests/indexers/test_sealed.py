"""What a task takes in of sealed objects, and what it refuses."""

import random
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
import tantivy

from indexers.build import Builder, Made
from indexers.build.collect import WRITERS_MAX
from indexers.companion import Pack, View
from indexers.lexicon import Lexicon
from indexers.merge import merge
from indexers.messages import Build, Merge
from indexers.plan import FAMILIES
from indexers.runs import IndexDamaged
from indexers.sealed import SourceDamaged, Stretches, sealed_rows
from tests.indexers.world import Entry, Ids, Sealed, World, built, meaning, random_registry, sealed, sealed_objects


def world_of(meanings: int, entries: int = 5) -> World:
    """A stream for each of so many meanings."""
    draw = random.Random(meanings)
    documents = [random_registry(draw) for _ in range(meanings)]
    for number, document in enumerate(documents):
        document["search"]["fields"][f"own{number}"] = {
            "kind": "keyword", "bindings": [{"version": 1, "jsonPointer": "/k"}], "exact": True,
        }  # fmt: skip
    world = World([meaning(document) for document in documents], {at + 1: at for at in range(meanings)})
    for stream in world.meaning_of:
        world.entries[stream] = [
            Entry(stream, seq, seq, f"key-{stream}-{seq}", b'{"k":"k%d","t":%d}' % (seq, seq)) for seq in range(entries)
        ]
    return world


def file_of(table: Any, rows: int) -> bytes:
    sink = BytesIO()
    pq.write_table(table, sink, row_group_size=rows, write_page_checksum=True)
    return sink.getvalue()


def keys_of(made: Sequence[Made]) -> list[str]:
    (lexicon,) = [each for each in made if each.object.family == "lexicon"]
    reader = Lexicon(lexicon.path)
    return [key for stream in range(1, 9) for key in reader.keys(stream)]


def only(build: Build, streams: set[int]) -> Build:
    return msgspec.structs.replace(build, stretches=[each for each in build.stretches if each.stream in streams])


def test_only_row_groups_with_stretches_are_read(tmp_path: Path) -> None:
    world = world_of(6)
    (whole,) = sealed_objects(world, random.Random(1), 1)
    build = only(whole.build(world, FAMILIES), {2, 5})
    (tmp_path / "object").write_bytes(file_of(whole.table, 3))
    for source in (tmp_path / "object", (tmp_path / "object").read_bytes()):
        pieces = list(sealed_rows(source, build))
        assert [start for start, _ in pieces] == [3, 6, 9, 18, 21, 24]
        rows = Stretches(build, pieces).table.select(["stream", "seq"]).to_pylist()
        assert [(row["stream"], row["seq"]) for row in rows] == [(stream, seq) for stream in (2, 5) for seq in range(5)]


def test_a_stretch_may_begin_and_end_within_a_stream(tmp_path: Path) -> None:
    world = world_of(2, entries=40)
    (whole,) = sealed_objects(world, random.Random(1), 1)
    build = whole.build(world, ["lexicon"])
    part = msgspec.structs.replace(build.stretches[1], first_seq=7, end_seq=31, row_index=47)
    build = msgspec.structs.replace(build, stretches=[part])
    with Builder(world.meanings, tmp_path) as builder:
        builder.add(build, sealed_rows(file_of(whole.table, 9), build))
        made = list(builder.finish(Ids()))
    assert sorted(keys_of(made)) == sorted(f"key-2-{seq}" for seq in range(7, 31))
    assert [(each.first_seq, each.end_seq, each.entries) for each in made[0].object.covers] == [(7, 31, 24)]


@pytest.mark.parametrize("wrong", ["stream", "seq", "row_index", "missing", "behind"])
def test_an_object_that_holds_something_else_is_refused_and_others_go_on(wrong: str, tmp_path: Path) -> None:
    world = world_of(3)
    first, second = sealed_objects(world, random.Random(5), 2)
    build = first.build(world, FAMILIES)
    changed = build.stretches[1]
    pieces = [(0, first.table)]
    if wrong == "missing":
        pieces = [(0, first.table.slice(0, first.table.num_rows - 1))]
    elif wrong == "behind":
        pieces = [(1, first.table.slice(1))]
    elif wrong == "stream":
        changed = msgspec.structs.replace(changed, stream=77)
    elif wrong == "seq":
        changed = msgspec.structs.replace(changed, first_seq=changed.first_seq + 1, end_seq=changed.end_seq + 1)
    else:
        changed = msgspec.structs.replace(changed, row_index=changed.row_index - 1)
    build = msgspec.structs.replace(build, stretches=[build.stretches[0], changed, *build.stretches[2:]])
    with Builder(world.meanings, tmp_path / "some") as builder:
        (tmp_path / "some").mkdir()
        with pytest.raises(SourceDamaged):
            builder.add(build, pieces)
        builder.add(second.build(world, FAMILIES), [(0, second.table)])
        made = list(builder.finish(Ids()))
    (tmp_path / "alone").mkdir()
    alone = built(world, [second], tmp_path / "alone", Ids(), random.Random(1), FAMILIES)
    assert [each.object for each in made] == [each.object for each in alone]


def test_a_damaged_object_is_refused() -> None:
    world = world_of(3)
    (whole,) = sealed_objects(world, random.Random(1), 1)
    build, good = whole.build(world, FAMILIES), file_of(whole.table, 4)
    with pytest.raises(SourceDamaged):
        list(sealed_rows(good[:-9], build))
    pages_end = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    noticed = 0
    for at in range(4, pages_end, 11):
        changed = bytearray(good)
        changed[at] ^= 4
        try:
            assert Stretches(build, sealed_rows(bytes(changed), build)).table.equals(whole.table)
        except SourceDamaged:
            noticed += 1
    assert noticed > pages_end // 22


def test_a_task_without_stretches_makes_nothing(tmp_path: Path) -> None:
    world = world_of(1)
    (whole,) = sealed_objects(world, random.Random(1), 1)
    with Builder(world.meanings, tmp_path) as builder:
        builder.add(only(whole.build(world, FAMILIES), set()), [])
        assert list(builder.finish(Ids())) == []
    assert list(tmp_path.iterdir()) == []


def test_more_configurations_than_writers_with_memory_make_a_companion_each(tmp_path: Path) -> None:
    count = WRITERS_MAX + 3
    world = world_of(count, entries=9)
    objects = sealed_objects(world, random.Random(2), 3)
    made = built(world, objects, tmp_path, Ids(), random.Random(1), ["companion"])
    assert len(made) == count
    for number, each in enumerate(made):
        (stream,) = {cover.stream for cover in each.object.covers}
        view = View([Pack(each.path)], tmp_path / f"view-{number}")
        hits = view.searcher.search(tantivy.Query.all_query(), limit=99).hits
        assert sorted(view.addresses([address for _, address in hits])) == [(stream, seq) for seq in range(9)]
    assert not (tmp_path / "in-the-making").exists()


def test_ten_thousand_small_streams_share_batches(tmp_path: Path) -> None:
    """By their number of rows; each alone would cost milliseconds."""
    world = world_of(2)
    streams = range(1, 10_001)
    entries = [Entry(stream, seq, seq, f"s{stream}", b'{"k":"a","t":1}') for stream in streams for seq in range(2)]
    world.meaning_of = {stream: stream % 2 for stream in streams}
    whole = Sealed("0" * 32, sealed(entries), tuple((stream, 0, 2) for stream in streams))
    made = built(world, [whole], tmp_path, Ids(), random.Random(1), ["lexicon", "exact", "companion", "rollups"])
    assert {each.object.family for each in made} == {"lexicon", "exact", "companion", "rollups"}
    assert sum(len(each.object.covers) for each in made if each.object.family == "companion") == len(streams)
    assert sum(each.object.rows for each in made if each.object.family == "companion") == 2 * len(streams)


def test_an_input_that_is_not_what_the_order_says_is_damage(tmp_path: Path) -> None:
    world = world_of(1, entries=30)
    made = built(world, sealed_objects(world, random.Random(1), 2), tmp_path, Ids(), random.Random(1), FAMILIES)
    for each in made:
        order = Merge(family=each.object.family, level=1, inputs=[each.object])
        data = bytearray(each.path.read_bytes())
        data[len(data) // 2] ^= 1
        bad = tmp_path / f"{each.object.family}-bad"
        bad.write_bytes(bytes(data))
        with pytest.raises(IndexDamaged, match=each.object.made):
            merge(order, {each.object.made: bad}, tmp_path, f"{7:032x}")
        with pytest.raises(FileNotFoundError):
            merge(order, {each.object.made: tmp_path / "absent"}, tmp_path, f"{8:032x}")
