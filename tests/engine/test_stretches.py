"""Which companions have what comes first."""

from hypothesis import given
from hypothesis import strategies as st

from search.engine.stretches import Ordered, Stretch

_Known = list[tuple[Stretch, list[int]]]  # companions, and the values in them


def companions() -> st.SearchStrategy[_Known]:
    def one(number: int, offsets: list[int], wide: int) -> tuple[Stretch, list[int]]:
        values = [10 * number + offset for offset in offsets]
        return Stretch([(100 * number, 100 * number + len(values))], min(values) - wide, max(values) + wide), values

    made = st.builds(one, st.integers(0, 9), st.lists(st.integers(0, 25), min_size=1, max_size=9), st.integers(0, 2))
    return st.lists(made, max_size=8, unique_by=lambda each: each[0].spans[0])


@given(known=companions(), wanted=st.integers(1, 40), descending=st.booleans())
def test_no_other_companion_has_anything_before_the_bound(known: _Known, wanted: int, *, descending: bool) -> None:
    first = Ordered([each for each, _ in known], descending=descending).foremost(wanted)
    if first is None:
        return
    inside = set(first.spans)
    others = [value for each, values in known if each.spans[0] not in inside for value in values]
    assert all(value <= first.bound if descending else value >= first.bound for value in others)
    total = sum(each.entries for each, _ in known)
    assert wanted / 4 <= first.entries <= total / 2
    assert first.entries == sum(end - begin for begin, end in first.spans)


def test_what_is_in_no_order_is_not_split() -> None:
    alike = [Stretch([(at, at + 10)], 0, 9) for at in range(0, 100, 10)]
    assert Ordered(alike, descending=True).foremost(10) is None
    assert Ordered(alike, descending=False).foremost(10) is None
    assert Ordered([], descending=True).foremost(10) is None


def test_the_newest_are_foremost() -> None:
    known = [Stretch([(at, at + 10)], at, at + 9) for at in range(0, 100, 10)]
    newest, oldest = (Ordered(known, descending=each).foremost(15) for each in (True, False))
    assert newest is not None
    assert oldest is not None
    assert (sorted(newest.spans), newest.bound) == ([(80, 90), (90, 100)], 79)
    assert (sorted(oldest.spans), oldest.bound) == ([(0, 10), (10, 20)], 20)


def test_integers_that_no_float_holds_the_difference_of_are_bounds() -> None:
    great = int(1.7e308)
    some = [Stretch([(at, at + 100)], -great, great) for at in range(0, 500, 100)]
    alike = [Stretch([(at, at + 100)], great, great) for at in range(0, 500, 100)]
    for known in (some, alike, [*some, *alike]):
        for descending in (True, False):
            Ordered(known, descending=descending).foremost(10)
    apart = [Stretch([(0, 100)], great, great), Stretch([(100, 400)], -great, -great)]
    found = Ordered(apart, descending=True).foremost(10)
    assert found is not None
    assert found.spans == [(0, 100)]
