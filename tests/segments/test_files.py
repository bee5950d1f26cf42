"""Sealed files against a plain list of entries."""

import hashlib
import itertools
import random
import secrets
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_node.errors import InvariantBroken
from streams_node.segments.directory import Directory
from streams_node.segments.format import GROUP_BYTES, GROUP_ENTRIES
from streams_node.segments.reader import Group, SealedFile, keyed_rows, read_page
from streams_node.segments.writer import ObjectWriter
from tests.segments.entries import BIRTH_US, Entry, batch_of, entries_of, golden_entries, sealed

GOLDEN = Path(__file__).parent / "golden"
PAYLOADS = st.lists(st.binary(max_size=40), min_size=1, max_size=30)


def page_of(entries: list[Entry], row: int, end: int, bytes_max: int, *, is_json: bool) -> tuple[int, bytes]:
    """What a page must be, entry by entry."""
    taken = [entries[row].payload]
    size = len(taken[0])
    for entry in entries[row + 1 : end]:
        size += len(entry.payload) + is_json
        if size > bytes_max:
            break
        taken.append(entry.payload)
    return row + len(taken), (b"," if is_json else b"").join(taken)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.integers(1, 2**40), st.tuples(st.integers(0, 2**40), PAYLOADS), min_size=1, max_size=6),
    st.data(),
)
def test_a_pack_gives_back_every_page_of_every_stream(
    tmp_path_factory: pytest.TempPathFactory,
    streams: dict[int, tuple[int, list[bytes]]],
    data: st.DataObject,
) -> None:
    entries = [entry for stream in sorted(streams) for entry in entries_of(stream, *streams[stream])]
    folder = tmp_path_factory.mktemp("pack")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streams_node.segments.writer.GROUP_BYTES", data.draw(st.integers(1, 200)))
        patch.setattr("streams_node.segments.writer.GROUP_ENTRIES", data.draw(st.integers(1, 20)))
        written = sealed(folder, entries, batch_entries=data.draw(st.integers(1, 40)))
    with SealedFile(written.file, written.made) as file:
        directory = Directory.unpack(file.directory() or b"", written.made)
        for stream, (first_seq, payloads) in streams.items():
            place = directory.find(stream)
            assert place is not None
            assert (place.first_seq, place.entries) == (first_seq, len(payloads))
            row = place.first_row + data.draw(st.integers(0, place.entries - 1))
            end = place.first_row + place.entries
            bytes_max, is_json = data.draw(st.integers(0, 300)), data.draw(st.booleans())
            page = read_page(file.group, file.footer, row, end, bytes_max, is_json=is_json)
            assert tuple(page) == page_of(entries, row, end, bytes_max, is_json=is_json)
        assert rows_of(file) == entries


def rows_of(file: SealedFile) -> list[Entry]:
    found = []
    for batch in file.batches():
        for row in batch.to_pylist():
            ts = int(row["append_ts"].timestamp()) * 1_000_000 + row["append_ts"].microsecond
            found.append(
                Entry(
                    row["stream"],
                    row["seq"],
                    row["payload"],
                    ts,
                    row["append_start"],
                    row["schema_version"],
                    row["key"],
                )
            )
    return found


def test_what_is_known_of_a_file_is_true(tmp_path: Path) -> None:
    entries = entries_of(7, 3, [b"a", b"bb"]) + entries_of(9, 0, [b"ccc"])
    written = sealed(tmp_path, entries)
    blob = written.file.read_bytes()
    assert (written.size, written.sha256) == (len(blob), hashlib.sha256(blob).hexdigest())
    assert written.file == tmp_path / f"{written.made}.parquet"
    assert (written.kind, written.level, written.stream, written.first_seq, written.end_seq) == ("pack", 0, None, 0, 0)
    assert (written.min_stream, written.max_stream, written.streams) == (7, 9, 2)
    assert (written.entries, written.payload_bytes) == (3, 6)
    assert (written.min_ts, written.max_ts) == (BIRTH_US, BIRTH_US + 4)
    with SealedFile(written.file, written.made) as file:
        assert file.directory() == written.directory


def test_a_segment_is_of_one_stream_and_has_no_directory(tmp_path: Path) -> None:
    written = sealed(tmp_path, entries_of(7, 3, [b"a", b"bb"]), kind="segment")
    assert (written.stream, written.first_seq, written.end_seq, written.directory) == (7, 3, 5, None)
    with SealedFile(written.file, written.made) as file:
        assert file.directory() is None
    with pytest.raises(InvariantBroken):
        sealed(tmp_path, entries_of(7, 3, [b"a"]) + entries_of(8, 3, [b"a"]), kind="segment")


@pytest.mark.parametrize(
    "entries",
    [
        entries_of(2, 0, [b"a"]) + entries_of(1, 0, [b"a"]),
        entries_of(1, 0, [b"a"]) + entries_of(1, 2, [b"a"]),
        entries_of(1, 0, [b"a"]) + entries_of(2, 0, [b"a"]) + entries_of(1, 1, [b"a"]),
    ],
)
@pytest.mark.parametrize("batch_entries", [1, 10])
def test_entries_out_of_order_are_never_written(tmp_path: Path, entries: list[Entry], batch_entries: int) -> None:
    with pytest.raises(InvariantBroken):
        sealed(tmp_path, entries, batch_entries=batch_entries)
    assert list(tmp_path.iterdir()) == []


def test_a_row_group_holds_about_a_mebibyte_however_large_or_small_the_entries(tmp_path: Path) -> None:
    payload = random.Random(3).randbytes(100_000)
    large = sealed(tmp_path, entries_of(1, 0, [payload] * 40), kind="segment", batch_entries=7)
    with SealedFile(large.file, large.made) as file:
        sizes = [file.group(number).length(*file.footer.starts[number : number + 2]) for number in range(file.groups)]
        assert all(GROUP_BYTES <= size < GROUP_BYTES + 100_000 for size in sizes[:-1])
    tiny = sealed(tmp_path, entries_of(1, 0, [b"1"] * (GROUP_ENTRIES + 5)), kind="segment", batch_entries=9999)
    with SealedFile(tiny.file, tiny.made) as file:
        assert list(file.footer.starts) == [0, GROUP_ENTRIES, GROUP_ENTRIES + 5]


def test_an_entry_larger_than_a_row_group_and_than_a_page_is_one_page(tmp_path: Path) -> None:
    payload = bytes(3 * GROUP_BYTES)
    written = sealed(tmp_path, entries_of(1, 0, [b"a", payload, b"b"]), kind="segment")
    with SealedFile(written.file, written.made) as file:
        assert read_page(file.group, file.footer, 1, 3, 10, is_json=True) == (2, payload)
        assert read_page(file.group, file.footer, 0, 3, 10 * GROUP_BYTES, is_json=False) == (3, b"a" + payload + b"b")


def test_only_the_columns_that_are_asked_for_are_read(tmp_path: Path) -> None:
    entries = entries_of(1, 10, [b"x"] * 9)
    written = sealed(tmp_path, entries, kind="segment")
    with SealedFile(written.file, written.made) as file:
        columns = file.columns(0, ("seq", "append_ts", "key"))
        assert set(columns) == {"seq", "append_ts", "key"}
        assert columns["seq"].to_pylist() == list(range(10, 19))
        assert columns["append_ts"].to_pylist() == [entry.ts for entry in entries]
        assert list(keyed_rows(columns["key"], 100, "key-1")) == [106]
        assert list(keyed_rows(columns["key"], 0, "key-7")) == []


def test_a_row_group_without_a_key_is_passed_over(tmp_path: Path) -> None:
    keys: list[str | None] = ["b", None, "m", "ä", None]
    entries = [Entry(1, seq, b"x", key=key) for seq, key in enumerate(keys)]
    keyed = sealed(tmp_path, entries, kind="segment")
    plain = sealed(tmp_path, [Entry(1, 0, b"x")], kind="segment")
    with SealedFile(keyed.file, keyed.made) as file:
        held = {key: file.may_hold_key(0, key) for key in ("a", "b", "c", "ä", "ö")}
    assert held == {"a": False, "b": True, "c": True, "ä": True, "ö": False}
    with SealedFile(plain.file, plain.made) as file:
        assert not file.may_hold_key(0, "a")


def test_an_abandoned_file_leaves_nothing(tmp_path: Path) -> None:
    with ObjectWriter(tmp_path, secrets.token_hex(16), kind="pack", level=0) as writer:
        writer.write(batch_of(entries_of(1, 0, [b"x" * GROUP_BYTES, b"y"])))
    assert list(tmp_path.iterdir()) == []


def test_a_kept_footer_saves_the_reading_of_it(tmp_path: Path) -> None:
    written = sealed(tmp_path, entries_of(1, 0, [b"a", b"b"]))
    with SealedFile(written.file, written.made) as file:
        footer = file.footer
    with SealedFile(written.file, written.made, footer=footer) as file:
        written.file.unlink()  # what is open stays readable
        group = file.group(0)
    assert group.entries(0, 2) == [b"a", b"b"]
    assert bytes(group.raw(0, 2)) == b"ab"


def test_a_page_goes_through_groups_that_were_kept(tmp_path: Path) -> None:
    entries = entries_of(1, 0, [str(number).encode() for number in range(50)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streams_node.segments.writer.GROUP_ENTRIES", 7)
        written = sealed(tmp_path, entries, kind="segment")
    asked: defaultdict[int, int] = defaultdict(int)
    with SealedFile(written.file, written.made) as file:
        kept = [file.group(number) for number in range(file.groups)]

        def group_at(number: int) -> Group:
            asked[number] += 1
            return kept[number]

        for row, end in itertools.combinations(range(0, 51, 5), 2):
            page = read_page(group_at, file.footer, row, end, 1000, is_json=True)
            assert tuple(page) == page_of(entries, row, end, 1000, is_json=True)
        asked.clear()
        read_page(group_at, file.footer, 8, 10, 1000, is_json=True)
        assert dict(asked) == {1: 1}


def test_files_of_the_first_format_are_read_as_they_were_written() -> None:
    """Written once by `python -m tests.segments.entries`; a change of the bytes is a new format beside it."""
    for name, entries in golden_entries().items():
        made = name.encode().hex().rjust(32, "0")
        with SealedFile(GOLDEN / f"{made}.parquet", made) as file:
            assert rows_of(file) == entries
            blob = file.directory()
            assert (blob is None) == (name == "segment")
            if blob is not None:
                assert list(Directory.unpack(blob, made).places()) == [(3, 0, 2), (9, 7, 1)]
