"""The retry layer on a store that fails on purpose: nothing is written twice, lost, or believed without proof."""

import contextlib
import random
import time

import pytest
from typing_extensions import override

from streams_node.errors import (
    ObjectMissing,
    PreconditionFailed,
    StoreCorrupt,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)
from streams_node.objects import (
    Fault,
    FaultPlan,
    FaultyStore,
    Key,
    MemoryStore,
    ObjectStore,
    RequestCounts,
    RetryingStore,
    RetryPolicy,
    Stored,
    checksum_of,
)
from streams_node.objects.keys import EVERYTHING, OWNER
from tests.store.conftest import QUICK, make_store, new_key, new_write
from tests.store.scripted import Scripted

DATA = b"what was meant"


@pytest.fixture
def inner() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def line(inner: MemoryStore) -> Scripted:
    """The store behind a line whose faults the test names, one for each request."""
    return Scripted(inner)


@pytest.fixture
def store(line: Scripted) -> RetryingStore:
    return RetryingStore(line.store, RequestCounts(), QUICK)


# --- lost answers ---------------------------------------------------------------------------------------------------


def test_a_put_whose_answer_is_lost_is_found_by_its_write_id(store: RetryingStore, line: Scripted) -> None:
    key, write_id = new_key(), new_write()
    line.script = [Fault.LOST]
    stored = store.put(key, DATA, write_id=write_id)
    assert (stored.write_id, store.counts.settled) == (write_id, 1)
    assert line.asked == ["put", "head"], "the bytes are not sent again"


def test_a_replacement_whose_answer_is_lost_is_found_by_its_write_id(store: RetryingStore, line: Scripted) -> None:
    before = store.put(OWNER, b"before", write_id=new_write())
    line.script = [Fault.LOST]
    store.put(OWNER, DATA, write_id=new_write(), if_match=before.etag)
    assert store.get(OWNER).data == DATA


def test_a_lost_answer_is_no_excuse_when_another_was_first(
    store: RetryingStore, line: Scripted, inner: MemoryStore
) -> None:
    key = new_key()
    inner.put(key, b"another's", write_id=new_write())
    line.script = [Fault.DROPPED]
    with pytest.raises(PreconditionFailed):
        store.put(key, DATA, write_id=new_write())
    assert inner.get(key).data == b"another's"


def test_a_put_that_never_arrived_is_sent_again(store: RetryingStore, line: Scripted) -> None:
    key = new_key()
    line.script = [Fault.DROPPED, None, Fault.DROPPED]
    store.put(key, DATA, write_id=new_write())
    assert line.asked == ["put", "head", "put", "head", "put"]
    assert store.counts.retries == 2


def test_a_put_that_lands_late_is_not_written_twice(store: RetryingStore, line: Scripted, inner: MemoryStore) -> None:
    key, write_id = new_key(), new_write()
    line.plan.late_requests = 2  # after the question whether it is there, right before it is sent again
    line.script = [Fault.LATE]
    assert store.put(key, DATA, write_id=write_id).write_id == write_id
    assert line.asked == ["put", "head", "put", "head"]
    assert inner.get(key).data == DATA


def test_a_put_that_lands_after_it_was_given_up_cannot_destroy_what_came_meanwhile(
    store: RetryingStore, line: Scripted, inner: MemoryStore
) -> None:
    before = store.put(OWNER, b"before", write_id=new_write())
    line.plan.late_requests = 100
    line.script = [Fault.LATE] + [Fault.DROPPED] * 10
    with pytest.raises(StoreUnavailable) as caught:
        store.put(OWNER, b"given up", write_id=new_write(), if_match=before.etag)
    assert caught.value.outcome_unknown
    line.script = []
    store.put(OWNER, DATA, write_id=new_write(), if_match=before.etag)
    line.store.settle()
    assert inner.get(OWNER).data == DATA


def test_a_put_that_was_given_up_and_landed_is_done_when_it_is_repeated(store: RetryingStore, line: Scripted) -> None:
    key, write_id = new_key(), new_write()
    line.plan.late_requests = 100
    line.script = [Fault.LATE] + [Fault.DROPPED] * 10
    with pytest.raises(StoreUnavailable):
        store.put(key, DATA, write_id=write_id)
    line.store.settle()
    line.script = []
    assert store.put(key, DATA, write_id=write_id).write_id == write_id


def test_a_last_look_finds_what_the_last_attempt_did(line: Scripted) -> None:
    once = RetryingStore(line.store, RequestCounts(), RetryPolicy(attempts_max=1))
    line.script = [Fault.LOST]
    assert once.put(new_key(), DATA, write_id=new_write()).checksum == checksum_of(DATA)


def test_an_outcome_is_unknown_only_if_it_is(store: RetryingStore, line: Scripted) -> None:
    line.script = [Fault.DROPPED, Fault.BUSY] + [Fault.BUSY] * 8
    with pytest.raises(StoreUnavailable) as caught:
        store.put(new_key(), DATA, write_id=new_write())
    assert caught.value.outcome_unknown
    full = MemoryStore(bytes_max=0)
    with pytest.raises(StoreUnavailable) as certain:
        RetryingStore(full, RequestCounts(), QUICK).put(new_key(), DATA, write_id=new_write())
    assert not certain.value.outcome_unknown


def test_a_delete_whose_answer_is_lost_is_repeated(store: RetryingStore, line: Scripted) -> None:
    key = new_key()
    store.put(key, DATA, write_id=new_write())
    line.script = [Fault.LOST]
    store.delete(key)
    assert store.head(key) is None


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault.TRUNCATED, Fault.CORRUPT])
def test_damage_on_the_way_is_cured_by_asking_again(store: RetryingStore, line: Scripted, fault: Fault) -> None:
    key = new_key()
    store.put(key, DATA, write_id=new_write())
    line.script = [fault, fault]
    assert store.get(key).data == DATA
    assert store.counts.damaged == 2


def test_a_part_that_comes_short_is_asked_for_again(store: RetryingStore, line: Scripted) -> None:
    key = new_key()
    store.put(key, DATA, write_id=new_write())
    line.script = [Fault.TRUNCATED]
    assert store.get(key, 2, 9).data == DATA[2:9]


def test_damage_that_stays_is_named(store: RetryingStore, line: Scripted) -> None:
    key = new_key()
    store.put(key, DATA, write_id=new_write())
    line.script = [Fault.CORRUPT] * 10
    with pytest.raises(StoreCorrupt, match=f"object `{key}` is damaged: its SHA-256 is"):
        store.get(key)
    assert line.asked.count("get") == QUICK.attempts_max


# --- limits ---------------------------------------------------------------------------------------------------------


def test_a_store_that_is_away_is_asked_a_bounded_number_of_times_and_used_when_it_is_back(
    store: RetryingStore, line: Scripted
) -> None:
    line.plan.away = True
    with pytest.raises(StoreUnavailable):
        store.get(new_key())
    assert store.counts.totals()["pack", "get"].requests == QUICK.attempts_max
    line.plan.away = False
    store.put(OWNER, DATA, write_id=new_write())


def test_no_attempt_begins_after_the_time_is_over(line: Scripted) -> None:
    impatient = RetryingStore(line.store, RequestCounts(), RetryPolicy(1000, wait_ms=5, wait_ms_max=5, total_ms_max=60))
    line.plan.away = True
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable):
        impatient.head(new_key())
    assert time.monotonic() - begun < 5
    assert impatient.counts.totals()["pack", "head"].requests < 20


class Failing(MemoryStore):
    """Answers every HEAD with one failure."""

    def __init__(self, failure: StoreError) -> None:
        super().__init__()
        self.failure = failure
        self.asked = 0

    @override
    def head(self, key: Key) -> Stored | None:
        self.asked += 1
        raise self.failure


def test_a_wait_that_the_store_asks_for_is_kept_within_our_limit() -> None:
    busy = Failing(StoreUnavailable("503", retry_after_ms=3_600_000))
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable):
        RetryingStore(busy, RequestCounts(), RetryPolicy(3, wait_ms=1, wait_ms_max=50)).head(new_key())
    assert busy.asked == 3
    assert 0.1 <= time.monotonic() - begun < 5


def test_what_an_operator_has_to_change_is_not_tried_again() -> None:
    refusing = Failing(StoreRefused("no"))
    with pytest.raises(StoreRefused):
        RetryingStore(refusing, RequestCounts(), QUICK).head(new_key())
    assert refusing.asked == 1


def test_an_answer_is_no_failure_and_not_tried_again(store: RetryingStore, line: Scripted) -> None:
    with pytest.raises(ObjectMissing):
        store.get(new_key())
    assert line.asked == ["get"]
    assert store.counts.totals()["pack", "get"].failures == 0


def test_a_store_that_is_closed_begins_no_further_attempt(store: RetryingStore, line: Scripted) -> None:
    line.plan.away = True
    store.close()
    with pytest.raises(StoreUnavailable):
        store.get(new_key())
    assert store.counts.totals()["pack", "get"].requests == 1


# --- all of it together ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_whatever_fails_each_outcome_that_was_told_is_true(request: pytest.FixtureRequest, kind: str) -> None:
    folder = request.getfixturevalue("tmp_path")
    seed = random.randrange(2**32)
    reads = {Fault.TRUNCATED: 0.2, Fault.CORRUPT: 0.3, Fault.STALE: 0.3}
    plan = FaultPlan(seed, dict.fromkeys(Fault, 0.06) | reads, slow_s=0.0)
    inner = make_store(request, kind, folder)
    run = Run(inner, plan)
    for step in range(8000):
        if step >= 400 and all(plan.hits[fault] >= 3 for fault in Fault):
            break
        run.step()
    run.faulty.settle()
    plan.chances = {}
    plan.away = False
    run.check()
    assert [fault for fault in Fault if plan.hits[fault] < 3] == [], f"seed {seed}"
    assert len(run.there) > 10


class Run:
    """Random writes through faults, beside a list of what was promised."""

    def __init__(self, inner: ObjectStore, plan: FaultPlan) -> None:
        self.inner = inner
        self.faulty = FaultyStore(inner, plan)
        self.store = RetryingStore(self.faulty, RequestCounts(), QUICK)
        self.random = random.Random(plan.seed)
        self.there: dict[Key, bytes] = {}
        self.unknown: dict[Key, bytes] = {}
        self.deleted: set[Key] = set()
        self.certain = 0

    def step(self) -> None:
        match self.random.randrange(5):
            case 0 | 1:
                self._put()
            case 2 if self.there:
                self._get(self.random.choice(list(self.there)))
            case 3 if self.there:
                self._delete(self.random.choice(list(self.there)))
            case _:
                self._list()

    def _put(self) -> None:
        key, data, write_id = new_key(), self.random.randbytes(100), new_write()
        try:
            self.store.put(key, data, write_id=write_id)
        except StoreUnavailable as failure:
            self.certain += not failure.outcome_unknown
            self.unknown[key] = data
        else:
            self.there[key] = data

    def _get(self, key: Key) -> None:
        with contextlib.suppress(StoreUnavailable, StoreCorrupt):  # told as a failure, never as other bytes
            assert self.store.get(key).data == self.there[key]

    def _delete(self, key: Key) -> None:
        data = self.there.pop(key)
        try:
            self.store.delete(key)
        except StoreUnavailable:
            self.unknown[key] = data
        else:
            self.deleted.add(key)

    def _list(self) -> None:
        with contextlib.suppress(StoreUnavailable):
            self.store.list(EVERYTHING)

    def check(self) -> None:
        assert self.certain == 0, "behind such a line no failed put is certain"
        kept = {one.key: self.inner.get(one.key).data for one in self.inner.list(EVERYTHING).objects}
        assert {key: kept.get(key) for key in self.there} == self.there
        assert kept.keys() & self.deleted == set()
        assert {key: data for key, data in kept.items() if key not in self.there}.items() <= self.unknown.items()
        assert {one.key for one in self.store.list(EVERYTHING).objects} == kept.keys()


def test_a_stale_listing_misses_the_new_and_shows_the_gone(inner: MemoryStore, line: Scripted) -> None:
    old, new, gone = (new_key() for _ in range(3))
    inner.put(old, DATA, write_id=new_write())
    for key in (new, gone):
        line.store.put(key, DATA, write_id=new_write())
    line.store.delete(gone)
    line.script = [Fault.STALE]
    assert {one.key for one in line.store.list(EVERYTHING).objects} == {old, gone}
    assert {one.key for one in line.store.list(EVERYTHING).objects} == {old, new}


def test_faults_are_the_same_for_the_same_seed() -> None:
    def faults() -> list[Fault | None]:
        plan = FaultPlan(5, dict.fromkeys(Fault, 0.1))
        return [plan.draw("put") for _ in range(100)]

    assert faults() == faults()
