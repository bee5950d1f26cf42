"""The plan against a model: nothing is lost, doubled or torn apart, and objects stay few."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_node.compactor.jobs import Limits
from tests.compaction.world import World

KiB = 1024
SMALL = Limits(
    packs=4,
    own_segment_bytes=64,
    segment_bytes=256,
    segment_entries=100,
    pack_bytes=512,
    job_bytes=1024,
    dead_us_max=100,
    run_bytes=0,
    entry_bytes=0,
)
histories = st.lists(
    st.one_of(
        st.tuples(
            st.just("flush"),
            st.dictionaries(st.integers(1, 40), st.tuples(st.integers(1, 4), st.integers(4, 100)), max_size=12),
        ),
        st.tuples(st.just("delete"), st.integers(0, 100)),
        st.tuples(st.just("block"), st.integers(0, 100)),
        st.tuples(st.just("wait"), st.integers(0, 60)),
        st.tuples(st.just("step"), st.integers(0, 4)),
    ),
    max_size=60,
)


@settings(deadline=None, max_examples=300)
@given(histories, st.integers(0, 3))
def test_every_living_entry_is_in_one_object_after_every_job(history: list[tuple[str, object]], seed: int) -> None:
    world = World(SMALL, seed)
    lives: Counter[int] = Counter()  # an incarnation's number is never used twice
    for what, value in history:
        match what, value:
            case "flush", dict():
                world.flush({name + 50 * lives[name]: size for name, size in value.items()})
            case "delete", int() if world.next_seq:
                gone = sorted(world.next_seq)[value % len(world.next_seq)]
                lives[gone % 50] += 1
                world.delete(gone)
            case "block", int() if world.live:
                world.blocked ^= {list(world.live)[value % len(world.live)]}
            case "wait", int():
                world.now_us += value
            case "step", int():
                for _ in range(value):
                    world.step()
        world.check()
    world.blocked = set()
    world.settle()
    world.now_us += SMALL.dead_us_max
    world.settle()
    world.check()
    dead = [run for _, runs in world.live.values() for run in runs if run.stream not in world.next_seq]
    assert dead == []


@settings(deadline=None, max_examples=5)
@given(st.integers(0, 10_000), st.sampled_from([1, 5, 40, 400]))
def test_objects_stay_few_however_much_is_appended(seed: int, streams: int) -> None:
    world = World(SMALL, seed)
    for _ in range(200):
        chosen = world.random.sample(range(1, streams + 1), k=world.random.randint(1, streams))
        world.flush({stream: (1, world.random.randint(1, 12)) for stream in chosen})
        world.settle()
    world.check()
    depth = math.log2(200) + 1  # pairs, when packs are full
    full = world.flushed / SMALL.pack_bytes
    segments = sum(facts.stream is not None for facts, _ in world.live.values())
    assert len(world.packs) <= SMALL.packs * depth + 8 * full
    assert segments <= 4 * world.flushed / SMALL.own_segment_bytes
    assert max(world.objects_of(stream) for stream in world.next_seq) <= SMALL.packs * depth + world.flushed / (
        SMALL.segment_bytes / 4
    )


def test_no_job_is_larger_than_the_limit_but_for_a_pair() -> None:
    world = World(SMALL, 1)
    for size in (1, 3, 9, 30, 60, 2, 50, 50, 50, 1, 1, 1, 1, 1):
        for _ in range(6):
            world.flush(dict.fromkeys(range(1, 41), (1, size)))
            world.settle()
    world.check()
    pack = 40 * 60  # what one flush may have
    assert world.largest_job <= max(2 * SMALL.job_bytes, 2 * pack)


def test_a_blocked_pack_does_not_stop_its_neighbours() -> None:
    world = World(SMALL, 2)
    for at in range(40):
        world.flush(dict.fromkeys(range(1, 6), (1, 1)))
        if at == 5:
            world.blocked = set(list(world.live)[-1:])
        world.settle()
        world.check()
    blocked = next(iter(world.blocked))
    assert blocked in world.live
    assert len(world.live) <= 3 * SMALL.packs
    world.blocked = set()
    world.settle()
    world.check()
    for _ in range(60):
        world.flush(dict.fromkeys(range(1, 6), (1, 1)))
        world.settle()
    assert blocked not in world.live, "it is merged with its neighbours once it can be"
    world.check()


def test_streams_that_live_for_a_moment_are_rewritten_about_once() -> None:
    """Each flush has streams of its own: merging them again would help no reader."""
    world = World(SMALL, 3)
    for at in range(100):
        world.flush({1000 * at + stream: (1, 10) for stream in range(30)})
        world.settle()
    world.check()
    assert world.rewritten <= 2.5 * world.flushed
    assert max(world.objects_of(stream) for stream in world.next_seq) == 1


def test_a_stream_that_bursts_now_and_then_does_not_tear_packs_apart() -> None:
    world = World(SMALL, 4)
    for at in range(120):
        bursting = at % 30
        world.flush({stream: (2, 100 if stream == bursting else 2) for stream in range(30)})
        world.settle()
    world.check()
    bursts = sum(1 for at in range(120))
    assert len(world.live) <= 3 * bursts
    assert sum(facts.stream is None for facts, _ in world.live.values()) <= 5 * SMALL.packs


def test_many_bursting_streams_share_a_pack_for_what_came_before() -> None:
    world = World(SMALL, 5)
    every = range(1, 101)
    world.flush(dict.fromkeys(every, (1, 2)))
    world.flush(dict.fromkeys(every, (1, 64)))
    world.flush(dict.fromkeys(every, (1, 2)))
    world.flush(dict.fromkeys(every, (1, 2)))
    before = world.puts
    world.settle()
    world.check()
    assert world.puts - before <= 8, "not a small segment for each of a hundred streams"


def test_small_segments_become_full_ones() -> None:
    world = World(SMALL, 6)
    for _ in range(100):
        world.flush({7: (1, 64)})
        world.settle()
    world.check()
    assert len(world.live) <= 100 * 64 / (SMALL.segment_bytes / 2) + SMALL.packs
    assert world.rewritten <= 3 * world.flushed


def test_what_is_wholly_dead_is_dropped_without_a_read() -> None:
    world = World(SMALL, 7)
    world.flush({1: (1, 100), 2: (1, 3), 3: (1, 3)})
    for stream in (1, 2, 3):
        world.delete(stream)
    job = world.step()
    assert job is not None
    assert job.kind == "drop"
    assert world.live == {}


@pytest.mark.parametrize(
    ("deleted", "waited", "cleaned"), [(4, 0, False), (5, 0, True), (1, 99, False), (1, 100, True)]
)
def test_dead_entries_leave_when_half_is_dead_or_after_the_time(deleted: int, waited: int, *, cleaned: bool) -> None:
    world = World(SMALL, 8)
    world.flush(dict.fromkeys(range(10), (1, 3)))
    for stream in range(deleted):
        world.delete(stream)
    world.backlog()  # seen to be dead
    world.now_us += waited
    job = world.step()
    assert (job is not None and job.kind == "clean") == cleaned
    world.check()


def test_kinds_of_work_take_turns() -> None:
    world = World(SMALL, 9)
    for _ in range(40):
        world.flush({1: (1, 64), **dict.fromkeys(range(2, 30), (1, 3))})
    for stream in range(2, 20):
        world.delete(stream)
    kinds = {job.kind for _ in range(3) if (job := world.step())}
    assert kinds == {"merge", "segments", "clean"}
