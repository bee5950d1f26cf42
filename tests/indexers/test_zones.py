"""The bounds of blocks hold what is in them, however a companion came about."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from indexers.companion import Directory, Layout, Pack, Writer, merge, zones
from indexers.companion.zones import cut, number
from indexers.messages import Cover
from search.language import values
from tests.indexers.test_companion import CONFIG, cover, table

BITS = 3
FIELDS = ("at", "n", "f")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("BLOCK_BITS", BITS), ("ENTRIES_MIN", 10), ("_RUN_MIN", 1)):
        monkeypatch.setattr(zones, name, value)


def record(draw: random.Random) -> dict[str, Any]:
    found = {
        "at": draw.choice([draw.randrange(10**12), f"2026-01-{draw.randint(1, 28):02}T00:00:00.123456789Z", None]),
        "n": draw.choice([draw.randint(-9, 9), [draw.randint(0, 99), 5], 2**70, -(10**300), "no"]),
        "f": draw.choice([draw.random() * 10.0 ** draw.randint(-9, 9), [1.5, -2], 1e308, None]),
    }
    return {name: value for name, value in found.items() if value is not None and draw.random() < 0.7}


def built(folder: Path, some: Mapping[int, Sequence[tuple[int, Any]]], draw: random.Random) -> Pack:
    """Of streams, their sequences and records; in batches of any size."""
    writer, covers = Writer("c", Layout(CONFIG.fields), folder / "writer"), list[Cover]()
    for stream, entries in some.items():
        at = 0
        while at < len(entries):
            part = entries[at : at + draw.randint(1, 20)]
            at += len(part)
            seqs = [seq for seq, _ in part]
            writer.add([stream] * len(part), seqs, [0] * len(part), table([each for _, each in part]))
        covers.append(cover(entries[0][0], len(entries), stream=stream))
    writer.finish(folder / "pack", ["o"], covers)
    return Pack(folder / "pack")


def check(directory: Directory, held: dict[int, dict[int, Any]], least: set[int]) -> None:
    """`held`: the records by stream and sequence; streams of `least` must have zones."""
    assert {zone.stream for zone in directory.zones} >= least
    keys = [(zone.stream, zone.block) for zone in directory.zones]
    assert keys == sorted(set(keys))
    for stream in {zone.stream for zone in directory.zones}:
        known = {zone.block: zone for zone in directory.zones if zone.stream == stream}
        for seq, one in held[stream].items():
            zone = known[seq >> BITS]  # each block has one
            for name in FIELDS:
                for value in values(CONFIG.fields[name], 1)(one):
                    low, high = zone.bounds[name]
                    assert number(low) <= value <= number(high)  # type: ignore[operator]


@pytest.mark.parametrize("seed", range(20))
def test_bounds_hold_all_values_also_after_merges(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    packs, kept, held, at = list[Pack](), list[list[Cover]](), dict[int, dict[int, Any]](), dict[int, int]()
    for number_ in range(draw.randint(2, 4)):
        some = {}
        for stream in range(1, draw.randint(2, 4)):
            first, count = at.get(stream, draw.randrange(20)), draw.choice([3, 20, 60])
            some[stream] = [(seq, record(draw)) for seq in range(first, first + count)]
            at[stream] = first + count
        (tmp_path / str(number_)).mkdir()
        packs.append(built(tmp_path / str(number_), some, draw))
        large = {stream for stream, entries in some.items() if len(entries) >= 10}
        check(packs[-1].directory, {stream: dict(entries) for stream, entries in some.items()}, large)
        living = list[Cover]()
        for each in packs[-1].directory.covers:
            gone = draw.choice([0, 0, 2])
            living.append(msgspec.structs.replace(each, first_seq=each.first_seq + gone, entries=each.entries - gone))
            known = held.setdefault(each.stream, {})
            known.update((seq, one) for seq, one in some[each.stream] if seq >= each.first_seq + gone)
        kept.append(living)
    merge(packs, kept, tmp_path / "parts", tmp_path / "whole")
    check(Pack(tmp_path / "whole").directory, held, {stream for stream, some in held.items() if len(some) >= 10})


def test_bounds_are_no_wider_than_needed(tmp_path: Path) -> None:
    entries = [(seq, {"n": seq, "f": seq / 2}) for seq in range(4, 40)]
    found = built(tmp_path, {1: entries}, random.Random(1)).directory.zones
    assert [(zone.block, zone.entries) for zone in found] == [(0, 4), (1, 8), (2, 8), (3, 8), (4, 8)]
    assert [zone.bounds["n"] for zone in found] == [
        ("4", "7"), ("8", "15"), ("16", "23"), ("24", "31"), ("32", "39")
    ]  # fmt: skip
    assert found[0].bounds["f"] == ("2.0", "3.5")
    assert "at" not in found[0].bounds


def test_of_many_small_streams_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zones, "_RUN_MIN", 16)
    monkeypatch.setattr(zones, "_PIECE_MIN", 4)
    monkeypatch.setattr(zones, "ENTRIES_MIN", 4)
    writer = Writer("c", Layout(CONFIG.fields), tmp_path / "writer")
    streams = [stream for stream in range(50) for _ in range(2)]
    writer.add(streams, [0, 1] * 50, [0] * 100, table([{"n": 1}] * 100))
    writer.add([50] * 40, range(40), [0] * 40, table([{"n": 1}] * 40))
    writer.add([50] * 24 + streams, [*range(40, 64), *[2, 3] * 50], [0] * 124, table([{"n": 1}] * 124))
    covers = [*(cover(0, 4, stream=stream) for stream in range(50)), cover(0, 64, stream=50)]
    writer.finish(tmp_path / "pack", ["o"], covers)
    assert {zone.stream for zone in Pack(tmp_path / "pack").directory.zones} == {50}


def test_spans_are_cut_where_blocks_end() -> None:
    assert list(cut([(0, 8), (9, 9), (15, 25)])) == [(0, (0, 8)), (1, (15, 16)), (2, (16, 24)), (3, (24, 25))]
