"""Pages that are looked for on the loop and in threads: which it is, a coin tells, and no time."""

from random import Random

import pytest

from streams_node.searching.short import Short


@pytest.fixture(autouse=True)
def both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    coin = Random(1)
    monkeypatch.setattr(Short, "knows", lambda *_: True)
    monkeypatch.setattr("streams_node.searching.paged.GIVEN_UP_S", 10.0)
    monkeypatch.setattr(Short, "is_short", lambda *_: coin.random() < 0.5)
