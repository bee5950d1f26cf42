"""Pages out of the log against plain lists: whole entries, at least one, within the bound, of the right stream."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sql
from streams_node.wal.graves import free_some
from streams_node.wal.tails import ROWS_MAX, LogEnd, NotInLog, Slice, read_slice
from tests.stage.interleaved import Interleaved, joined, long_history

steady = settings(deadline=None)
many = settings(deadline=None, max_examples=400)
ROW_MAX = 24
kinds = st.sampled_from(["application/json", "text/plain", "image/png"])
# Around the bound of a row, several times as large, and tiny.
sizes = st.one_of(st.integers(1, 4), st.integers(ROW_MAX - 2, ROW_MAX + 2), st.integers(1, ROW_MAX * 6))
appends = st.lists(st.tuples(st.integers(0, 2), st.lists(sizes, min_size=1, max_size=6)), min_size=1, max_size=40)
bounds = st.one_of(st.integers(1, 8), st.integers(1, 200), st.just(10**6))


@pytest.fixture(scope="module")
def history() -> Interleaved:
    log = long_history(seed=11)
    assert min(log.row_count(0), log.row_count(1)) > 2 * 1024, "the chains must have anchors of two levels"
    return log


def read(log: Interleaved, which: int, end: LogEnd, start: int, bytes_max: int, *, raw: bool) -> Slice:
    state = log.streams[which]
    return read_slice(log.db, state.id, end, start, bytes_max, is_json=state.is_json, raw=raw)


def check(log: Interleaved, which: int, end: LogEnd, start: int, bytes_max: int, *, raw: bool) -> Slice:
    """One page against the list."""
    page = read(log, which, end, start, bytes_max, raw=raw)
    shown = log.entries[which][start : page.end]
    assert page.start == start < page.end <= end.seq
    assert page.payload == joined(shown, is_json=log.streams[which].is_json, raw=raw)
    assert len(page.payload) <= bytes_max or len(shown) == 1
    return page


@st.composite
def logs(draw: st.DrawFn) -> Interleaved:
    log = Interleaved(draw(st.tuples(kinds, kinds, kinds)), ROW_MAX)
    for which, entry_sizes in draw(appends):
        log.append(which, entry_sizes)
        if draw(st.booleans()):
            log.commit()
    log.commit()
    return log


@many
@given(logs(), st.data())
def test_a_page_is_whole_entries_of_its_stream_from_the_start_on(log: Interleaved, data: st.DataObject) -> None:
    which = data.draw(st.sampled_from([at for at, entries in enumerate(log.entries) if entries]))
    end = data.draw(st.sampled_from(log.ends[which]))
    start = data.draw(st.integers(0, end.seq - 1))
    check(log, which, end, start, data.draw(bounds), raw=data.draw(st.booleans()))


@many
@given(st.integers(0, 3), bounds, st.data())
def test_a_page_out_of_a_long_history(history: Interleaved, which: int, bytes_max: int, data: st.DataObject) -> None:
    end = data.draw(st.sampled_from(history.ends[which]))
    start = data.draw(st.integers(0, end.seq - 1))
    check(history, which, end, start, bytes_max, raw=data.draw(st.booleans()))


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("bytes_max", [1, 90, 1000])
def test_page_after_page_is_the_whole_stream_once(history: Interleaved, which: int, bytes_max: int) -> None:
    end, start, pages = history.ends[which][-1], 0, []
    while start < end.seq:
        page = check(history, which, end, start, bytes_max, raw=False)
        pages.append(page.payload)
        start = page.end
    is_json = history.streams[which].is_json
    assert joined(pages, is_json=is_json, raw=False) == joined(history.entries[which], is_json=is_json, raw=False)


@steady
@given(st.integers(0, 3), st.data())
def test_a_generous_bound_shows_everything_within_the_rows_of_a_page(
    history: Interleaved, which: int, data: st.DataObject
) -> None:
    end = data.draw(st.sampled_from(history.ends[which]))
    start = data.draw(st.integers(0, end.seq - 1))
    shown = read(history, which, end, start, 10**9, raw=False).end
    assert shown == end.seq or shown >= start + ROWS_MAX // 2  # an entry of these takes at most two rows


@steady
@given(st.integers(0, 3), st.data(), st.integers(1, 400))
def test_a_page_that_begins_with_a_row_is_as_full_as_it_can_be(
    history: Interleaved, which: int, data: st.DataObject, bytes_max: int
) -> None:
    """A page from within a row may end with that row; one from a row's start leaves out only what does not fit."""
    ends = history.ends[which]
    start = data.draw(st.sampled_from(ends)).seq
    if start == ends[-1].seq:
        return
    page = check(history, which, ends[-1], start, bytes_max, raw=False)
    if page.end < ends[-1].seq:
        following = history.entries[which][page.end]
        comma = history.streams[which].is_json
        assert len(page.payload) + comma + len(following) > bytes_max


@pytest.fixture
def dying() -> Iterator[Interleaved]:
    log = long_history(seed=12)
    log.db.execute(sql.queries("streams").set_heads_through, (log.recorder.next_row - 1,))  # so all of it may be freed
    yield log
    log.db.close()


def test_a_stream_that_is_being_freed_is_read_right_or_not_at_all(dying: Interleaved) -> None:
    streams = sql.queries("streams")
    dying.db.execute(streams.dig_grave, (dying.streams[1].id, dying.streams[1].last_row))
    end, moved, whole = dying.ends[1][-1], 0, 0
    older = dying.ends[1][len(dying.ends[1]) // 3]
    while free_some(dying.db, 200):
        for start in range(0, older.seq, 97):
            for until in (end, older):
                try:
                    check(dying, 1, until, start, 300, raw=False)
                    whole += 1
                except NotInLog:
                    moved += 1
    assert moved > 100
    assert whole > 10
    for which in (0, 2, 3):  # the neighbours are what they were
        check(dying, which, dying.ends[which][-1], 0, 10**9, raw=False)


def test_freeing_takes_every_row_of_the_dead_stream_and_no_other(dying: Interleaved) -> None:
    streams, log = sql.queries("streams"), sql.queries("log")
    before = dying.db.execute(log.log_size).fetchone()[0]
    for which in (0, 3):
        dying.db.execute(streams.dig_grave, (dying.streams[which].id, dying.streams[which].last_row))
    for _ in range(1000):
        if not free_some(dying.db, 64):
            break
    assert dying.db.execute(log.log_size).fetchone()[0] == before - dying.row_count(0) - dying.row_count(3)
    assert dying.db.execute(streams.next_graves, (10,)).fetchall() == []
    for which in (1, 2):
        check(dying, which, dying.ends[which][-1], 0, 10**9, raw=True)
