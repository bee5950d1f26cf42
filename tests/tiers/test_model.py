"""Random lives of a node whose stages all run, over stores that fail: every answer is the model's at every moment.

The rules are those of tests/model, so each status, header and byte is predicted; here the entries behind them move all
the time from log to packs to merged packs and segments, out of the cache and back, while the store is slow, busy, lies
about its answers, damages what it sends, or is away. In the end all is published, nothing is left in the log, and
another node that begins from the bucket says the same.

That they find mistakes was tried: decoding a sealed page one row late, freeing log rows above what is published, a
bootstrap that opens no new epoch, a generation without the ends of its first seal, and merges whose inputs stay in the
database, each fail within twelve lives.

The default run is 18 lives of 60 steps; STREAMS_TIERS_EXAMPLES and STREAMS_TIERS_STEPS make it deeper.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test
from typing_extensions import override

from streams_node.objects import FaultPlan
from streams_node.objects.s3 import S3Address
from tests.http.wire import Reply
from tests.model.requests import check_listing, headers_of, path_of, query_of
from tests.model.strategies import BYTES, JSON, NAMES, TEXT
from tests.model.test_protocol_machine import ProtocolMachine
from tests.model.world import Append, Name, Stream, decoded, joined, written
from tests.tiers.bucket import MILD, WILD, Bucket, folder_bucket, memory_bucket, s3_bucket
from tests.tiers.driver import TieredDriver

EXAMPLES = int(os.environ.get("STREAMS_TIERS_EXAMPLES", "8"))
STEPS = int(os.environ.get("STREAMS_TIERS_STEPS", "60"))
LARGE_BYTES = 300_000
_EPOCH_LEAP = 2**20
_TURN_S = 0.05  # about what a stage needs for one step

MOVES = ["run"] * 6 + ["flush", "flush", "evict", "walk", "walk", "large"]
MOVES += ["mild", "mild", "wild", "calm", "away", "back", "late"]


class TieredMachine(ProtocolMachine):
    """The lives of tests/model, and what moves the tiers."""

    driver: TieredDriver  # type: ignore[mutable-override]  # it is set once, at the begin of a life

    def __init__(self, make: Callable[[], Bucket]) -> None:
        self._make = make
        super().__init__()

    @override
    @initialize(
        tiny_cache=st.booleans(), flush=st.sampled_from([1, 3, 20_000]), rows=st.sampled_from([1, 4, 512]),
        seed=st.integers(0, 2**32),
    )  # fmt: skip
    def open_node(self, *, tiny_cache: bool, flush: int, rows: int, seed: int) -> None:
        bucket = self._make()
        bucket.plan = FaultPlan(seed, slow_s=0.002)
        self.driver = TieredDriver(bucket, tiny_cache=tiny_cache, heads_flush_rows=flush, commit_rows_max=rows)
        for at, content_type in enumerate((JSON, TEXT, BYTES)):
            self._put(NAMES[at * 2], Append(b"[1,2,3]", content_type), v1=True)
        self._put(NAMES[1], Append(b"1", TEXT), {"stream-ttl": "60"}, ttl_s=60, v1=True)

    @override
    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        try:
            if self.driver.serves:
                self._all_is_published()
                self._another_node_says_the_same()
        finally:
            self.driver.end()

    # --- what moves ---

    @rule(kinds=st.lists(st.sampled_from(MOVES), min_size=1, max_size=4), data=st.data())
    def tiers(self, kinds: list[str], data: st.DataObject) -> None:
        for kind in kinds:
            getattr(self, f"_{kind}")(data)

    def _run(self, _: st.DataObject) -> None:
        self.driver.demand()
        self.driver.let_run(_TURN_S)

    def _flush(self, data: st.DataObject) -> None:
        name = self._name(data)
        if self.driver.bucket.plan.away or self.world.possible(name) != [True] or self.world.streams[name].hidden:
            return
        reply = self.driver.ask("POST", path_of(name, v1=True) + "/_flush")
        said = json.loads(reply.body)
        stream = self.world.streams[name]
        assert (reply.status, said["flushed"]) in {(200, True), (202, False)}
        assert (said["stream"], said["next_offset"]) == (f"{name.bucket}/{name.stream}", stream.token(stream.tail))

    def _evict(self, _: st.DataObject) -> None:
        self.driver.evict()

    def _mild(self, _: st.DataObject) -> None:
        self.driver.bucket.plan.chances = MILD

    def _wild(self, _: st.DataObject) -> None:
        self.driver.bucket.plan.chances = WILD

    def _calm(self, _: st.DataObject) -> None:
        self.driver.calm()

    def _away(self, _: st.DataObject) -> None:
        self.driver.bucket.plan.away = True

    def _back(self, _: st.DataObject) -> None:
        self.driver.bucket.plan.away = False

    def _late(self, _: st.DataObject) -> None:
        """What was on its way arrives, from nodes that ended long ago, too."""
        for line in self.driver.bucket.lines:
            line.settle()

    def _large(self, data: st.DataObject) -> None:
        """One entry of more than a quarter of a MiB."""
        name = self._name(data, "open")
        stream = self.world.streams.get(name)
        if stream is None or stream.closed or stream.hidden:
            return
        body = written("z" * LARGE_BYTES) if stream.is_json else b"z" * LARGE_BYTES
        request = Append(body, stream.content_type)
        reply = self.driver.ask("POST", path_of(name, v1=True), headers_of(request), body)
        self.driver.hold(reply, self.world.possible(name), lambda world, alive: world.post(name, request, alive=alive))

    def _walk(self, data: st.DataObject) -> None:
        """Page by page from any entry on, while the stages go on: all of it, each entry once."""
        name = self._name(data)
        stream = self.world.streams.get(name)
        if stream is None or stream.hidden or self.world.possible(name) != [True]:
            return
        start = data.draw(st.integers(0, stream.tail))
        raw = data.draw(st.booleans())
        bytes_max = data.draw(st.sampled_from([1, 60, 400, 5000, 10**6]))
        pages = 0
        while start < stream.tail:
            query = query_of(offset=stream.token(start), max_bytes=bytes_max, format="raw" if raw else None)
            reply = self.driver.ask("GET", path_of(name, v1=True) + query)
            stream.touch(self.world.now_us)
            end = self._end(stream, start, reply)
            assert reply.body == joined(stream.entries[start:end], as_json=stream.is_json and not raw)
            start, pages = end, pages + 1
            self.driver.demand()
            self.driver.let_run(_TURN_S if pages % 5 == 0 else 0)

    def _end(self, stream: Stream, start: int, reply: Reply) -> int:
        assert reply.status == 200, reply
        token = reply.headers["stream-next-offset"]
        return next(at for at in range(start + 1, stream.tail + 1) if stream.token(at) == token)

    # --- what the lives of tests/model do, and what has to be different here ---

    @override
    def _read_again(self, path: str, seen: str) -> None:
        """Two reads of a moment may be of different pages while entries move; so it is calm, and nothing moves."""
        self.driver.calm()
        super()._read_again(path, seen)

    @override
    def _all_together(self, data: st.DataObject) -> None:
        self.driver.calm()  # any order of all the answers is tried: none of them may be the store's
        super()._all_together(data)

    @override
    def _follow(self, data: st.DataObject) -> None:
        self.driver.calm()  # readers who meet a failure are in test_races.py
        self.driver.demand()
        super()._follow(data)

    # --- the end ---

    def _all_is_published(self) -> None:
        driver = self.driver
        note(f"{driver.failed_reads} reads failed; faults {dict(driver.bucket.plan.hits)}")
        driver.calm()
        driver.publish_all()
        driver.evict()
        self._read_all_back()
        driver.merge_all()
        driver.verify()
        driver.evict()
        self._read_all_back()

    def _another_node_says_the_same(self) -> None:
        driver, world = self.driver, self.world
        driver.start_from_bucket()
        for name in sorted(world.streams):
            world.streams[name].touch(world.now_us, surely=False)  # its window begins anew, as after any start
            alive = world.possible(name)
            reply = driver.ask("HEAD", path_of(name, v1=True))
            driver.hold(reply, alive, lambda world, alive, name=name: world.head(name, alive=alive))  # type: ignore[misc]
        self._read_all_back()
        self._same_listing()
        for name in sorted(world.streams):
            if world.possible(name) == [True] and not world.streams[name].hidden:
                self._goes_on(name, world.streams[name])

    def _same_listing(self) -> None:
        for bucket in sorted(self.world.buckets):
            reply = self.driver.ask("GET", f"/{bucket}/streams")
            expected = self.driver.hold(reply, [True], lambda world, _, bucket=bucket: world.get_bucket(bucket))  # type: ignore[misc]
            if expected.status == 200:
                check_listing(json.loads(reply.body), bucket, "", dict(self.world.listed(bucket)), 1000)

    def _goes_on(self, name: Name, stream: Stream) -> None:
        """Producers are remembered, and what is new has offsets that nobody can have seen."""
        path = path_of(name, v1=True)
        for id_, (epoch, seq) in sorted(stream.producers.items()):
            again = Append(b"7", stream.content_type, producer=(id_, epoch, seq))
            reply = self.driver.ask("POST", path, headers_of(again), again.body)
            self.driver.hold(reply, [True], lambda world, alive: world.post(name, again, alive=alive))  # noqa: B023
        if stream.closed:
            return
        reply = self.driver.ask("POST", path, {"content-type": stream.content_type}, b"8")
        place = decoded(reply.headers["stream-next-offset"])
        assert place is not None
        assert (reply.status, place[1]) == (204, stream.tail + 1)
        assert place[0] >= _EPOCH_LEAP > stream.epoch
        reply = self.driver.ask("GET", path + query_of(offset=stream.token(stream.tail)))
        assert (reply.status, reply.body) == (200, b"[8]" if stream.is_json else b"8")


LIVES = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    # A life takes seconds and depends on how fast the stages are: it is not made smaller, and its seed is printed.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
pytestmark = [
    pytest.mark.timeout(900),
    # The waits between requests to the store are drawn in its threads, perhaps while a rule is drawn.
    pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning"),
]


def live(make: Callable[[], Bucket], lives: settings = LIVES) -> None:
    run_state_machine_as_test(lambda: TieredMachine(make), settings=lives)  # type: ignore[arg-type]  # any factory will do


def test_answers_are_the_models_over_a_store_in_memory_that_fails() -> None:
    live(memory_bucket)


def test_answers_are_the_models_over_a_folder_that_fails(tmp_path: Path) -> None:
    folders = iter(range(10**6))

    def make() -> Bucket:
        return folder_bucket(tmp_path / str(next(folders)))

    live(make)


def test_answers_are_the_models_over_a_real_server_behind_a_bad_line(seaweedfs: S3Address) -> None:
    live(lambda: s3_bucket(seaweedfs), settings(LIVES, max_examples=max(1, EXAMPLES // 4)))
