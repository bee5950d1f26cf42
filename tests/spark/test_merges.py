"""Merges in a task that nobody foresaw to fail: no Spark is needed to see what is said of them."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from indexers.merge import merge as merge_of_runs
from indexers.messages import Build, IndexObject, Merge
from spark_index.driver import job
from spark_index.driver.tasks import Outcome, Task
from tests.spark.bucket import Bucket, entries
from tests.spark.work import MEANING, counted, keys_of, put, store_at


def done(bucket: Bucket, *work: Build | Merge) -> Outcome:
    task = Task(store=store_at(bucket), meanings=[MEANING], work=list(work))
    return msgspec.json.decode(job.run_task(msgspec.json.encode(task)), type=Outcome)


def test_a_merge_that_fails_names_its_inputs_and_the_others_go_on(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [{number: entries(0, 20)} for number in range(1, 5)]
    built: list[IndexObject] = [one for each in held for one in done(bucket, put(bucket, each)).objects]

    def fails(order: Merge, *others: Any) -> Any:
        if order.inputs == built[:2]:
            raise ValueError("nobody foresaw this")
        return merge_of_runs(order, *others)

    monkeypatch.setattr(job, "merge", fails)
    orders = [Merge(family="lexicon", level=1, inputs=part) for part in (built[:2], built[2:])]
    outcome = done(bucket, *orders)
    assert [(each.made, each.reason) for each in outcome.failed] == [
        (each.made, "nobody foresaw this") for each in built[:2]
    ]
    assert outcome.merged == [[outcome.objects[0].made, *(each.made for each in built[2:])]]
    assert keys_of(bucket.store, outcome.objects, tmp_path) == counted(*held[2:])
