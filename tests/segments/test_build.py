"""Seals of a real log against a plain list."""

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams_node.placement.made import Made, Seal
from streams_node.protocol.frames import pack_each, pack_keys
from streams_node.segmenter import rows, slices
from streams_node.segmenter.build import build, seal
from streams_node.segmenter.messages import Order, seal_of
from streams_node.segments.directory import Directory
from streams_node.segments.reader import SealedFile
from tests.segments.entries import Entry
from tests.segments.logs import PLACEMENT, Log, Sender
from tests.segments.test_files import rows_of

MIB = 1 << 20


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    opened = Log.open(tmp_path)
    (tmp_path / "sealing").mkdir()
    yield opened
    opened.close()


def order_of(log: Log, **values: Any) -> Order:
    defaults = {
        "database": str(log.path),
        "folder": str(log.path.parent / "sealing"),
        "after_row": 0,
        "through_row": log.row,
        "flush_bytes_max": 64 * MIB,
        "own_segment_bytes": MIB,
        "segment_bytes": 16 * MIB,
        "segment_entries": 100_000,
    }
    return Order(**(defaults | values))  # type: ignore[arg-type]


def sealed(log: Log, **values: Any) -> Seal:
    return seal_of(json.loads(msgspec.json.encode(seal(msgspec.structs.asdict(order_of(log, **values))))))


def entries_in(made: Made) -> list[Entry]:
    """Of one object, once its facts have been held against it."""
    facts = made.facts
    with SealedFile(made.file, facts.made) as file:
        found = rows_of(file)
        directory = file.directory()
    assert directory == made.directory
    by_stream: dict[int, list[Entry]] = defaultdict(list)
    for entry in found:
        by_stream[entry.stream].append(entry)
    assert (facts.entries, facts.streams, facts.bytes) == (len(found), len(by_stream), made.file.stat().st_size)
    assert (facts.min_stream, facts.max_stream) == (min(by_stream), max(by_stream))
    assert (facts.min_ts, facts.max_ts) == (min(e.ts for e in found), max(e.ts for e in found))
    assert facts.payload_bytes == sum(len(entry.payload) for entry in found)
    if directory is None:
        assert (facts.kind, facts.stream) == ("segment", found[0].stream)
        assert (facts.first_seq, facts.end_seq) == (found[0].seq, found[-1].seq + 1)
    else:
        assert (facts.kind, facts.stream, facts.first_seq, facts.end_seq) == ("pack", None, 0, 0)
        places = [(stream, entries[0].seq, len(entries)) for stream, entries in by_stream.items()]
        assert list(Directory.unpack(directory, facts.made).places()) == places
    return found


def contents(seal: Seal) -> dict[int, list[Entry]]:
    """All entries of a seal by stream, in the order of their objects."""
    found: dict[int, list[Entry]] = defaultdict(list)
    for made in seal.objects:
        assert (made.facts.first_row, made.facts.last_row) == (seal.after_row + 1, seal.through_row)
        for entry in entries_in(made):
            found[entry.stream].append(entry)
    return found


def lines(seal: Seal) -> list[dict[str, Any]]:
    return [] if seal.ends is None else [json.loads(line) for line in seal.ends.read_bytes().splitlines()]


@st.composite
def appends(draw: st.DrawFn) -> list[dict[str, Any]]:
    sizes = st.integers(1, 30) | st.sampled_from([63, 64, 65, 128, 200])
    found = []
    for at in range(draw(st.integers(1, 25))):
        stream = draw(st.integers(1, 5))
        is_json = stream % 2 == 1
        count = draw(st.integers(1, 6)) if is_json else 1
        source = random.Random(draw(st.integers(0, 99)))
        entries = [source.randbytes(draw(sizes)).replace(b",", b"") + bytes([65 + n]) for n in range(count)]
        sender = Sender(f"p{draw(st.integers(0, 2))}", 1, at) if draw(st.booleans()) else None
        found.append(
            {
                "stream": stream,
                "entries": entries,
                "is_json": is_json,
                "key": draw(st.sampled_from([None, None, "a", "ä"])),
                "sender": sender,
                "stream_seq": draw(st.sampled_from([None, f"s{at:03}"])),
                "schema_version": draw(st.integers(0, 2)),
            }
        )
    return found


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(appends(), st.data())
def test_what_is_sealed_is_what_was_appended(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[dict[str, Any]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("log")
    (folder / "sealing").mkdir()
    log = Log.open(folder)
    for each in wanted:
        log.append(**each)
    closing = data.draw(st.sampled_from([None, *range(1, 6)]))
    if closing is not None:
        log.append(closing, [], close=True, sender=data.draw(st.sampled_from([None, Sender("last", 2, 0)])))
    found: dict[int, list[Entry]] = defaultdict(list)
    ends: dict[int, dict[str, Any]] = defaultdict(dict)
    producers: dict[tuple[int, str], dict[str, Any]] = {}
    bounds = {
        "flush_bytes_max": data.draw(st.integers(1, 2000)),
        "own_segment_bytes": data.draw(st.integers(1, 500)),
        "segment_bytes": data.draw(st.integers(1, 300)),
        "segment_entries": data.draw(st.integers(1, 10)),
    }
    after, rows_sealed = 0, 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streams_node.segmenter.batches._BATCH_BYTES", data.draw(st.integers(1, 400)))
        patch.setattr(slices, "_SLICE_BYTES", data.draw(st.integers(1, 500)))
        patch.setattr("streams_node.segmenter.ends._MARKED_ROWS", data.draw(st.integers(1, 5)))
        patch.setattr(slices, "_ROWS_AT_ONCE", data.draw(st.integers(1, 5)))
        patch.setattr(slices, "_PLAIN_ROWS", data.draw(st.integers(1, 5)))
        patch.setattr(slices, "_PLAIN_ROWS_MAX", data.draw(st.integers(1, 9)))
        patch.setattr("streams_node.segmenter.plain.PAYLOAD_BYTES_MAX", data.draw(st.sampled_from([0, 20, 4096])))
        while after < log.row:
            seal = sealed(log, after_row=after, **bounds)
            assert seal.stuck == []
            assert seal.after_row == after < seal.through_row
            assert seal.through_row in log.appends_end
            for stream, entries in contents(seal).items():
                found[stream] += entries
            for line in lines(seal):
                if line.pop("t") == "end":
                    ends[line["id"]].update(line)
                else:
                    producers[line["id"], line["producer"]] = line
            after, rows_sealed = seal.through_row, rows_sealed + seal.rows
    assert found == {stream: entries for stream, entries in log.entries.items() if entries}
    assert ends == log.ends
    assert producers == log.producers
    assert rows_sealed == log.row
    log.close()


def test_a_flush_takes_as_many_whole_appends_as_fit_and_at_least_one(log: Log) -> None:
    for size in (10, 20, 300, 5):
        log.append(1, [b"x" * size], is_json=False)  # 300 bytes take five rows
    ends = [sealed(log, after_row=after, flush_bytes_max=30).through_row for after in (0, 2, 7)]
    assert ends == [2, 7, 8]
    assert sealed(log, flush_bytes_max=29).through_row == 1
    assert sealed(log, flush_bytes_max=334).through_row == 7
    assert sealed(log, flush_bytes_max=335).through_row == 8
    assert sealed(log, through_row=5).through_row == 2  # a row in the middle of an append is no end


def test_what_a_flush_took_is_counted_with_its_dead_rows(log: Log) -> None:
    log.append(1, [b"abc"])
    log.append(2, [b"defg"])
    log.kill(2)
    seal = sealed(log)
    assert (seal.rows, seal.log_bytes) == (2, 7)
    assert set(contents(seal)) == {1}
    assert [line["id"] for line in lines(seal)] == [1]


def test_nothing_but_dead_rows_is_a_seal_without_files(log: Log) -> None:
    log.append(2, [b"defg"], sender=Sender("p", 1, 0))
    log.kill(2)
    seal = sealed(log)
    assert (seal.through_row, seal.objects, seal.ends, seal.stuck) == (1, [], None, [])
    assert list((log.path.parent / "sealing").iterdir()) == []


@pytest.mark.parametrize("freed", [(4,), (1,), (2, 3, 4), (1, 2, 3, 4)])
def test_rows_that_were_freed_before_they_were_sealed_are_sealed_with_the_others(
    log: Log, freed: tuple[int, ...]
) -> None:
    for stream in (1, 2, 2, 1):
        log.append(stream, [b"x"])
    log.kill(1)
    log.kill(2)
    for row in freed:
        log.db.execute("DELETE FROM log WHERE row_id = ?", (row,))
    seal = sealed(log)
    assert (seal.through_row, seal.rows, seal.objects, seal.stuck) == (4, 4 - len(freed), [], [])


def test_a_stream_that_is_stuck_stays_out(log: Log) -> None:
    log.append(1, [b"abc"])
    log.append(2, [b"def"])
    log.db.execute(PLACEMENT.stick, (1, "it is damaged", 0))
    seal = sealed(log)
    assert set(contents(seal)) == {2}
    assert seal.stuck == []  # that is known


def test_a_stream_that_is_closed_without_an_entry_has_an_end(log: Log) -> None:
    log.append(1, [], close=True, sender=Sender("p", 3, 7))
    seal = sealed(log)
    assert seal.objects == []
    end, producer = lines(seal)
    assert end["closed"] == 1
    assert (end["closed_by"], end["closed_epoch"], end["closed_seq"]) == ("p", 3, 7)
    assert (end["next_seq"], end["ordinal"], end["position"]) == (0, 1, 0)
    assert producer["t"] == "producer"


def test_large_streams_get_segments_and_the_small_ones_one_pack(log: Log) -> None:
    log.piece_bytes = 1 << 18
    for n in range(40):
        log.append(1, [b"%d" % n * 50_000] * 2)
        log.append(2 + n, [b"small"])
    seal = sealed(log, segment_bytes=2 * MIB)
    kinds = [(made.facts.kind, made.facts.stream) for made in seal.objects]
    assert kinds == [*[("segment", 1)] * (len(kinds) - 1), ("pack", None)]
    sizes = [made.facts.payload_bytes for made in seal.objects[:-1]]
    assert all(2 * MIB <= size < 2 * MIB + 100_000 for size in sizes[:-1])
    assert contents(seal) == log.entries
    few = sealed(log, segment_entries=30)
    assert [made.facts.entries for made in few.objects] == [30, 30, 20, 40]


def test_a_forks_entries_begin_where_it_was_forked(log: Log) -> None:
    log.create(1, first_seq=500)
    log.append(1, [b"a", b"b"])
    seal = sealed(log, own_segment_bytes=1)
    assert (seal.objects[0].facts.first_seq, seal.objects[0].facts.end_seq) == (500, 502)


def test_keys_of_single_entries_are_kept(log: Log) -> None:
    log.append(1, [b"a", b"b", b"c"], keys=pack_keys(["x", None, ""]))
    log.append(1, [b"d"], key="x")
    log.append(1, [b"e", b"f"], keys=pack_each([None, "y"]))
    log.append(2, [b"g"])
    seal = sealed(log)
    assert seal.stuck == []
    assert pq.read_table(seal.objects[0].file).column("key").to_pylist() == ["x", None, "", "x", None, "y", None]


def test_thousands_of_rows_of_one_entry_each_are_sealed_byte_by_byte(log: Log) -> None:
    """Also where a row among them is of another kind, or is missing, and whatever the bytes are."""
    log.piece_bytes = 5000
    source = random.Random(8)
    payloads = [b"", b"\0", b"\xff\xfe", b"\xc3", b"\n,", bytes(range(256)), b"x" * 4096, b"y" * 4097]
    for at in range(6000):
        entry = payloads[at] if at < len(payloads) else source.randbytes(source.randrange(40))
        if at == 3000:
            log.append(7, [b"1", b"2", b"3"])
        if at == 3500:
            log.append(9, [b"dies"])
        sender = Sender("p", 1, at) if 4000 < at < 4100 else None
        key = source.choice([None, "", "a", "ä\0b"]) if at > 5000 else None
        version = 1 if at > 4500 else 0
        log.append(source.randrange(1, 6), [entry], is_json=False, key=key, sender=sender, schema_version=version)
    log.append(3, [b"last"], close=True)
    log.kill(9)
    log.db.execute("DELETE FROM log WHERE stream = 9")
    del log.entries[9], log.ends[9]
    seal = sealed(log)
    assert (seal.rows, seal.stuck) == (log.row - 1, [])
    assert contents(seal) == log.entries
    found = sorted(lines(seal), key=lambda line: (line.pop("t"), line["id"]))
    assert found == [end for _, end in sorted(log.ends.items())] + [sent for _, sent in sorted(log.producers.items())]


@pytest.mark.parametrize("columns", [{"seq": -1}, {"seq": 5}, {"keys": b"\x01\xff"}, {"keys": b"\x02"}])
def test_a_damaged_row_among_many_small_ones_stops_its_stream_only(log: Log, columns: dict[str, Any]) -> None:
    for at in range(600):
        log.append(1 + at % 3, [b"x"], is_json=False)
    log.change(300, **columns)
    seal = sealed(log)
    assert [stream for stream, _ in seal.stuck] == [3]
    assert contents(seal) == {stream: log.entries[stream] for stream in (1, 2)}


DAMAGE = {
    "lengths that are missing": {"lens": None},
    "lengths that are too long": {"lens": b"\x07\0\0\0\x01\0\0\0\x01\0\0\0"},
    "lengths that are cut off": {"lens": b"\x01\0\0\0"},
    "another count": {"count": 2},
    "a negative count": {"count": -3},
    "another sequence": {"seq": 9},
    "keys for others": {"keys": pack_keys(["x", "y"])},
    "keys that are no text": {"keys": b"\x01\xff"},
    "one key too many": {"keys": pack_each(["x", None, "y", "z"])},
    "a few keys of too many": {"keys": pack_keys(["x", "y", "x", "y"])},
    "a few keys that are none": {"keys": b"\x03"},
    "a few keys that are cut off": {"keys": b"\x03\x01\x01\0\0\0x\0\0\0"},
    "a few keys that are no text": {"keys": b"\x03\0\x01\0\0\0\xff\0\0\0"},
    "a key that is not among the few": {"keys": b"\x03\0\x01\0\0\0x\0\0\x01"},
    "keys that are cut off": {"keys": b"\x02\x09"},
    "a key that is cut off": {"keys": b"\x02\xff\xff\xff\xff\xff\xff\xff\xff\x09\0\0\0abc"},
    "a piece out of nowhere": {"flags": 5},
    "an append without a beginning": {"flags": 0},
    "a payload that was cut": {"payload": b"aa,b"},
}


@pytest.mark.parametrize("columns", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_stream_with_a_damaged_row_is_stuck_and_its_neighbours_are_sealed(log: Log, columns: dict[str, Any]) -> None:
    log.append(1, [b"one"])
    log.append(2, [b"a", b"b", b"c"])
    log.append(3, [b"x" * 200])
    log.append(2, [b"d"])
    log.append(1, [b"two"])
    log.change(2, **columns)
    seal = sealed(log)
    assert [stream for stream, _ in seal.stuck] == [2]
    assert "row" in seal.stuck[0][1]
    assert contents(seal) == {stream: log.entries[stream] for stream in (1, 3)}
    assert {line["id"] for line in lines(seal)} == {1, 3}


@pytest.mark.parametrize("lost", [0, 1, 2, 3])
def test_a_stream_that_lost_a_row_is_stuck(log: Log, lost: int) -> None:
    log.append(2, [b"a"])
    log.append(2, [b"x" * 150])
    log.append(1, [b"one"])
    log.append(2, [b"b"])
    log.db.execute("DELETE FROM log WHERE row_id = ?", (log.rows_of(2)[lost],))
    seal = sealed(log)
    if lost == 0:  # where the stretch begins, only the stream's earlier seals could tell
        assert seal.stuck == []
    else:
        assert [stream for stream, _ in seal.stuck] == [2]
        assert set(contents(seal)) == {1}


def test_a_stream_that_dies_while_it_is_sealed_is_no_damage(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.append(1, [b"one"])
    for _ in range(5):
        log.append(2, [b"a"])
    take = rows.take

    def dying(*arguments: Any) -> Any:
        log.kill(2)
        log.db.execute("DELETE FROM log WHERE row_id IN (4, 5)")
        return take(*arguments)

    monkeypatch.setattr("streams_node.segmenter.build.take", dying)
    built = build(order_of(log))
    assert built.stuck == []
    assert len(built.objects) == 1
    assert built.objects[0].facts.max_stream == 1


def test_nothing_holds_a_checkpoint_up_for_longer_than_a_slice(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two slices the log has no reader, so that a checkpoint can copy everything and start the file over."""
    for name in ("_SLICE_BYTES", "_ROWS_AT_ONCE", "_PLAIN_ROWS", "_PLAIN_ROWS_MAX"):
        monkeypatch.setattr(slices, name, 1)
    for _ in range(5):
        log.append(1, [b"a"])
        log.append(1, [b"a", b"b"])
    taken = []
    read_on = slices.Slices.read_on

    def watched(*arguments: Any) -> None:
        taken.append(log.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())
        read_on(*arguments)

    monkeypatch.setattr(slices.Slices, "read_on", watched)
    sealed(log)
    assert len(taken) >= 10
    assert {busy for busy, *_ in taken} == {0}
