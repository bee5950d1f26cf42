"""`catalogue show` and `catalogue verify` on a folder store, and the page that explains what they read."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import duckdb
import pytest

from streams_node.cli import main
from streams_node.manifest import End
from streams_node.objects import FolderStore, Generation, WriteId
from streams_node.objects.keys import LATEST, OWNER, generation_key, snapshot_key
from tests.catalogue.sealed import put_sealed
from tests.catalogue.world import NODE, World, facts_of, retrying

PAGE = Path(__file__).parents[2] / "streams_node" / "docs" / "catalogue.md"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
def sealed(place: Path, tmp_path: Path) -> World:
    """Two streams in a pack and a segment, a merged and dropped pack, a snapshot."""
    world = World(retrying(FolderStore.open(place)), tmp_path / "catalogue")
    bucket = world.bucket("orders")
    one, two = world.create(bucket, "one"), world.create(bucket, "two")
    first = put_sealed(world.store, tmp_path, {one: (0, 3), two: (0, 2)}, pack=True)
    world.append(one, 3)
    world.append(two, 2, "p")
    world.publish([first])
    second = put_sealed(world.store, tmp_path, {one: (3, 7)}, pack=False)
    world.append(one, 4, close=True)
    world.publish([second])
    merged = put_sealed(world.store, tmp_path, {one: (0, 3), two: (0, 2)}, pack=True)
    world.publish([merged], [first.made])
    world.store.delete(first.key())
    world.snapshot()
    world.create(bucket, "three")
    world.publish()
    return world


def run(place: Path, *words: str) -> int:
    return main(["catalogue", *words, "--object-store-folder", str(place)])


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# --- show -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("sealed")
def test_show_says_what_is_published(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(place, "show", "--json") == 0
    (found,) = lines(capsys)
    expected = {"generation": 4, "node": NODE, "fence": 1, "buckets": 1, "streams": 3, "producers": 1, "entries": 9}
    assert found | expected == found
    assert [(each["kind"], each["number"], each["entries"]) for each in found["objects"]] == [  # type: ignore[attr-defined]
        ("pack", 1, 5),
        ("segment", 1, 4),
    ]
    assert run(place, "show") == 0
    shown = capsys.readouterr().out
    assert re.search(r"^streams +3$", shown, re.MULTILINE)
    assert re.search(r"^segment +0 +1 +4 +\d+$", shown, re.MULTILINE)


@pytest.mark.usefixtures("sealed")
def test_show_lists_streams_as_of_any_generation(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(place, "show", "--json", "--streams", "orders/*") == 0
    assert [(each["name"], each["entries"], each["closed"]) for each in lines(capsys)] == [
        ("one", 7, 1), ("three", 0, 0), ("two", 2, 0),
    ]  # fmt: skip
    assert run(place, "show", "--json", "--streams", "*/one", "--generation", "1") == 0
    assert [(each["name"], each["entries"]) for each in lines(capsys)] == [("one", 3)]
    assert run(place, "show", "--streams", "nothing") == 0
    assert run(place, "show", "--generation", "9") == 1


def test_an_empty_place_has_no_catalogue(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(place, "show") == 1
    assert run(place, "verify") == 1
    assert capsys.readouterr().err.count("holds no catalogue") == 2
    assert main(["catalogue", "show", "--object-store", "tape"]) == 2


# --- verify ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("sealed")
@pytest.mark.parametrize("more", [[], ["--quick"]])
def test_all_is_well(place: Path, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(place, "verify", "--json", *more) == 0
    found = lines(capsys)
    assert {each["problem"] for each in found} == {""}
    what = [(each["what"], each["good"]) for each in found]
    expected = [("owner", 1), ("generation", 4), ("snapshot", 1), ("object", 2), ("index", 0), ("stream", 3)]
    assert what == (expected[:-1] if more else expected)
    assert run(place, "verify") == 0
    assert "holds everything that the catalogue names" in capsys.readouterr().err


def spoil(world: World, what: str, tmp_path: Path) -> None:  # noqa: C901 - a table of damages
    """One damage."""
    (segment,) = [each for each in world.objects.values() if each.stream]
    (pack,) = [each for each in world.objects.values() if not each.stream]
    match what:
        case "missing object":
            world.store.delete(segment.key())
        case "flipped bit":
            file = tmp_path / "objects" / pack.key()
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
        case "missing generation":
            world.store.delete(generation_key(Generation(2)))
        case "broken chain":
            other = world.chain.fetch(1)
            world.store.delete(generation_key(Generation(2)))
            world.store.put(generation_key(Generation(2)), other, write_id=WriteId("x"))
        case "damaged snapshot":
            world.store.delete(snapshot_key(Generation(3), 1))
        case "no owner":
            world.store.delete(OWNER)
        case "gap":
            world.waiting = [End(id=2, next_seq=5, ordinal=9, position=50, ts=9, schema_version=0)]
            world.publish([put_sealed(world.store, tmp_path, {2: (4, 5)}, pack=False)])
        case "overlap":
            world.publish([put_sealed(world.store, tmp_path, {2: (1, 2)}, pack=False)])
        case "beyond":
            world.publish([put_sealed(world.store, tmp_path, {2: (2, 6)}, pack=False)])
        case "short":
            world.waiting = [End(id=3, next_seq=2, ordinal=9, position=50, ts=9, schema_version=0)]
            world.publish()
        case "wrong count":
            facts = put_sealed(world.store, tmp_path, {9: (0, 5)}, pack=True)
            values = {name: getattr(facts, name) for name in facts.__struct_fields__}
            world.publish([facts_of(**(values | {"entries": 4}))])


@pytest.mark.parametrize(
    ("what", "kind", "problem"),
    [
        ("missing object", "object", "has no object `segments/"),
        ("flipped bit", "object", "is damaged"),
        ("missing generation", "generation", "generation 2 of the catalogue is missing"),
        ("broken chain", "generation", "generation 2 says that it is generation 1"),
        ("damaged snapshot", "snapshot", "snapshot 3, part 1 is missing"),
        ("no owner", "owner", "there is no owner record"),
        ("gap", "stream", "gap: entries 2 to 3"),
        ("overlap", "stream", "overlap: entries 1 to 1"),
        ("beyond", "stream", "beyond the end: entries 2 to 5"),
        ("short", "stream", "gap: entries 0 to 1"),
        ("wrong count", "object", "it has 5 entries, 4 were expected"),
    ],
)
def test_each_damage_is_named(
    sealed: World, place: Path, tmp_path: Path, what: str, kind: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(sealed, what, tmp_path)
    assert run(place, "verify", "--json") == 1
    found = lines(capsys)
    problems = [(each["what"], str(each["problem"])) for each in found if each.get("problem")]
    assert any(each == kind and problem in text for each, text in problems), problems
    assert "error" in found[-1]


def test_a_snapshot_that_was_cut_off_and_a_wrong_hint_are_no_damage(
    sealed: World, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sealed.store.put(snapshot_key(Generation(4), 0), b"half", write_id=WriteId("x"))
    sealed.store.put(LATEST, b"nonsense", write_id=WriteId("y"))
    assert run(place, "verify") == 0
    assert "4, cut off" in capsys.readouterr().out


# --- the page -------------------------------------------------------------------------------------------------------


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_duckdb_reads_the_bucket_as_the_page_says(sealed: World, place: Path) -> None:
    (code,) = blocks("sql")
    with duckdb.connect() as db:
        statements = code.replace("{bucket}", str(place)).split(";")[:-1]
        answers = [db.execute(statement).fetchall() for statement in statements]
    assert answers[1] == [("one", 7), ("three", 0), ("two", 2)]
    assert [made for made, _ in answers[2]] == sorted(sealed.objects)


@pytest.mark.usefixtures("sealed")
@pytest.mark.skipif(not (shutil.which("zstd") and shutil.which("jq")), reason="needs zstd and jq")
def test_zstd_and_jq_read_the_bucket_as_the_page_says(place: Path) -> None:
    (code,) = blocks("sh")
    done = subprocess.run(["/bin/sh", "-ec", code], env={"BUCKET": str(place), "PATH": "/usr/bin:/bin"},
                          capture_output=True, text=True, check=True)  # fmt: skip
    *first, one, three, two = done.stdout.splitlines()
    assert [json.loads(line)["t"] for line in first] == "header bucket stream stream object end end producer".split()
    assert (one, three, two) == ("one", "three", "two")
