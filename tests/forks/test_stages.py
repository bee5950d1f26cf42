"""Streams and forks as plain lists, above a node that is killed once at every stage of sealing."""

import asyncio
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from streams_node.config import Settings
from tests.crash.tiers.bucket import Bucket
from tests.crash.tiers.points import WAYS
from tests.forks.dying import DyingNode
from tests.forks.lists import Lists

SEED = secrets.token_hex(4)
MOVES = ["append"] * 8 + ["fork"] * 6 + ["create"] * 3 + ["delete"] * 3 + ["look"] * 4
MOVES_MAX = 3000  # of one life
# A moment of each stage; tests/crash/tiers has all moments, without forks.
STAGES = [
    *("flush.built", "upload.between", "publish.put", "publish.inside"),
    *("release.inside", "compact.built", "collect.before", "collect.after"),
]
_REST_S = 60.0


@pytest.mark.parametrize("half", [0, 1])
def test_forks_are_lists_whenever_the_node_dies(half: int, tmp_path: Path) -> None:
    print(f"seed {SEED}")  # noqa: T201 - pytest shows it where a test fails
    random = Random(f"{SEED}/{half}")
    deaths = [WAYS[point].crash_at(point, random) for point in STAGES[half::2]]
    random.shuffle(deaths)
    node = DyingNode(tmp_path, deaths)
    lists = Lists(node, random)
    try:
        while node.deaths_left:
            one_life(node, lists)
        lists.check_all()
        lists.end_all()
        settings = Settings(data=node.data, no_auth=True, **node.settings)  # type: ignore[arg-type]
        asyncio.run(Bucket(settings).quiet(node.data / "streams.db", _REST_S))
        nothing_is_left(node.data / "streams.db")
    finally:
        node.end()


def one_life(node: DyingNode, lists: Lists) -> None:
    """Until it dies; a death is seen by whatever is asked for next."""
    at = node.deaths_left[0]
    for _ in range(MOVES_MAX):
        getattr(lists, lists.random.choice(MOVES))()
        if not node.deaths_left or node.deaths_left[0] != at:
            lists.check_all()
            return
    pytest.fail(f"the node did not die at {at}")


def nothing_is_left(database: Path) -> None:
    """No reference has leaked: with the last fork everything has gone that was kept for it."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as db:
        for table in ("streams", "heads", "epochs"):
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table  # noqa: S608 - of the list above
