"""How tight memory is, what is done about it, and what `auto_tune` makes of a machine."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_node.config import MiB, Settings, SettingsError, load_settings, setting_sources
from streams_node.config import load as loading
from streams_node.config.tuning import PRESETS_MB, _of_cgroups, available_bytes, tuned
from streams_node.errors import Overloaded
from streams_node.observe.process import Memory, memory
from streams_node.observe.vitals import STATES, State, Vitals, state_of
from streams_node.searching.turns import Turns
from streams_node.testing.inprocess import InProcess, in_process
from tests.indexing.world import on_loop
from tests.server.test_server import codes, told

LIMIT = 100
OPEN: dict[str, object] = {"no_auth": True}


def measured(rss: Callable[[], int]) -> Callable[[], Memory]:
    def measure() -> Memory:
        size = rss()
        return Memory("a test", size, size)

    return measure


@pytest.mark.parametrize(
    ("before", "share", "after"),
    [
        ("calm", 79, "calm"), ("calm", 80, "tight"), ("calm", 92, "critical"), ("tight", 91, "tight"),
        ("tight", 92, "critical"), ("tight", 72, "tight"), ("tight", 71, "calm"), ("critical", 86, "critical"),
        ("critical", 85, "tight"), ("critical", 71, "calm"),
    ],
)  # fmt: skip
def test_a_state_is_left_well_below_where_it_began(before: State, share: int, after: State) -> None:
    assert state_of(share, LIMIT, before) == after
    assert state_of(share, 0, before) == "calm"


@given(st.lists(st.integers(0, 120), min_size=1))
def test_more_memory_never_makes_it_calmer(sizes: list[int]) -> None:
    for before in STATES:
        found = [STATES.index(state_of(size, LIMIT, before)) for size in sorted(sizes)]
        assert found == sorted(found)


def test_each_change_is_told_once_and_the_highest_is_kept() -> None:
    sizes = iter([10, 85, 85, 95, 60, 50])
    now = iter(range(0, 60_000_000, 1_000_000))
    vitals = Vitals(LIMIT, lambda: next(now), lambda: 0.0, measured(lambda: next(sizes)))
    heard: list[State] = []
    vitals.listeners.append(heard.append)
    vitals._watch_clock = lambda *_: None  # type: ignore[method-assign] # not what this is about
    for _ in range(5):
        vitals.look()
    assert heard == ["tight", "critical", "calm"]
    assert vitals.changes == {"calm": 1, "tight": 1, "critical": 1}
    assert vitals.peaks["rss_bytes"].value == 95


@given(st.lists(st.tuples(st.integers(-(10**7), 10**7), st.floats(0.1, 5.0)), max_size=20))
def test_a_clock_that_was_moved_is_seen_and_one_that_goes_is_not(steps: list[tuple[int, float]]) -> None:
    wall_us, mono_s, jumps = 10**15, 0.0, 0
    vitals = Vitals(0, lambda: wall_us, lambda: mono_s, measured(lambda: 1))
    vitals.look()
    for by_us, seconds in steps:
        if abs(abs(by_us) - 1_000_000) < 1000:
            by_us = 0  # noqa: PLW2901 - on the border either is right
        mono_s += seconds
        wall_us += int(seconds * 1e6) + by_us
        jumps += abs(by_us) > 1_000_000
        vitals.look()
        assert vitals.jumps == jumps


def test_a_jump_is_shown_for_an_hour() -> None:
    wall_us, mono_s = 10**15, 0.0
    vitals = Vitals(0, lambda: wall_us, lambda: mono_s, measured(lambda: 1))
    vitals.look()
    wall_us -= 7_000_000
    vitals.look()
    assert vitals.jump is not None
    assert vitals.jump.by_us == -7_000_000
    mono_s += 3599
    wall_us += 3599_000_000
    assert vitals.jump is not None
    mono_s += 2
    assert vitals.jump is None


def test_this_process_has_memory() -> None:
    found = memory()
    assert 10 * MiB < found.rss <= found.rss_max
    held = bytearray(50 * MiB)
    assert memory().rss_max >= found.rss_max
    assert len(held) == 50 * MiB


@on_loop
async def test_under_pressure_searches_get_less_and_nothing_else(tmp_path: Path) -> None:
    limit = 1000 * MiB
    async with in_process(tmp_path, memory_limit_bytes=limit, disk_floor_bytes=0, search_concurrency=4) as node:
        context, rss = node.context, 100 * MiB
        context.vitals.measure = measured(lambda: rss)
        turns, whole = context.searches.turns, context.settings.search_scan_bytes_max

        async def shown() -> tuple[Any, ...]:
            context.vitals.look()
            body = await told(node)
            memory = body["runtime"]["memory"]
            gate = body["runtime"]["concurrency"]["search"]
            assert memory["pressure_active"] == (memory["state"] != "calm")
            assert (await told(node, "_mem"))["state"] == memory["state"]
            assert gate["configured_limit"] == 4
            return memory["state"], codes(body), gate["current_limit"], context.searches.scan_bytes

        assert await shown() == ("calm", [], 4, whole)
        rss = 850 * MiB
        assert await shown() == ("tight", ["memory_tight"], 2, whole // 4)
        rss = 950 * MiB
        assert await shown() == ("critical", ["memory_critical"], 1, whole // 16)
        async with turns.turn(1):
            with pytest.raises(Overloaded):
                async with turns.turn(2):
                    pass
        await served(node)
        rss = 300 * MiB
        assert await shown() == ("calm", [], 4, whole)
        assert context.aggregates._scan_bytes == context.aggregates.tallies.scan_bytes == whole
        assert turns.waiting_max == context.settings.search_queue_max


async def served(node: InProcess) -> None:
    json = {"content-type": "application/json"}
    assert (await node.request("PUT", "/v1/stream/a", json, b"[1]")).status == 201
    assert (await node.request("POST", "/v1/stream/a", json, b"[2]")).status == 204
    assert (await node.request("GET", "/v1/stream/a")).body == b"[1,2]"


@on_loop
async def test_bounds_of_turns_may_change_while_some_wait() -> None:
    turns, order = Turns(2, 10), list[int]()
    leave = [asyncio.Event() for _ in range(6)]

    async def one(at: int) -> None:
        async with turns.turn(at):
            order.append(at)
            await leave[at].wait()

    async def settle() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    tasks = [asyncio.ensure_future(one(at)) for at in range(6)]
    await settle()
    assert (order, turns.active, turns.waiting) == ([0, 1], 2, 4)
    turns.bound(1, 10)
    leave[0].set()
    await settle()
    assert (order, turns.active) == ([0, 1], 1)  # one left, and none came
    leave[1].set()
    await settle()
    assert (order, turns.active) == ([0, 1, 2], 1)
    tasks[3].cancel()
    turns.bound(3, 10)
    await settle()
    assert (order, turns.active, turns.waiting) == ([0, 1, 2, 4, 5], 3, 0)
    for each in leave:
        each.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert turns.active == 0


# --- presets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [*PRESETS_MB, 257, 3000, 10**6])
def test_every_preset_is_settings_that_go_together(size: int) -> None:
    found = tuned(str(size), 0)
    assert found.preset_mb == max(each for each in PRESETS_MB if each <= size)
    settings = Settings(data=Path("unused"), no_auth=True, **found.values)  # type: ignore[arg-type]
    held = (
        settings.sqlite_cache_bytes + settings.state_cache_bytes_max + settings.hot_tail_bytes_max
        + settings.decoded_bytes_max + settings.directory_bytes_max
        + settings.search_recent_bytes_max
    )  # fmt: skip
    assert held < settings.memory_limit_bytes * 0.45
    assert (settings.index_driver == "off") == (size < 2048)


@given(st.integers(0, 1 << 45))
def test_the_machine_decides_when_no_number_is_said(available: int) -> None:
    found = tuned("auto", available)
    assert found.requested_mb is None
    assert found.preset_mb == max((each for each in PRESETS_MB if each * MiB <= available), default=PRESETS_MB[0])


@pytest.mark.parametrize("text", ["255", "0", "-1", "", "much", "1e3", "1024MB", "²"])
def test_what_is_no_memory_is_refused(text: str) -> None:
    if text:  # an empty variable counts as not set
        with pytest.raises(SettingsError) as refused:
            load_settings(OPEN | {"auto_tune": text}, {})
        assert [(each.name, each.source) for each in refused.value.problems] == [("auto_tune", "--auto-tune")]
    with pytest.raises(ValueError):  # noqa: PT011 - it says the text itself, which may be blank
        tuned(text, 0)


def test_what_is_set_counts_more_than_a_preset() -> None:
    environ = {"STREAMS_AUTO_TUNE": "512", "STREAMS_READER_THREADS": "7"}
    settings, sources = load_settings(OPEN, environ), setting_sources(OPEN, environ)
    assert (settings.reader_threads, sources["reader_threads"]) == (7, "STREAMS_READER_THREADS")
    assert (settings.memory_limit_bytes, sources["memory_limit_bytes"]) == (512 * MiB, "auto_tune 512")
    assert (settings.index_driver, sources["index_driver"]) == ("off", "auto_tune 512")
    assert sources["port"] == "default"


def test_a_node_looks_at_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "available_bytes", lambda: 1200 * MiB)
    assert load_settings(OPEN | {"auto_tune": "auto"}, {}).memory_limit_bytes == 1024 * MiB
    assert 0 < available_bytes() < 1 << 50


@pytest.mark.parametrize(
    ("own", "files", "found"),
    [
        (
            "0::/app/one\n",
            {"memory.max": "max", "app/memory.max": "700000", "app/one/memory.max": "500000"},
            [500000, 700000],
        ),
        ("0::/\n", {"memory.max": "300000"}, [300000]),
        ("5:cpu,memory:/x\n4:cpu:/y\n", {"memory/x/memory.limit_in_bytes": "400000"}, [400000]),
        ("nonsense\n0::/a", {}, []),
    ],
)
def test_limits_of_containers_are_found(tmp_path: Path, own: str, files: dict[str, str], found: list[int]) -> None:
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert _of_cgroups(tmp_path / "own", tmp_path / "groups") == found
    assert _of_cgroups(tmp_path / "missing", tmp_path) == []


@on_loop
async def test_a_node_shows_what_was_tuned(tmp_path: Path) -> None:
    settings = load_settings(OPEN | {"auto_tune": "3000", "data": str(tmp_path)}, {})
    given = {name: getattr(settings, name) for name in settings.model_fields_set - {"data"}}
    async with in_process(tmp_path, **given) as node:
        body = await told(node)
        assert body["auto_tune"] == {
            "enabled": True, "requested_memory_mb": 3000, "preset_mb": 2048, "effective_memory_limit_mb": 2048,
        }  # fmt: skip
        assert body["configured_limits"]["memory"]["pressure_limit_bytes"] == 2048 * MiB
