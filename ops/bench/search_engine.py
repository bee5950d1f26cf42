"""Processor time of pages in one thread, without HTTP: the engine beside Tantivy alone, over one index.

What others do on the machine is not in it.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ops.bench.search_queries import SEARCH, Bare, declared, questions
from ops.bench.search_report import BARE_MS, BARE_TIMES, Line
from search.engine import Ask, Searcher, sort_of
from search.language import query
from streams_node.schema.search_config import parse

ROUNDS = 3


def lines(bare: Bare, kind: str, count: int, sample: Sequence[dict[str, Any]]) -> Iterator[Line]:
    """Of the first page of each kind of question, the median of the least of some rounds."""
    config = parse(declared(kind)["search"])
    searcher = Searcher([bare.view], config, 1)

    def page(asked: dict[str, Any]) -> Callable[[], object]:
        plan = query(asked["q"], config)
        keys = sort_of(asked.get("sort"), plan, config)
        ask = Ask(plan=plan, stream=1, spans=[(0, count)], sort=keys, records=lambda _: {}, size=asked["size"])
        return lambda: searcher.page(ask)

    for name, some in questions(kind, sample).items():
        if some[0].route != SEARCH:
            continue
        ours = statistics.median(_took(page(each.asked)) for each in some)
        alone = statistics.median(_took(lambda each=each: bare.ask(each._replace(pages=1))) for each in some)  # type: ignore[misc]
        met = ours <= BARE_TIMES * alone + BARE_MS / 1000
        said = f"p50 {1000 * ours:.2f} ms; Tantivy alone {1000 * alone:.2f} ms"
        yield Line(kind, count, f"processor time of a page, without HTTP: {name}", said, "2x and 3 ms", met)


def _took(work: Callable[[], object]) -> float:
    work()
    times = list[float]()
    for _ in range(ROUNDS):
        began = time.thread_time()
        work()
        times.append(time.thread_time() - began)
    return min(times)
