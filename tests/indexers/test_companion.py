"""The file of a companion, and the columns in it."""

import random
import struct
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from indexers.companion import Layout, Pack, StitchingBroken, View, Writer, merge, stitching_works
from indexers.companion.pack import FileFacts
from indexers.companion.write import _spaced
from indexers.messages import Cover
from indexers.records import Documents, Table
from indexers.runs import IndexDamaged, IndexTooNew
from search.language import words
from streams_node.schema.search_config import SearchConfig, parse
from tests.indexers.files import GOLDEN

Query = tantivy.Query
GOLDEN_PACK = GOLDEN / "companion-1.companion"
RECORDS: list[Any] = [
    {"at": "2026-03-25T10:04:05.123456789Z", "id": "a", "say": "Hello, wörld_x 日本", "n": 7, "f": 0.5, "ok": True},
    {"at": 1_774_432_800_000, "id": ["b", "B"], "say": ["one two", "three four"], "n": [1, 9], "f": [2, "3.5"]},
    {"at": -1, "id": "é\0", "say": "", "n": 2**64 - 1, "ok": "FALSE"},
    {},
]


def config(**fields: Any) -> SearchConfig:
    """`fields`: name -> members without bindings; `at` is always there."""
    known = {"at": {"kind": "date", "column": True}, **fields}
    bound = {name: {**each, "bindings": [{"version": 1, "jsonPointer": f"/{name}"}]} for name, each in known.items()}
    return parse({"primaryTimestampField": "at", "fields": bound})


TEXT = {"kind": "text", "analyzer": "unicode_word_v1"}
CONFIG = config(
    id={"kind": "keyword", "exact": True}, say={**TEXT, "positions": True}, n={"kind": "integer", "column": True},
    f={"kind": "float", "column": True}, ok={"kind": "bool", "exact": True},
)  # fmt: skip


def cover(first: int, count: int, *, stream: int = 1, ordinal: int = 0) -> Cover:
    return Cover(
        stream=stream, first_seq=first, end_seq=first + count, config="c", ordinal=ordinal, entries=count,
        payload_bytes=1, min_ts=first, max_ts=first + count,
    )  # fmt: skip


def table(records: Sequence[Any]) -> Table:
    return Table(Documents(list(records), [], plain=False), 1)


def built(path: Path, records: Sequence[Any], first: int = 0, searched: SearchConfig = CONFIG, name: str = "c") -> Path:
    path.mkdir(exist_ok=True)
    target = path / f"{first}.companion"
    writer = Writer(name, Layout(searched.fields), path / f"writer-{first}")
    seqs = range(first, first + len(records))
    writer.add([1] * len(records), seqs, [1000 + seq for seq in seqs], table(records))
    written = writer.finish(target, [f"object-{first}"], [cover(first, len(records))])
    assert (written.size, written.rows) == (target.stat().st_size, len(records))
    return target


def rows(view: View, asked: tantivy.Query) -> list[int]:
    hits = view.searcher.search(asked, limit=1000).hits
    return sorted(each.seq for each in view.addresses([address for _, address in hits]))


def term(view: View, column: str, value: Any) -> list[int]:
    return rows(view, Query.term_query(view.schema, column, value))


def check_golden(view: View) -> None:
    """at f0, f f1, id f2, n f3, ok f4, say f5."""
    layout = Layout(CONFIG.fields)
    assert [(each.column, each.field.name) for each in layout.columns] == [
        ("f0", "at"), ("f1", "f"), ("f2", "id"), ("f3", "n"), ("f4", "ok"), ("f5", "say")
    ]  # fmt: skip
    assert view.docs == len(RECORDS)
    assert (term(view, "f2", "a"), term(view, "f2", "B"), term(view, "f2", "é\0")) == ([0], [1], [2])
    assert (term(view, "f5", "wörld"), term(view, "f5", "x"), term(view, "f5", "日本")) == ([0], [0], [0])
    assert rows(view, Query.phrase_query(view.schema, "f5", ["one", "two"])) == [1]
    assert rows(view, Query.phrase_query(view.schema, "f5", ["two", "three"])) == []
    assert (term(view, "f4", True), term(view, "f4", False)) == ([0], [2])  # noqa: FBT003
    assert rows(view, layout.has_query(view.schema, "say")) == [0, 1, 2]
    assert rows(view, layout.has_query(view.schema, "id")) == [0, 1, 2]
    assert rows(view, layout.has_query(view.schema, "n")) == [0, 1, 2]
    assert (term(view, "inexact", "f3"), term(view, "inexact", "f5")) == ([2], [1])
    exactly = 1_774_433_045_123_456_789
    at = Query.range_query(view.schema, "f0", tantivy.FieldType.Integer, exactly, exactly)
    assert rows(view, at) == [0]
    ms = Query.range_query(view.schema, "m0", tantivy.FieldType.Integer, -1, -1)
    assert rows(view, ms) == [2]


def test_the_golden_companion_is_read(tmp_path: Path) -> None:
    pack = Pack(GOLDEN_PACK)
    check_golden(View([pack], tmp_path / "golden"))
    made = Pack(built(tmp_path, RECORDS))
    check_golden(View([made], tmp_path / "made"))
    earlier = [msgspec.structs.replace(each, full=False, single=False) for each in made.directory.fields]
    assert pack.directory.fields == earlier  # it is of a time when that was not said
    assert pack.directory.covers == [cover(0, len(RECORDS))]


def test_equal_entries_make_equal_files(tmp_path: Path) -> None:
    assert built(tmp_path / "a", RECORDS).read_bytes() == built(tmp_path / "b", RECORDS).read_bytes()


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    good = GOLDEN_PACK.read_bytes()
    draw = random.Random(1)
    for at in range(len(good)):
        changed = bytearray(good)
        changed[at] ^= 1 << draw.randrange(8)
        with pytest.raises(IndexDamaged):
            Pack(bytes(changed)).unpack(tmp_path / str(at))


def test_a_companion_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    good = GOLDEN_PACK.read_bytes()
    for size in range(0, len(good), 13):
        with pytest.raises(IndexDamaged):
            Pack(good[:size])
    with pytest.raises(IndexDamaged, match="bytes"):
        Pack(good + b"\0")
    (tmp_path / "cut").write_bytes(good[:-1])
    with pytest.raises(IndexDamaged, match="`cut`"):
        Pack(tmp_path / "cut")
    with pytest.raises(IndexDamaged, match="should have 5"):
        Pack(good, expected=(5, ""))
    with pytest.raises(IndexDamaged, match="checksum"):
        Pack(good, expected=(len(good), "0" * 32))
    with pytest.raises(IndexTooNew, match="format 2"):
        Pack(struct.pack("<4sB", b"SNXC", 2) + good[5:])


def test_a_view_of_some_and_their_merge_hold_all(tmp_path: Path) -> None:
    packs = [Pack(built(tmp_path, RECORDS, first)) for first in range(0, 40, 4)]
    view = View(packs, tmp_path / "view")
    assert (view.docs, view.searcher.num_segments) == (40, 10)
    assert term(view, "f2", "a") == list(range(0, 40, 4))
    covers = [pack.directory.covers for pack in packs]
    covers[3] = []
    written = merge(packs, covers, tmp_path / "parts", tmp_path / "whole")
    whole = Pack(tmp_path / "whole", expected=(written.size, written.xxh128))
    merged = View([whole], tmp_path / "merged")
    assert (merged.docs, merged.searcher.num_segments) == (36, 1)
    assert term(merged, "f2", "a") == [seq for seq in range(0, 40, 4) if seq != 12]
    assert [each.ordinal for each in whole.directory.covers] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert whole.directory.objects == [f"object-{first}" for first in range(0, 40, 4)]
    assert whole.directory.fields[3].most == str(2**64 - 1)


def test_a_part_of_a_cover_can_be_left_out(tmp_path: Path) -> None:
    pack = Pack(built(tmp_path, [{"id": str(seq)} for seq in range(20)]))
    kept = [cover(2, 3), cover(10, 5)]
    merge([pack], [kept], tmp_path / "parts", tmp_path / "whole")
    view = View([Pack(tmp_path / "whole")], tmp_path / "view")
    assert rows(view, Query.all_query()) == [2, 3, 4, 10, 11, 12, 13, 14]
    assert (view.docs, view.counted) == (8, 20)  # Tantivy's scores are made of those that are deleted, too


def test_covers_that_an_input_does_not_hold_are_damage(tmp_path: Path) -> None:
    pack = Pack(built(tmp_path, RECORDS))
    with pytest.raises(IndexDamaged, match="4 documents, not 5"):
        merge([pack], [[cover(0, 5)]], tmp_path / "parts", tmp_path / "whole")
    assert not (tmp_path / "whole").exists()


def test_companions_of_two_configurations_are_kept_apart(tmp_path: Path) -> None:
    packs = [Pack(built(tmp_path / "a", RECORDS)), Pack(built(tmp_path / "b", RECORDS, 9, config(), "other"))]
    with pytest.raises(ValueError, match="configuration"):
        View(packs, tmp_path / "view")
    with pytest.raises(ValueError, match="schema"):
        merge(packs, [pack.directory.covers for pack in packs], tmp_path / "parts", tmp_path / "whole")


def test_where_stitching_does_not_work_one_companion_is_still_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stitching_works()
    for room in ("view", "merge"):
        monkeypatch.setattr(import_module(f"indexers.companion.{room}"), "stitching_works", lambda: False)
    packs = [Pack(built(tmp_path, RECORDS, first)) for first in (0, 4)]
    with pytest.raises(StitchingBroken):
        View(packs, tmp_path / "view")
    with pytest.raises(StitchingBroken):
        merge(packs, [pack.directory.covers for pack in packs], tmp_path / "parts", tmp_path / "whole")
    assert View(packs[:1], tmp_path / "one").docs == 4


def test_what_a_column_cannot_hold_is_marked_and_the_rest_of_the_record_is_found(tmp_path: Path) -> None:
    longest = "é" * 32_765  # 65,530 bytes
    records = [
        {"id": longest, "say": longest + " end"}, {"id": longest + "x", "say": f"start {longest}x end"},
        {"id": ["lone\ud800", "fine"], "say": "lone\ud800word"}, {"n": [-(2**63) - 5000, 5], "id": "n"},
        {"at": "-200000-01-01", "id": "old"}, {"at": 8.64e15, "id": "late"}, {"id": 5, "say": {"x": "y"}, "n": "z"},
        {"at": "1969-12-31T23:59:59.9999Z"},
    ]  # fmt: skip
    pack = Pack(built(tmp_path, records))
    view = View([pack], tmp_path / "view")
    assert term(view, "f2", longest) == term(view, "f5", longest) == [0]
    assert (term(view, "inexact", "f2"), term(view, "inexact", "f5")) == ([1, 2], [1])
    assert (term(view, "f5", "start"), term(view, "f5", "end")) == ([1], [0, 1])
    assert (term(view, "f2", "fine"), term(view, "f5", "word"), term(view, "f5", "lone")) == ([2], [2], [2])
    assert (term(view, "inexact", "f3"), term(view, "inexact", "f0")) == ([3], [4, 5])
    assert rows(view, Query.range_query(view.schema, "f3", tantivy.FieldType.Integer, 5, 5)) == [3]
    assert rows(view, Query.range_query(view.schema, "m0", tantivy.FieldType.Integer, 8_640_000_000_000_000)) == [5]
    assert rows(view, Query.range_query(view.schema, "m0", tantivy.FieldType.Integer, -1, -1)) == [7]
    assert rows(view, Query.all_query()) == list(range(len(records)))
    facts = {each.name: (each.docs, each.inexact) for each in pack.directory.fields}
    assert facts == {"at": (3, 2), "f": (0, 0), "id": (6, 2), "n": (1, 1), "ok": (0, 0), "say": (3, 1)}


def test_a_document_that_tantivy_refuses_is_there_and_marked(tmp_path: Path) -> None:
    writer = Refusing("c", Layout(CONFIG.fields), tmp_path / "writer")
    records = [{"id": "a"}, {"id": "refused", "n": 5}, {"id": "b"}]
    writer.add([1] * 3, range(3), [0] * 3, table(records))
    writer.finish(tmp_path / "made", ["o"], [cover(0, 3)])
    view = View([Pack(tmp_path / "made")], tmp_path / "view")
    assert rows(view, Query.all_query()) == [0, 1, 2]
    assert (term(view, "f2", "a"), term(view, "f2", "b")) == ([0], [2])
    for column in ("f0", "f2", "f3", "f5"):
        assert term(view, "inexact", column) == [1]


class Refusing(Writer):
    """Its Tantivy refuses documents with a certain value, as a whole."""

    @override
    def _open(self) -> Any:
        inner = super()._open()

        class Picky:
            def add_json(self, document: str) -> None:
                if "refused" in document:
                    raise ValueError(document)
                inner.add_json(document)

        return Picky()


def test_a_document_of_ten_megabytes_is_indexed_like_others(tmp_path: Path) -> None:
    many = " ".join(f"w{number}" for number in range(1_200_000))
    view = View([Pack(built(tmp_path, [{"id": "a"}, {"say": many, "id": "b"}, {"id": "c"}]))], tmp_path / "view")
    assert term(view, "f5", "w0") == term(view, "f5", "w1199999") == [1]
    assert rows(view, Query.phrase_query(view.schema, "f5", ["w1199998", "w1199999"])) == [1]
    assert view.docs == 3


@given(st.text(st.characters(max_codepoint=0x250) | st.sampled_from("ΟΔΟΣςİǅ\u0301日_"), max_size=30))
def test_the_words_of_a_text_are_those_of_the_evaluator(text: str) -> None:
    lowest = "".join(map(chr, range(128)))
    for texts in ([text], [lowest], [None, lowest, "", text], [lowest, None, lowest[40:]]):
        spaced = _spaced(pa.array(texts, pa.string())).to_pylist()
        assert [None if each is None else each.split() for each in spaced] == [
            None if each is None else words(each) for each in texts
        ]


def test_a_writer_that_rested_goes_on(tmp_path: Path) -> None:
    writer = Writer("c", Layout(CONFIG.fields), tmp_path / "writer")
    for first in range(0, 12, 4):
        writer.add([1] * 4, range(first, first + 4), [0] * 4, table(RECORDS))
        writer.rest()
    writer.finish(tmp_path / "made", ["o"], [cover(0, 12)])
    view = View([Pack(tmp_path / "made")], tmp_path / "view")
    assert term(view, "f2", "a") == [0, 4, 8]


def test_bytes_are_told_apart_by_what_they_are_for(tmp_path: Path) -> None:
    pack = Pack(built(tmp_path, [{"say": f"word{seq}", "n": seq * 977} for seq in range(500)]))
    assert sum(pack.bytes_of) == pack.size
    assert min(pack.bytes_of) > 200


def test_a_configuration_of_five_hundred_fields_is_indexed(tmp_path: Path) -> None:
    wide = config(**{f"k{number}": {"kind": "keyword", "exact": True} for number in range(500)})
    record = {f"k{number}": f"v{number}" for number in range(10_000)}
    view = View([Pack(built(tmp_path, [record, {}], searched=wide))], tmp_path / "view")
    layout = Layout(wide.fields)
    assert term(view, layout.of("k499").column, "v499") == [0]
    assert rows(view, layout.has_query(view.schema, "k77")) == [0]


@pytest.mark.parametrize("name", ["../out", ".hidden", "a/b"])
def test_names_of_files_stay_in_their_folder(name: str, tmp_path: Path) -> None:
    """Even with the right checksums."""
    pack = Pack(GOLDEN_PACK)
    files = [FileFacts(name=name, bytes=1, stored=1, coding="", sum="")]
    pack.directory = msgspec.structs.replace(pack.directory, files=files)
    with pytest.raises(IndexDamaged, match="no file"):
        pack.unpack(tmp_path / "out")


def test_documents_with_several_texts_are_inexact_there(tmp_path: Path) -> None:
    """Words of one clause must be in one text, and the index cannot tell in which they are."""
    view = View(
        [Pack(built(tmp_path, [{"say": ["one", "two"]}, {"say": ["one two"]}, {"say": "one"}]))], tmp_path / "v"
    )
    assert term(view, "inexact", Layout(CONFIG.fields).of("say").column) == [0]


def test_bounds_of_fields_are_those_of_their_values(tmp_path: Path) -> None:
    pack = Pack(built(tmp_path, RECORDS))
    bounds = {each.name: (each.least, each.most) for each in pack.directory.fields}
    assert bounds["at"] == ("-1000000", "1774433045123456789")
    assert bounds["n"] == ("1", str(2**64 - 1))
    assert bounds["f"] == ("0.5", "3.5")
    assert bounds["id"] == (None, None)


def exactly(folder: Path, values: Sequence[Any]) -> None:
    pack = Pack(built(folder, [{"f": value, "id": str(at)} for at, value in enumerate(values)]))
    view = View([pack], folder / "v")
    hits = view.searcher.search(Query.all_query(), limit=len(values)).hits
    addresses = [address for _, address in hits]
    order = view.searcher.fast_field_values("row", addresses)
    held = view.searcher.fast_field_values(Layout(CONFIG.fields).of("f").column, addresses)
    first = [value[0] if isinstance(value, list) else value for value in values]
    assert held == [first[int(seq or 0)] for seq in order]
    assert [type(each) for each in held] == [float] * len(values)
    assert not any(each.inexact for each in pack.directory.fields)


def test_fractions_are_those_of_the_records(tmp_path: Path) -> None:
    """Tantivy's parser of JSON reads one in ten of long ones as its neighbour."""
    draw = random.Random(4)
    some = [draw.random() * 10.0 ** draw.randint(-20, 20) for _ in range(2000)]
    odd = [1e308, -1.7e308, 5e-324, 2.0**70, -(2.0**53) - 2, 1e16, 0.1 + 0.2, 1 / 3, 1e-7, 123456789012345.0, -0.25]
    lists: list[Any] = [[each, 1.0] for each in [*some[:200], *odd]]
    for name, values in {"some": some, "odd": odd, "lists": lists}.items():
        (tmp_path / name).mkdir()
        exactly(tmp_path / name, values)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=200))
def test_any_fraction_is_that_of_its_record(values: list[float]) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        exactly(Path(folder), values)


def test_full_and_single_columns_are_said_to_be(tmp_path: Path) -> None:
    whole = [{"at": seq, "id": "a", "n": seq, "f": [seq, seq]} for seq in range(3)]
    packs = [Pack(built(tmp_path, whole)), Pack(built(tmp_path, [*whole, {"at": 9}], 10))]
    one, other = ({each.name: (each.full, each.single) for each in pack.directory.fields} for pack in packs)
    assert one == {"at": (True, True), "id": (True, True), "n": (True, True), "f": (True, False), "ok": (False, True),
                   "say": (False, True)}  # fmt: skip
    assert (other["at"], other["n"]) == ((True, True), (False, True))
    covers = [[cover(0, 3)], [cover(10, 3)]]  # of the other one without its last entry
    merge(packs, covers, tmp_path / "parts", tmp_path / "whole")
    both = {each.name: (each.full, each.single) for each in Pack(tmp_path / "whole").directory.fields}
    assert (both["at"], both["n"], both["f"]) == ((True, True), (False, True), (False, False))  # of n it is not known


def test_of_documents_that_are_marked_nothing_is_said(tmp_path: Path) -> None:
    pack = Pack(built(tmp_path, [{"at": 1, "n": 1}, {"at": 2, "n": 2**70}]))
    facts = {each.name: (each.full, each.single) for each in pack.directory.fields}
    assert (facts["at"], facts["n"]) == ((True, True), (False, False))
    writer = Refusing("c", Layout(CONFIG.fields), tmp_path / "writer")
    writer.add([1, 1], range(2), [0, 0], table([{"at": 1, "id": "a"}, {"at": 2, "id": "refused"}]))
    writer.finish(tmp_path / "made", ["o"], [cover(0, 2)])
    assert not any(each.full or each.single for each in Pack(tmp_path / "made").directory.fields)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        GOLDEN_PACK.write_bytes(built(Path(scratch), RECORDS).read_bytes())
