"""Random lives of streams and forks, over all tiers, restarts, lost folders and tiny caches, against plain lists."""

import os
import sqlite3
from contextlib import closing
from random import Random

import pytest

from streams_node.ingest.remove import end_streams
from streams_node.wal.folder import DATABASE
from tests.forks.lists import Lists
from tests.tiers.bucket import memory_bucket
from tests.tiers.driver import TieredDriver

LIVES = int(os.environ.get("STREAMS_FORKS_LIVES", "6"))
STEPS = int(os.environ.get("STREAMS_FORKS_STEPS", "120"))
MOVES = ["append"] * 8 + ["fork"] * 6 + ["create"] * 3 + ["delete"] * 3 + ["look"] * 6
MOVES += ["trim", "trim", "run", "run", "evict", "restart", "crash", "flush"]


@pytest.mark.parametrize("seed", range(LIVES))
def test_forks_are_lists_that_begin_alike(seed: int) -> None:
    random = Random(seed)
    driver = TieredDriver(
        memory_bucket(), tiny_cache=seed % 2 == 0, heads_flush_rows=random.choice([1, 3, 20_000]),
        commit_rows_max=random.choice([1, 4, 512]),
    )  # fmt: skip
    lists = Lists(driver, random)
    try:
        for _ in range(STEPS):
            move(driver, lists, random.choice(MOVES))
        lists.check_all()
        driver.publish_all()
        driver.merge_all()
        driver.verify()
        lists.check_all()
        driver.start_from_bucket()
        lists.check_all()
        everything_ends(driver, lists)
    finally:
        driver.end()


def move(driver: TieredDriver, lists: Lists, what: str) -> None:
    match what:
        case "run":
            driver.demand()
            driver.let_run(0.05)
        case "evict":
            driver.evict()
        case "restart":
            driver.restart()
        case "crash":
            driver.crash()
        case "flush":
            driver.publish_all()
        case "trim":
            if (trimmed := lists.trim()) is not None:
                driver.trim(trimmed.name, trimmed.earliest)
        case _:
            getattr(lists, what)()


def everything_ends(driver: TieredDriver, lists: Lists) -> None:
    """In any order; nothing is kept for anybody in the end, in the log, in the tables or in the bucket's catalogue."""
    lists.end_all()
    driver.run(end_streams(driver.node.context.ledger, 100))
    driver.publish_all()
    with closing(sqlite3.connect(driver._folder / DATABASE)) as db:
        for table in ("streams", "heads", "epochs", "producers"):
            count = db.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - of the list above
            assert count == (0,), table
        assert db.execute("SELECT count(*) FROM buckets WHERE streams <> 0").fetchone() == (0,)
