"""Searches are measured in turns, and judged by the medians of them; what was no whole answer is not compared."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from ops.bench.search_cells import WARM, Cell, Side, Taken, cell, in_turns
from ops.bench.search_queries import Question
from ops.bench.search_report import Report, Verdict

HERE, ELSEWHERE = "day; a machine; more", "day; another machine; more"
TITLES = {"ours": "Streams Node", "tantivy": "Tantivy alone", "prisma": "peer, as it comes"}


def measured(side: str, *p50s_ms: float, clients: int = 1, failed: int = 0) -> Cell:
    turns = [[each / 1000] * 3 for each in p50s_ms]
    return cell(("log", 10, side), "phrase", WARM, clients, turns, failed, {})


def judged(*cells: Cell, elsewhere: str = "") -> list[Verdict]:
    stamps = {f"10 log, {title}": ELSEWHERE if side == elsewhere else HERE for side, title in TITLES.items()}
    report = Report(cells, (), stamps)
    return [each for one in cells for each in report.verdicts(one)]


def test_the_median_of_turns_is_judged_and_single_turns_are_counted() -> None:
    ours = measured("ours", 4.0, 6.0, 4.5)
    [verdict] = judged(ours, measured("tantivy", 1.0, 1.0, 0.5))
    assert (ours.p50_ms, verdict.bound_ms, verdict.met, verdict.beyond) == (4.5, 5.0, True, 2)
    assert verdict.turns == pytest.approx([4 / 5, 6 / 5, 4.5 / 4])
    page = "\n".join(Report([ours, measured("tantivy", 1.0, 1.0, 0.5)], (), {}).page())
    assert "Missed" not in page
    assert "Reached by the median, but not in every turn" in page
    assert "| 10 log | phrase | 1 | 4.50 | 5.00 | 80% 120% 112% |" in page


def test_what_was_missed_is_on_the_page() -> None:
    cells = [measured("ours", 5.1, 6.0, 5.2), measured("tantivy", 1.0, 1.0, 1.0)]
    page = "\n".join(Report(cells, (), {f"10 log, {title}": HERE for title in TITLES.values()}).page())
    assert "| p50 within 2x of Tantivy alone and 3 ms; clients: 1 | 1 | 0 | 3 of 3 |" in page
    assert "| 10 log | phrase | 1 | 5.20 | 5.00 | 102% 120% 104% |" in page


@pytest.mark.parametrize(("clients", "at_most"), [(1, 6.0), (8, 3.0)])
def test_a_slow_peer_is_to_be_beaten_by_far(clients: int, at_most: float) -> None:
    ours = measured("ours", 4.0, 4.0, 4.0, clients=clients)
    [verdict] = judged(ours, measured("prisma", 30.0, clients=clients))
    assert (verdict.bound_ms, verdict.met, verdict.beyond) == (at_most, clients == 1, 3 * (clients == 8))
    [quick] = judged(ours, measured("prisma", 19.0, 3.0, 19.0, clients=clients))
    assert (quick.bound_ms, quick.met, quick.beyond) == (19.0, True, 1)


def test_no_whole_answer_or_another_machine_is_not_compared() -> None:
    ours = measured("ours", 4.0)
    assert not judged(ours, measured("prisma", 30.0, failed=3))
    assert len(judged(ours, measured("prisma", 30.0, failed=2))) == 1
    assert not judged(ours, measured("prisma", 30.0), elsewhere="prisma")


def test_sides_are_asked_in_turns_and_one_that_is_far_behind_only_once() -> None:
    asked, awake = list[tuple[str, int]](), list[str]()

    def side(name: str, seconds: float, kinds: Sequence[str]) -> Side:
        @contextmanager
        def alone() -> Iterator[None]:
            assert not awake
            awake.append(name)
            yield
            awake.clear()

        def ask(taken: Taken, clients: int) -> None:
            assert awake == [name]
            asked.append((name, clients))
            taken.note(0, seconds, ["a"])

        return Side(name, {kind: [Question({}, ordered=True)] for kind in kinds}, ask, alone)

    sides = [side("quick", 0.001, ["one", "two"]), side("far", 0.3, ["one"])]
    cells = list(in_turns("log", 10, sides, turns=3, rounds=1, seconds=1))
    turns = [("quick", 1), ("far", 1), ("quick", 1), ("quick", 1), ("quick", 8), ("far", 8), ("quick", 8), ("quick", 8)]
    assert asked == [*turns, *[("quick", 1)] * 3, *[("quick", 8)] * 3]
    found = {(each.side, each.query, each.clients): (each.asked, list(each.p50s_ms)) for each in cells}
    assert found[("far", "one", 8)] == (1, [300.0])
    assert found[("quick", "two", 1)] == (3, [1.0] * 3)
    assert {len(each.same) for each in cells} == {1}
