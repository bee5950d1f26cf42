"""Which streams of a bucket a pattern means."""

from collections.abc import Callable
from typing import NamedTuple

from streams_node.errors import Missing
from streams_node.http.bucket_search_request import STREAMS_MAX, Pattern
from streams_node.http.context import Context

_PAGE = 1000
_LOOKED_MAX = 20_000  # ids; about 60 ms


class Listed(NamedTuple):
    """The first ids that match, and how many more there are; `whole` when all ids were looked at."""

    names: list[str]
    left_out: int
    whole: bool


async def streams_of(context: Context, bucket: str, pattern: Pattern, late: Callable[[], bool]) -> Listed:
    """In byte order. Missing when there is no such bucket."""
    found = await context.ledger.buckets.stored(bucket)
    if found is None or not found.alive:
        raise Missing(f"bucket `{bucket}` does not exist")
    names: list[str] = []
    after, looked, now_us = "", 0, context.ledger.now_us()
    while looked < _LOOKED_MAX and not (late() and looked):
        page = await context.database.list_bucket(found.id, pattern.prefix, after, _PAGE, now_us)
        names += [entry.name for entry in page if pattern.matches(entry.name)]
        looked += len(page)
        if len(page) < _PAGE:
            return Listed(names[:STREAMS_MAX], max(0, len(names) - STREAMS_MAX), whole=True)
        after = page[-1].name
    return Listed(names[:STREAMS_MAX], max(0, len(names) - STREAMS_MAX), whole=False)
