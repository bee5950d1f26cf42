"""Requests are counted once each, on the right account, within bounded memory."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from streams_node.errors import ObjectMissing, StoreUnavailable
from streams_node.objects import Fault, MemoryStore, RequestCounts, RetryingStore, Row, Tally
from streams_node.objects.keys import OWNER, PACKS, ObjectId, segment_key
from streams_node.protocol.numbers import Seq, StreamId
from tests.store.conftest import QUICK, new_key, new_write
from tests.store.scripted import Scripted

ORDERS, PAYMENTS = StreamId(7), StreamId(8)
SEGMENT = segment_key(ORDERS, Seq(0), ObjectId("0" * 32))


def test_each_request_is_counted_for_its_owner_artifact_and_operation() -> None:
    store = RetryingStore(MemoryStore(), RequestCounts(), QUICK)
    store.put(SEGMENT, b"12345", write_id=new_write(), owner=ORDERS)
    store.get(SEGMENT, 0, 2, owner=ORDERS)
    store.get(SEGMENT, owner=PAYMENTS)
    store.put(OWNER, b"me", write_id=new_write())
    store.list(PACKS)
    store.delete(SEGMENT, owner=ORDERS)
    taken = {row: (tally.requests, tally.failures, tally.size) for row, tally in store.counts.take().items()}
    assert taken == {
        Row(ORDERS, "segment", "put"): (1, 0, 5),
        Row(ORDERS, "segment", "get"): (1, 0, 2),
        Row(PAYMENTS, "segment", "get"): (1, 0, 5),
        Row(None, "owner", "put"): (1, 0, 2),
        Row(None, "pack", "list"): (1, 0, 0),
        Row(ORDERS, "segment", "delete"): (1, 0, 0),
    }


def test_every_attempt_is_a_request_and_failures_are_told_apart_from_answers() -> None:
    line = Scripted(MemoryStore())
    store = RetryingStore(line.store, RequestCounts(), QUICK)
    line.script = [Fault.BUSY, None, Fault.BUSY]
    store.put(SEGMENT, b"1", write_id=new_write(), owner=ORDERS)
    with pytest.raises(ObjectMissing):
        store.get(new_key(), owner=ORDERS)
    rows = store.counts.take()
    assert (rows[Row(ORDERS, "segment", "put")].requests, rows[Row(ORDERS, "segment", "put")].failures) == (3, 2)
    assert rows[Row(ORDERS, "segment", "head")].requests == 2, "asked whether a lost answer was a yes"
    assert rows[Row(ORDERS, "pack", "get")].failures == 0


def test_a_row_is_taken_once_and_can_be_given_back() -> None:
    counts, row = RequestCounts(), Row(ORDERS, "segment", "get")
    counts.add(row, Tally(requests=1, size=10))
    taken = counts.take()
    assert counts.take() == {}
    counts.add(row, Tally(requests=1, size=5))
    counts.give_back(taken)
    assert counts.take() == {row: Tally(requests=2, size=15)}
    assert counts.totals()["segment", "get"] == Tally(requests=2, size=15)


def test_owners_beyond_the_limit_are_counted_with_the_node() -> None:
    counts = RequestCounts(rows_max=3)
    for number in range(1000):
        counts.add(Row(StreamId(number), "segment", "get"), Tally(requests=1))
    taken = counts.take()
    assert len(taken) <= 4
    assert taken[Row(None, "segment", "get")].requests == 997
    assert sum(tally.requests for tally in taken.values()) == 1000


def test_no_count_is_lost_among_threads() -> None:
    counts, row = RequestCounts(), Row(None, "pack", "put")
    taken: list[int] = []

    def work(_: int) -> None:
        for _ in range(500):
            counts.add(row, Tally(requests=1))
        taken.extend(tally.requests for tally in counts.take().values())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert sum(taken) + sum(tally.requests for tally in counts.take().values()) == 2000


def test_time_is_measured_also_when_a_request_fails() -> None:
    line = Scripted(MemoryStore())
    line.plan.away = True
    store = RetryingStore(line.store, RequestCounts(), QUICK)
    with pytest.raises(StoreUnavailable):
        store.head(new_key())
    assert store.counts.totals()["pack", "head"].seconds > 0
