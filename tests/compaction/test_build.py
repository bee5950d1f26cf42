"""What a job writes against plain lists: the same living entries, in order, each once."""

import secrets
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sql
from streams_node.compactor import build
from streams_node.compactor.build import compact
from streams_node.compactor.jobs import OLDER_RUNS_MAX, Kind, Limits
from streams_node.compactor.slots import Slot
from streams_node.errors import ObjectDamaged
from streams_node.placement.made import ObjectFacts
from streams_node.segments import writer
from streams_node.segments.directory import Directory
from streams_node.wal.migrate import migrate
from tests.compaction.objects import entries_in, facts_of
from tests.segments.entries import Entry, entries_of, sealed

_STREAMS = sql.queries("streams")
SMALL = Limits(own_segment_bytes=400, segment_bytes=1000, segment_entries=50, pack_bytes=2000, run_bytes=0)


class Bench:
    """A folder for inputs and outputs, and a database with living streams."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path / "making"
        self.inputs = path / "inputs"
        for folder in (self.folder, self.inputs):
            folder.mkdir(parents=True)
        self.database = path / "streams.db"
        self.db = sqlite3.connect(self.database, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        migrate(self.db)

    def close(self) -> None:
        self.db.close()
        shutil.rmtree(self.path)

    def live(self, streams: Iterable[int]) -> None:
        self.db.executemany(_STREAMS.insert_head, [(stream, 0) for stream in streams])

    def input(self, entries: Sequence[Entry], row: int, *, kind: str = "pack") -> tuple[ObjectFacts, Path]:
        written = sealed(self.inputs, sorted(entries), kind=kind, batch_entries=7)  # type: ignore[arg-type]
        return facts_of(written, row), written.file

    def compact(
        self,
        inputs: Sequence[tuple[ObjectFacts, Path]],
        kind: Kind = "merge",
        limits: Limits = SMALL,
        cuts: Sequence[int] = (),
    ) -> list[tuple[ObjectFacts, list[Entry]]]:
        answer = compact(
            {
                "kind": kind,
                "inputs": [{"facts": msgspec.to_builtins(facts), "file": str(file)} for facts, file in inputs],
                "folder": str(self.folder),
                "database": str(self.database),
                "level": 1,
                "first_row": 1,
                "last_row": len(inputs),
                "cuts": list(cuts),
                "limits": msgspec.to_builtins(limits),
            }
        )
        return [checked(output) for output in answer["outputs"]]


def checked(output: dict[str, Any]) -> tuple[ObjectFacts, list[Entry]]:
    """An output and its entries, after its facts were held against them."""
    facts = msgspec.convert(output["facts"], ObjectFacts)
    file = Path(output["file"])
    entries = entries_in(file, facts.made)
    assert facts.bytes == file.stat().st_size
    assert facts.entries == len(entries)
    assert facts.payload_bytes == sum(len(entry.payload) for entry in entries)
    assert (facts.min_stream, facts.max_stream) == (entries[0].stream, entries[-1].stream)
    assert (facts.min_ts, facts.max_ts) == (min(e.ts for e in entries), max(e.ts for e in entries))
    if facts.stream is not None:
        assert (facts.first_seq, facts.end_seq) == (entries[0].seq, entries[-1].seq + 1)
    else:
        directory = Directory.unpack(output["directory"], facts.made)
        assert (len(directory), directory.entries) == (facts.streams, facts.entries)
    for entry in entries:
        first = next(other for other in entries if other.stream == entry.stream)
        row = entries.index(entry)
        assert row - entries.index(first) == entry.seq - first.seq, "a gap inside an object"
    return facts, entries


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "bench")
    yield bench
    bench.close()


# A stream's life: for each input, how many entries of which size it has there, and how many it has elsewhere before.
sizes = st.one_of(st.integers(0, 3), st.integers(0, 60), st.just(500))
lives = st.lists(st.tuples(st.integers(0, 3), sizes, st.sampled_from([0, 0, 0, 2])), min_size=4, max_size=4)


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(st.integers(1, 60), lives, min_size=1, max_size=30),
    st.sets(st.integers(1, 60)),
    st.sampled_from([100, 1000, 1 << 24]),
    st.sampled_from([5, 1 << 16]),
)
def test_a_merge_keeps_the_living_entries_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory,
    history: dict[int, list[tuple[int, int, int]]],
    dead: set[int],
    window: int,
    group: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "_WINDOW_BYTES", window)
        patch.setattr(writer, "GROUP_ENTRIES", group)
        bench = Bench(tmp_path_factory.mktemp("merge") / "bench")
        merge_and_compare(bench, history, dead)
        bench.close()


def merge_and_compare(bench: Bench, history: dict[int, list[tuple[int, int, int]]], dead: set[int]) -> None:
    bench.live(set(history) - dead)
    inputs: list[list[Entry]] = [[] for _ in range(4)]
    for stream, life in history.items():
        seq = 0
        for which, (count, size, elsewhere) in enumerate(life):
            seq += elsewhere
            payloads = [b"%d" % stream * size] * count
            inputs[which] += entries_of(stream, seq, payloads)
            seq += count
    files = [bench.input(entries, row) for row, entries in enumerate(inputs, start=1) if entries]
    if not files:
        return
    outputs = bench.compact(files)
    expected = sorted(entry for entries in inputs for entry in entries if entry.stream not in dead)
    assert sorted(entry for _, entries in outputs for entry in entries) == expected
    slots = [Slot.around(facts.min_stream, facts.max_stream) for facts, _ in outputs if facts.kind == "pack"]
    if len(outputs) and sum(facts.kind == "segment" for facts, _ in outputs) <= OLDER_RUNS_MAX:
        assert not any(one.holds(other) for one in slots for other in slots if one is not other)
    for facts, _ in outputs:
        if facts.kind == "segment":
            assert facts.payload_bytes <= SMALL.segment_bytes + 2 * 500  # a whole last entry
            assert facts.entries <= SMALL.segment_entries
        assert (facts.level, facts.first_row, facts.last_row) == (1, 1, len(files))
    assert {path.name for path in bench.folder.iterdir()} == {f"{facts.made}.parquet" for facts, _ in outputs}


def test_a_grown_stream_gets_segments_of_its_own(bench: Bench) -> None:
    bench.live([1, 2, 3])
    files = [
        bench.input(
            [*entries_of(1, at, [b"a"]), *entries_of(2, at * 3, [b"b" * 60] * 3), *entries_of(3, at, [b""])], at + 1
        )
        for at in range(4)
    ]
    outputs = bench.compact(files)
    assert sorted((facts.kind, facts.stream, facts.entries) for facts, _ in outputs) == [
        ("pack", None, 8),
        ("segment", 2, 12),
    ]


def test_entries_with_a_segment_between_them_never_share_a_pack(bench: Bench) -> None:
    bench.live([1, 2])
    early = [*entries_of(1, 0, [b"a"] * 10), *entries_of(2, 0, [b"b"])]
    late = [*entries_of(1, 1000, [b"a"] * 10), *entries_of(2, 1, [b"b"])]
    outputs = bench.compact([bench.input(early, 1), bench.input(late, 2)])
    found = {facts.kind: [(entry.stream, entry.seq) for entry in entries] for facts, entries in outputs}
    assert found["segment"] == [(1, seq) for seq in range(10)]
    assert found["pack"] == [*((1, seq) for seq in range(1000, 1010)), (2, 0), (2, 1)]


def test_many_streams_with_segments_between_share_one_further_pack(bench: Bench) -> None:
    streams = range(1, 2 * OLDER_RUNS_MAX)
    bench.live(streams)
    early = [entry for stream in streams for entry in entries_of(stream, 0, [b"a"])]
    late = [entry for stream in streams for entry in entries_of(stream, 9, [b"b"])]
    outputs = bench.compact([bench.input(early, 1), bench.input(late, 2)])
    assert [facts.kind for facts, _ in outputs] == ["pack", "pack"]


def test_packs_are_cut_into_slots(bench: Bench) -> None:
    bench.live(range(1, 200))
    entries = [entry for stream in range(1, 200) for entry in entries_of(stream, 0, [b"x" * 50])]
    outputs = bench.compact([bench.input(entries, 1)])
    assert len(outputs) == 7
    assert max(facts.payload_bytes for facts, _ in outputs) <= SMALL.pack_bytes


def test_a_split_cuts_where_it_is_told(bench: Bench) -> None:
    bench.live(range(1, 100))
    entries = [entry for stream in range(1, 100) for entry in entries_of(stream, 0, [b"x"])]
    outputs = bench.compact([bench.input(entries, 1)], "split", cuts=[16, 64])
    assert [(facts.min_stream, facts.max_stream) for facts, _ in outputs] == [(1, 15), (16, 63), (64, 99)]


def test_small_segments_become_one_a_stream(bench: Bench) -> None:
    bench.live([1, 2])
    files = [
        bench.input(entries_of(stream, at * 5, [b"x" * 9] * 5), 10 * at + stream, kind="segment")
        for stream in (1, 2)
        for at in range(4)
    ]
    outputs = bench.compact(files, "segments")
    assert [(facts.stream, facts.first_seq, facts.end_seq) for facts, _ in outputs] == [(1, 0, 20), (2, 0, 20)]
    assert [(facts.first_row, facts.last_row) for facts, _ in outputs] == [(1, 31), (2, 32)]


def test_nothing_comes_out_of_what_is_dead(bench: Bench) -> None:
    assert bench.compact([bench.input(entries_of(1, 0, [b"x"]), 1)], "clean") == []
    assert list(bench.folder.iterdir()) == []


def test_a_large_entry_passes(bench: Bench) -> None:
    bench.live([1, 2])
    large = secrets.token_bytes(3 << 20)
    files = [bench.input([*entries_of(1, at, [large]), *entries_of(2, at, [b""])], at + 1) for at in range(2)]
    outputs = bench.compact(files, limits=Limits())
    assert sorted(len(entry.payload) for _, entries in outputs for entry in entries) == [0, 0, 3 << 20, 3 << 20]


def test_an_entry_in_two_inputs_is_damage(bench: Bench) -> None:
    bench.live([1])
    files = [bench.input(entries_of(1, 0, [b"x"] * 3), 1), bench.input(entries_of(1, 2, [b"x"]), 2)]
    with pytest.raises(ObjectDamaged) as failure:
        bench.compact(files)
    assert failure.value.facts["object"] == files[1][0].made


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9])
def test_damage_is_named_and_leaves_nothing_behind(bench: Bench, at: float) -> None:
    bench.live(range(1, 900))
    files = [
        bench.input(
            [entry for stream in range(1, 900) for entry in entries_of(stream, row, [secrets.token_bytes(3999)])], row
        )
        for row in range(2)
    ]
    made, file = files[1][0].made, files[1][1]
    data = bytearray(file.read_bytes())
    data[int(len(data) * at)] ^= 1
    file.write_bytes(data)
    with pytest.raises(ObjectDamaged) as failure:
        bench.compact(files, limits=Limits(pack_bytes=1 << 17))
    assert failure.value.facts["object"] == made
    assert list(bench.folder.iterdir()) == []


def test_other_facts_than_the_file_has_are_damage(bench: Bench) -> None:
    facts, file = bench.input(entries_of(1, 0, [b"x"] * 3), 1)
    with pytest.raises(ObjectDamaged, match="the catalogue says 4"):
        bench.compact([(msgspec.structs.replace(facts, entries=4), file)])


def test_what_is_dead_is_counted_by_directories(bench: Bench) -> None:
    bench.live([1, 3])
    written = sealed(
        bench.inputs, [*entries_of(1, 0, [b"x"]), *entries_of(2, 0, [b"x"] * 2), *entries_of(4, 0, [b"x"] * 3)]
    )
    asked = {"kind": "count", "database": str(bench.database), "packs": [{"made": written.made}]}
    assert compact(asked) == {"dead": {}, "missing": [written.made], "found": {}}
    asked["packs"] = [{"made": written.made, "file": str(written.file)}]
    answer = compact(asked)
    assert answer["dead"] == {written.made: 5}
    assert answer["found"] == {written.made: written.directory}


def test_a_kept_directory_that_is_damaged_stops_no_other_count(bench: Bench) -> None:
    bench.live([1])
    placement = sql.queries("placement")
    made = []
    for directory in (b"nonsense", None):
        written = sealed(bench.inputs, [*entries_of(1, 0, [b"x"]), *entries_of(2, 0, [b"x"])])
        made.append(written.made)
        bench.db.execute(placement.insert_object, msgspec.structs.asdict(facts_of(written, 1)))
        kept = {"made": written.made, "directory": directory or written.directory}
        bench.db.execute(placement.keep_directory, kept)
    asked = {"kind": "count", "database": str(bench.database), "packs": [{"made": each} for each in made]}
    assert compact(asked) == {"dead": {made[1]: 1}, "missing": [made[0]], "found": {}}
