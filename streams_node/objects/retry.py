"""The one retry layer, and what every caller holds: retried, verified and counted requests.

Owns     when a request is sent again, and what is believed of an answer.
Keeps    bounded: so many attempts, so much time, and each attempt ends by itself; waits grow, with jitter.
         A put is one intention with a write id. When its answer is lost, or the store says that something is there,
         the object's write id decides: ours means done, another one means PreconditionFailed. So a put may be repeated
         after a restart, too: with the same write id and the same bytes it succeeds once and for all.
         Bytes are checked before they are handed on: their number always, their SHA-256 for a whole object.
         Damage is asked for again, as it mostly happens on the way; then it is StoreCorrupt.
Dies     between a put and its answer: the object may be there; the same put, repeated, finds out.
"""

import contextlib
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import stamina
from stamina.instrumentation import set_on_retry_hooks

from streams_node.errors import PreconditionFailed, StoreCorrupt, StoreError, StoreUnavailable, invariant
from streams_node.objects import payload
from streams_node.objects.counts import Owner, RequestCounts
from streams_node.objects.keys import Key, KeyPrefix, is_key
from streams_node.objects.protocol import (
    LIST_KEYS_MAX,
    Checksum,
    Data,
    ETag,
    Fetched,
    ObjectStore,
    Page,
    Stored,
    WriteId,
)
from streams_node.objects.requests import CountedRequests

# The library would log each retry and count it in the process's default registry. Ours are in `RequestCounts`, and a
# failure is logged where it is handled.
set_on_retry_hooks(())

_Answer = TypeVar("_Answer")


class RetryPolicy(NamedTuple):
    """Waits are `wait_ms`, doubling up to `wait_ms_max`, with up to `wait_ms` more by chance: rivals drift apart."""

    attempts_max: int = 4
    wait_ms: int = 100
    wait_ms_max: int = 2000
    total_ms_max: int = 30_000  # no attempt begins after it


class RetryingStore:
    """An `ObjectStore` for callers; `owner` says on whose account a request goes."""

    def __init__(self, store: ObjectStore, counts: RequestCounts, policy: RetryPolicy | None = None) -> None:
        self.counts = counts
        self._requests = CountedRequests(store, counts)
        self._closed = False
        self._policy = policy or RetryPolicy()
        self._caller = stamina.RetryingCaller(
            attempts=self._policy.attempts_max,
            timeout=self._policy.total_ms_max / 1000,
            wait_initial=self._policy.wait_ms / 1000,
            wait_max=self._policy.wait_ms_max / 1000,
            wait_jitter=self._policy.wait_ms / 1000,
        ).on(self._again)

    @property
    def place(self) -> str:
        return self._requests.store.place

    @property
    def bare(self) -> ObjectStore:
        """The store without retries and counts; for the probe."""
        return self._requests.store

    def put(
        self, key: Key, data: Data, *, write_id: WriteId, if_match: ETag | None = None, owner: Owner = None
    ) -> Stored:
        invariant(is_key(key), "an object has a key that every store can hold", key=key)
        put = _Put(self._requests, owner, key, data, write_id, if_match)
        try:
            return self._retried(put.attempt)
        except StoreUnavailable as failure:
            return put.found_after(failure)

    def get(
        self,
        key: Key,
        start: int = 0,
        end: int | None = None,
        *,
        expected: Checksum | None = None,
        owner: Owner = None,
    ) -> Fetched:
        """`expected` is what somebody else, like the catalogue, knows to be the checksum of the whole object."""
        invariant(start >= 0 and (end is None or end > start), "a range is not empty", start=start, end=end)
        return self._retried(lambda: self._verified(owner, key, start, end, expected))

    def head(self, key: Key, *, owner: Owner = None) -> Stored | None:
        return self._retried(lambda: self._requests.head(owner, key))

    def delete(self, key: Key, *, owner: Owner = None) -> None:
        self._retried(lambda: self._requests.delete(owner, key))

    def list(
        self, prefix: KeyPrefix, after: Key | None = None, limit: int = LIST_KEYS_MAX, *, owner: Owner = None
    ) -> Page:
        invariant(0 < limit <= LIST_KEYS_MAX, "a page has 1 to 1000 keys", limit=limit)
        return self._retried(lambda: self._requests.list(owner, prefix, after, limit))

    def close(self) -> None:
        """Requests that are under way end with their present attempt."""
        self._closed = True
        self._requests.store.close()

    def _retried(self, ask: Callable[[], _Answer]) -> _Answer:
        asked = False

        def attempt() -> _Answer:
            nonlocal asked
            if asked:
                self.counts.count_retry()
            asked = True
            return ask()

        return self._caller(attempt)

    def _again(self, failure: Exception) -> bool | float:
        """Whether to ask again; a number is the wait in seconds that the store asked for."""
        if self._closed or not isinstance(failure, StoreError) or not failure.retryable:
            return False
        asked_ms = failure.retry_after_ms if isinstance(failure, StoreUnavailable) else None
        return True if asked_ms is None else min(asked_ms, self._policy.wait_ms_max) / 1000

    def _verified(self, owner: Owner, key: Key, start: int, end: int | None, expected: Checksum | None) -> Fetched:
        fetched = self._requests.get(owner, key, start, end)
        problem = _damage(fetched, start, end, expected)
        if problem:
            self.counts.count_damaged()
            raise StoreCorrupt(key, problem)
        return fetched


class _Put:
    """One intention to write, over all its attempts."""

    def __init__(
        self, requests: CountedRequests, owner: Owner, key: Key, data: Data, write_id: WriteId, if_match: ETag | None
    ) -> None:
        self._requests = requests
        self._owner = owner
        self._key = key
        self._data = data
        self._write_id = write_id
        self._if_match = if_match
        self._answer_lost = False

    def attempt(self) -> Stored:
        if self._answer_lost and (done := self._found()):
            return done
        try:
            return self._requests.put(self._owner, self._key, self._data, self._write_id, self._if_match)
        except StoreUnavailable as failure:
            self._answer_lost = self._answer_lost or failure.outcome_unknown
            raise
        except PreconditionFailed:
            if done := self._found():
                return done
            raise

    def found_after(self, failure: StoreUnavailable) -> Stored:
        """A last look, as there will be no further attempt: it may have been done with the last one."""
        if self._answer_lost:
            failure.outcome_unknown = True  # whatever the last attempt says, an earlier one may have got through
            with contextlib.suppress(StoreError):
                if done := self._found():
                    return done
        raise failure

    def _found(self) -> Stored | None:
        """The object, if it is ours: the same write id, and the same bytes, lest a re-made object passes for it."""
        found = self._requests.head(self._owner, self._key)
        if found is None or found.write_id != self._write_id or found.checksum != payload.checksum_of(self._data):
            return None
        self._requests.counts.count_settled()
        return found


def _damage(fetched: Fetched, start: int, end: int | None, expected: Checksum | None) -> str | None:
    data, stored = fetched
    size = (stored.size if end is None else end) - start
    if len(data) != size:
        return f"{len(data)} bytes came, {size} were asked for"
    if start or end is not None:
        return None  # a part has no checksum of its own here; who asks for parts knows their format, which has
    wanted = {expected, stored.checksum} - {None}
    if not wanted:
        return None
    seen = payload.checksum_of(data)
    return None if wanted == {seen} else f"its SHA-256 is {seen}, not {' or '.join(sorted(map(str, wanted)))}"
