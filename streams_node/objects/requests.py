"""Single requests, counted: what each one cost, and on whose account."""

import time
from collections.abc import Callable
from typing import TypeVar

from streams_node.errors import ObjectMissing, PreconditionFailed, StoreError
from streams_node.objects.counts import Owner, RequestCounts, Row, Tally
from streams_node.objects.keys import Key, KeyPrefix, artifact_of
from streams_node.objects.protocol import Data, ETag, Fetched, ObjectStore, Page, Stored, WriteId

_Answer = TypeVar("_Answer")


class CountedRequests:
    """An object store, with an account to each request."""

    def __init__(self, store: ObjectStore, counts: RequestCounts) -> None:
        self.store = store
        self.counts = counts

    def put(self, owner: Owner, key: Key, data: Data, write_id: WriteId, if_match: ETag | None) -> Stored:
        row = Row(owner, artifact_of(key), "put")
        return self._counted(
            row, lambda: self.store.put(key, data, write_id=write_id, if_match=if_match), lambda stored: stored.size
        )

    def get(self, owner: Owner, key: Key, start: int, end: int | None) -> Fetched:
        row = Row(owner, artifact_of(key), "get")
        return self._counted(row, lambda: self.store.get(key, start, end), lambda fetched: len(fetched.data))

    def head(self, owner: Owner, key: Key) -> Stored | None:
        return self._counted(Row(owner, artifact_of(key), "head"), lambda: self.store.head(key))

    def delete(self, owner: Owner, key: Key) -> None:
        self._counted(Row(owner, artifact_of(key), "delete"), lambda: self.store.delete(key))

    def list(self, owner: Owner, prefix: KeyPrefix, after: Key | None, limit: int) -> Page:
        return self._counted(Row(owner, artifact_of(prefix), "list"), lambda: self.store.list(prefix, after, limit))

    def _counted(
        self, row: Row, ask: Callable[[], _Answer], size_of: Callable[[_Answer], int] = lambda _: 0
    ) -> _Answer:
        tally = Tally(requests=1)
        begun = time.perf_counter()
        try:
            answer = ask()
        except (ObjectMissing, PreconditionFailed):
            raise
        except StoreError:
            tally.failures = 1
            raise
        else:
            tally.size = size_of(answer)
            return answer
        finally:
            tally.seconds = time.perf_counter() - begun
            self.counts.add(row, tally)
