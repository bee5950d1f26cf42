"""Random lives of a node against the model: every status, every protocol header and every byte is predicted.

The default run is 250 lives of 40 steps; STREAMS_MODEL_EXAMPLES and STREAMS_MODEL_STEPS make it deeper.
"""

import asyncio
import json
import os
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from typing_extensions import override

from streams_node.ingest.remove import end_streams
from streams_node.testing.inprocess import Running
from tests.http.event_streams import events_of
from tests.http.wire import PATIENCE_S, Reply, ask
from tests.model.driver import PAGE_BYTES, Driver, Sent
from tests.model.requests import (
    check_listing,
    code_of,
    fork_headers,
    get,
    headers_of,
    is_text,
    path_of,
    post,
    put,
    query_of,
    shown,
    token_of,
)
from tests.model.strategies import (
    BYTES,
    JSON,
    MALFORMED,
    NAMES,
    TEXT,
    TYPES,
    bodies,
    buckets,
    json_bodies,
    lifetimes,
    offsets,
    producers,
    rarely,
    sequences,
    surfaces,
)
from tests.model.world import ANY, Append, Expected, Fork, Name, Span, Stream, World, joined, written

pytestmark = pytest.mark.timeout(900)  # a minute or two of work, beside whatever else the machine does
EXAMPLES = int(os.environ.get("STREAMS_MODEL_EXAMPLES", "250"))
STEPS = int(os.environ.get("STREAMS_MODEL_STEPS", "40"))
WRITES = ["append"] * 9 + ["create"] * 4 + ["fork"] * 5 + ["delete"] * 3 + ["malformed"]
WRITES += ["append_together", "retry_together", "create_together", "all_together", "all_together"]
READS = ["read"] * 4 + ["look", "poll", "poll", "follow", "follow"]
MOMENTS = ["advance"] * 3 + ["edge"] * 3 + ["set_back", "sweep", "restart", "crash"]
MOMENTS += ["make_bucket", "see_bucket", "drop_bucket", "list_bucket"]


class ProtocolMachine(RuleBasedStateMachine):
    """Rules send one request each, or a few together; the driver holds the answers against the model."""

    driver: Driver

    @initialize(tiny_cache=st.booleans(), flush=st.sampled_from([1, 3, 20_000]), rows=st.sampled_from([1, 4, 512]))
    def open_node(self, *, tiny_cache: bool, flush: int, rows: int) -> None:
        self.driver = Driver(tiny_cache=tiny_cache, heads_flush_rows=flush, commit_rows_max=rows)
        for at, content_type in enumerate((JSON, TEXT, BYTES)):
            self._put(NAMES[at * 2], Append(b"[1,2,3]", content_type), v1=True)
        self._put(NAMES[1], Append(b"1", TEXT), {"stream-ttl": "60"}, ttl_s=60, v1=True)

    @override
    def teardown(self) -> None:
        if hasattr(self, "driver"):
            try:
                self._read_all_back()
            finally:
                self.driver.end()

    @property
    def world(self) -> World:
        return self.driver.world

    # --- one step: a few requests in each rule, for rules are drawn evenly, or left out of a life ---------------------

    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        self._some(WRITES, data)

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        self._some(READS, data)

    @rule(kind=st.sampled_from(MOMENTS), data=st.data())
    def go_on(self, kind: str, data: st.DataObject) -> None:
        getattr(self, f"_{kind}")(data)

    def _some(self, kinds: list[str], data: st.DataObject) -> None:
        for _again in range(data.draw(st.integers(1, 4))):
            getattr(self, f"_{data.draw(st.sampled_from(kinds))}")(data)

    # --- writes -----------------------------------------------------------------------------------------------------

    def _create(self, data: st.DataObject) -> None:
        name = self._name(data, "all")
        stream = self.world.streams.get(name)
        headers, ttl_s, expires_us = self._lifetime(data.draw(lifetimes))
        content_type, closing, body = data.draw(st.sampled_from(TYPES)), data.draw(rarely), data.draw(bodies)
        if data.draw(st.booleans()) and stream is not None and stream.expires_us is None:
            # A repetition, as clients send one to be sure.
            content_type, ttl_s, expires_us, closing = stream.content_type, stream.ttl_s, None, stream.closed
            headers = {} if ttl_s is None else {"stream-ttl": str(ttl_s)}
        producer = self._producer(None, data.draw(producers))
        request = Append(body, content_type, closing, producer, data.draw(sequences))
        self._put(name, request, headers, ttl_s=ttl_s, expires_us=expires_us, v1=data.draw(surfaces))

    def _put(self, name: Name, request: Append, headers: dict[str, str] | None = None, *, ttl_s: int | None = None,
             expires_us: int | None = None, v1: bool, fork: Fork | None = None) -> None:  # fmt: skip
        path = path_of(name, v1=v1)
        said = (headers or {}) | headers_of(request) | ({} if fork is None else fork_headers(fork))
        reply = self.driver.ask("PUT", path, said, request.body)
        self.driver.hold(reply, self.world.possible(name), lambda world, alive: world.put(
            name, request, alive=alive, ttl_s=ttl_s, expires_us=expires_us, implicit=path.startswith("/v1/"),
            path="http://node.test" + path, fork=fork,
        ))  # fmt: skip

    def _fork(self, data: st.DataObject) -> None:
        """A stream that begins as another one does, or a repetition of the request that made it."""
        free = [name for name in NAMES if name not in self.world.streams]
        name, source = self._name(data, "all"), self._name(data)
        if free and not data.draw(rarely):
            name = free[data.draw(st.integers(0, 9)) % len(free)]
        self._settle([name, source])
        made, origin = self.world.streams.get(name), self.world.streams.get(source)
        headers, ttl_s, expires_us = self._lifetime(data.draw(lifetimes))
        content_type, closing = data.draw(st.sampled_from([None] * 9 + TYPES)), data.draw(rarely)
        fork = Fork(source, self._fork_offset(source, data), data.draw(st.sampled_from([0, 0, 0, 1, 1, 2, 3, 9])))
        if data.draw(st.booleans()) and made is not None and made.origin is not None:
            fork, headers, ttl_s, expires_us, closing = made.origin, {}, None, None, made.closed
        body = b""
        if data.draw(st.booleans()):
            body = (
                data.draw(bodies) if origin is None or not origin.is_json else data.draw(st.one_of(json_bodies, bodies))
            )
        request = Append(body, content_type, closing, self._producer(None, data.draw(producers)), data.draw(sequences))
        self._put(name, request, headers, ttl_s=ttl_s, expires_us=expires_us, v1=data.draw(surfaces), fork=fork)

    def _fork_offset(self, source: Name, data: st.DataObject) -> str | None:
        """Mostly one of the source's own."""
        stream, own = self.world.streams.get(source), data.draw(st.integers(0, 30))
        if stream is None or own > 20:
            return self._offset(source, data.draw(offsets))
        return stream.token(own % (stream.tail + 1))

    def _settle(self, names: list[Name]) -> None:
        """Look at what may be over, so that everybody knows."""
        for name in names:
            if name in self.world.streams and self.world.possible(name) != [True]:
                reply = self.driver.ask("HEAD", path_of(name, v1=True))
                self.driver.hold(
                    reply,
                    self.world.possible(name),
                    lambda world, alive, name=name: world.head(name, alive=alive),  # type: ignore[misc]
                )

    def _append(self, data: st.DataObject) -> None:
        name = self._name(data)
        stream = self.world.streams.get(name)
        fit = data.draw(st.sampled_from(["fit"] * 8 + ["other", "none"]))
        content_type = (
            None if fit == "none" else "text/csv" if fit == "other" or stream is None else stream.content_type
        )
        body = data.draw(bodies) if stream is None or not stream.is_json else data.draw(st.one_of(json_bodies, bodies))
        hint = data.draw(st.sampled_from([None, None, -10, 10, 10**6]))
        hint_us = None if hint is None else self.world.now_us + hint * 1_000_000
        producer = self._producer(stream, data.draw(producers))
        if stream is not None and stream.closed_by is not None and data.draw(st.booleans()):
            producer = stream.closed_by  # whoever closed it asks again
        request = Append(body, content_type, data.draw(rarely), producer, data.draw(sequences), hint_us)
        reply = self.driver.ask("POST", path_of(name, v1=data.draw(surfaces)), headers_of(request), body)
        self.driver.hold(reply, self.world.possible(name), lambda world, alive: world.post(name, request, alive=alive))

    def _malformed(self, data: st.DataObject) -> None:
        method, headers = data.draw(st.sampled_from(["PUT", "POST"])), data.draw(st.sampled_from(MALFORMED))
        path = path_of(self._name(data), v1=True)
        reply = self.driver.ask(method, path, {"content-type": JSON} | headers, b"[1]")
        assert (reply.status, code_of(reply)) == (400, "bad_request")

    def _delete(self, data: st.DataObject) -> None:
        name = self._name(data)
        reply = self.driver.ask("DELETE", path_of(name, v1=data.draw(surfaces)))
        self.driver.hold(reply, self.world.possible(name), lambda world, alive: world.delete(name, alive=alive))

    # --- several at once --------------------------------------------------------------------------------------------

    def _append_together(self, data: st.DataObject) -> None:
        """The order is the node's to choose, and the offsets tell which one it was."""
        name, count = self._name(data, "open"), data.draw(st.integers(2, 6))
        stream = self.world.streams.get(name)
        if stream is None or stream.closed or stream.hidden:
            return
        contents = [written(f"{at} of {count}") for at in range(count)]
        request = {"content-type": stream.content_type}
        replies = self._together([("POST", path_of(name, v1=True), request, content) for content in contents])
        alive = self.world.possible(name)
        if {reply.status for reply in replies} == {404}:
            assert False in alive
            self.world.found(name, alive=False)
            return
        assert {reply.status for reply in replies} == {204}
        assert True in alive
        by_offset = sorted(zip(replies, contents, strict=True), key=lambda pair: pair[0].headers["stream-next-offset"])
        for reply, content in by_offset:
            appended = Append(content, stream.content_type)
            self.driver.hold(reply, [True], partial(post, name, appended))

    def _retry_together(self, data: st.DataObject) -> None:
        """One request of a producer, sent several times at once, is stored once."""
        name, count = self._name(data, "open"), data.draw(st.integers(2, 4))
        stream = self.world.streams.get(name)
        if stream is None or stream.closed or stream.hidden:
            return
        request = Append(b"7", stream.content_type, producer=self._producer(stream, ("p", "next")))
        replies = self._together([("POST", path_of(name, v1=True), headers_of(request), b"7")] * count)
        for reply in sorted(replies, key=lambda reply: reply.status):  # the one that stored it first
            self.driver.hold(reply, self.world.possible(name), partial(post, name, request))

    def _create_together(self, data: st.DataObject) -> None:
        """Exactly one of them creates."""
        name, count = self._name(data, "all"), data.draw(st.integers(2, 4))
        path, request = path_of(name, v1=True), Append(b"", TEXT)
        replies = self._together([("PUT", path, headers_of(request), b"")] * count)
        for reply in sorted(replies, key=lambda reply: reply.status != 201):
            self.driver.hold(reply, self.world.possible(name), lambda world, alive: world.put(
                name, request, alive=alive, ttl_s=None, expires_us=None, implicit=True, path="http://node.test" + path,
            ))  # fmt: skip

    def _all_together(self, data: st.DataObject) -> None:
        """Different requests to one stream at once: their answers are those of some order."""
        name = self._name(data)
        stream = self.world.streams.get(name)
        path, kind = path_of(name, v1=True), TEXT if stream is None else stream.content_type
        wishes: list[tuple[str, Append, Callable[[World, bool], Expected]]] = []
        for at in range(data.draw(st.integers(2, 4))):
            body = written(f"{at} at once")
            producer = self._producer(stream, data.draw(st.sampled_from([None, ("p", "next"), ("p", "epoch")])))
            match data.draw(st.sampled_from(["append", "append", "close", "delete", "create", "head", "read"])):
                case "append":
                    request = Append(body, kind, producer=producer)
                    wishes.append(("POST", request, partial(post, name, request)))
                case "close":
                    request = Append(body, kind, close=True, producer=producer)
                    wishes.append(("POST", request, partial(post, name, request)))
                case "create":
                    request = Append(body, kind)
                    wishes.append(("PUT", request, partial(put, name, request, path)))
                case "delete":
                    wishes.append(("DELETE", Append(), lambda world, alive: world.delete(name, alive=alive)))
                case "head":
                    wishes.append(("HEAD", Append(), lambda world, alive: world.head(name, alive=alive)))
                case _:
                    wishes.append(("GET", Append(), partial(get, name, PAGE_BYTES)))
        replies = self._together([(method, path, headers_of(request), request.body) for method, request, _ in wishes])
        self.driver.hold_together(
            [Sent(name, reply, predict) for reply, (_, _, predict) in zip(replies, wishes, strict=True)]
        )

    # --- reads ------------------------------------------------------------------------------------------------------

    def _read(self, data: st.DataObject) -> None:
        name = self._name(data)
        offset, form = self._offset(name, data.draw(offsets)), data.draw(st.sampled_from([None, None, "raw", "json"]))
        bytes_max = data.draw(st.sampled_from([None, None, 1, 10, 100, 3000, 10**9]))
        path = path_of(name, v1=data.draw(surfaces)) + query_of(offset=offset, max_bytes=bytes_max, format=form)
        wanted = min(bytes_max or PAGE_BYTES, 8 << 20)
        alive = self.world.possible(name)
        expected = self.driver.hold(self.driver.ask("GET", path), alive, lambda world, alive: world.get(
            name, offset, alive=alive, bytes_max=wanted, form=form,
        ))  # fmt: skip
        seen = data.draw(st.sampled_from([None, None, "same", "other", "*"]))
        if seen is not None and expected.status == 200:
            self._read_again(path, seen)

    def _read_again(self, path: str, seen: str) -> None:
        """With `If-None-Match`: 304 exactly when the answer is the one that the client holds."""
        before = self.driver.ask("GET", path)
        tag = before.headers.get("etag", '"none"')
        claimed = {"same": f'"x", W/{tag}', "other": '"x"', "*": "*"}[seen]
        again = self.driver.ask("GET", path, {"if-none-match": claimed})
        if "etag" in before.headers and seen != "other":
            assert (again.status, again.body, again.headers) == (304, b"", before.without(["content-length"]))
        else:
            assert (again.status, again.body, again.headers) == (200, before.body, before.headers)

    def _look(self, data: st.DataObject) -> None:
        name = self._name(data)
        reply = self.driver.ask("HEAD", path_of(name, v1=data.draw(surfaces)))
        self.driver.hold(reply, self.world.possible(name), lambda world, alive: world.head(name, alive=alive))

    def _poll(self, data: st.DataObject) -> None:
        """A long-poll without patience: what is there, or nothing."""
        name, live = self._name(data), data.draw(st.sampled_from(["long-poll", "true"]))
        offset, bytes_max = self._offset(name, data.draw(offsets)) or "-1", data.draw(st.sampled_from([None, 1, 100]))
        query = query_of(offset=offset, live=live, timeout_ms=0, max_bytes=bytes_max)
        reply = self.driver.ask("GET", path_of(name, v1=True) + query)
        self.driver.hold(reply, self.world.possible(name), lambda world, alive: world.get(
            name, offset, alive=alive, bytes_max=bytes_max or PAGE_BYTES, form=None, live=True,
        ))  # fmt: skip

    def _follow(self, data: st.DataObject) -> None:
        """A live reader sees what there is, then what comes; then its stream ends, or it leaves."""
        name = self._name(data, "open")
        stream = self.world.streams.get(name)
        if stream is None or stream.closed or stream.hidden or self.world.possible(name) != [True]:
            return
        action = data.draw(st.sampled_from(["append", "append", "close", "append and close", "delete"]))
        if data.draw(st.booleans()):
            wish = data.draw(st.sampled_from(["now", "tail", "-1"]))
            self.driver.run(self._follow_events(name, action, wish))
        else:
            self.driver.run(self._follow_poll(name, action))

    # --- buckets, time, and the node's life -------------------------------------------------------------------------

    def _make_bucket(self, data: st.DataObject) -> None:
        bucket = data.draw(buckets)
        reply = self.driver.ask("PUT", f"/{bucket}")
        self.driver.hold(reply, [True], lambda world, _: world.put_bucket(bucket))

    def _see_bucket(self, data: st.DataObject) -> None:
        bucket = data.draw(buckets)
        reply = self.driver.ask("GET", f"/{bucket}")
        expected = self.driver.hold(reply, [True], lambda world, _: world.get_bucket(bucket))
        if expected.status == 200:
            said = json.loads(reply.body)
            assert said.pop("streams") in self.world.counts(bucket)
            assert said == {"bucket_id": bucket, "created_at_ms": self.world.buckets[bucket].created_us // 1000}

    def _drop_bucket(self, data: st.DataObject) -> None:
        bucket = data.draw(buckets)
        reply = self.driver.ask("DELETE", f"/{bucket}")
        outcomes = self.world.emptied(bucket)
        self.driver.hold(reply, outcomes, lambda world, emptied: world.delete_bucket(bucket, emptied=emptied))
        self._settle(self.world.unsure())

    def _list_bucket(self, data: st.DataObject) -> None:
        bucket, limit = data.draw(buckets), data.draw(st.sampled_from([None, 1, 2]))
        prefix = data.draw(st.sampled_from([None, None, "a", "d", "zz"]))
        after = data.draw(st.sampled_from([None, None, "a", "b"]))
        reply = self.driver.ask("GET", f"/{bucket}/streams{query_of(prefix=prefix, after=after, limit=limit)}")
        expected = self.driver.hold(reply, [True], lambda world, _: world.get_bucket(bucket))
        if expected.status == 200:
            lines = {
                key: line
                for key, line in self.world.listed(bucket).items()
                if key.startswith(prefix or "") and key.rstrip("?") > (after or "")
            }
            check_listing(json.loads(reply.body), bucket, prefix or "", lines, limit or 1000)

    def _advance(self, data: st.DataObject) -> None:
        self.driver.advance(data.draw(st.sampled_from([0.001, 1, 1, 4, 4, 20, 20, 50, 70, 1000])))

    def _edge(self, data: st.DataObject) -> None:
        """To the last moment at which a stream must still be there, or to the first at which it must not; then look."""
        ending = sorted(name for name, stream in self.world.streams.items() if stream.ends_us() is not None)
        if not ending:
            return
        name = data.draw(st.sampled_from(ending))
        stream = self.world.streams[name]
        moment_us = (stream.dead_from if stream.ttl_s is not None else stream.ends_us()) or 0
        if data.draw(st.booleans()):
            moment_us = (stream.ends_us() or 0) - 1
        self.driver.advance_to(max(moment_us, self.world.now_us))
        reply = self.driver.ask("HEAD", path_of(name, v1=True))
        self.driver.hold(reply, self.world.possible(name), lambda world, alive: world.head(name, alive=alive))

    def _set_back(self, data: st.DataObject) -> None:
        self.driver.advance(-data.draw(st.sampled_from([0.5, 10, 100])))

    def _sweep(self, _: st.DataObject) -> None:
        async def sweep() -> None:
            await end_streams(self.driver.node.context.ledger, 1000)
            await self.driver.node.context.ledger.committer.settled()

        self.driver.run(sweep())
        self.world.swept()
        self._settle(self.world.unsure())

    def _restart(self, _: st.DataObject) -> None:
        self.driver.restart()

    def _crash(self, _: st.DataObject) -> None:
        self.driver.crash()

    @invariant()
    def memory_is_in_bounds(self) -> None:
        if hasattr(self, "driver"):
            ledger = self.driver.node.context.ledger
            assert not ledger.refusals
            assert ledger.committer.queued_bytes >= 0
            assert self.driver.node.context.bodies.in_flight == 0
            assert sum(self.driver.node.context.live.readers.values()) == 0

    # --- below the rules --------------------------------------------------------------------------------------------

    def _name(self, data: st.DataObject, among: str = "most") -> Name:
        """Mostly a stream that is there; of `open` ones only if any is; any name at all from time to time."""
        streams = self.world.streams.items()
        there = sorted(name for name, stream in streams if among != "open" or not (stream.closed or stream.hidden))
        where = data.draw(st.integers(0, 11))
        if there and (where < 10 or among == "open") and among != "all":
            return there[where % len(there)]
        return NAMES[where % len(NAMES)]

    def _together(self, requests: list[tuple[str, str, dict[str, str], bytes]]) -> list[Reply]:
        async def all_of_them() -> list[Reply]:
            return await asyncio.gather(*(ask(self.driver.node, *request) for request in requests))

        return self.driver.run(all_of_them())

    def _lifetime(self, wish: str | None) -> tuple[dict[str, str], int | None, int | None]:
        if wish is None:
            return {}, None, None
        kind, number = wish.split()
        if kind == "ttl":
            return {"stream-ttl": number}, int(number), None
        end_us = self.world.now_us + int(number) * 1_000_000
        return {"stream-expires-at": str(end_us * 1000)}, None, end_us

    def _producer(self, stream: Stream | None, wish: tuple[str, str] | None) -> tuple[str, int, int] | None:
        """A triple that is the next one, a retry, or one of the mistakes."""
        if wish is None:
            return None
        id_, kind = wish
        epoch, seq = stream.producers.get(id_, (0, -1)) if stream is not None else (0, -1)
        return {
            "next": (id_, epoch, seq + 1), "again": (id_, epoch, max(seq, 0)), "gap": (id_, epoch, seq + 3),
            "epoch": (id_, epoch + 1, 0), "stale": (id_, max(epoch - 1, 0), 0), "jump": (id_, epoch + 1, 2),
        }[kind]  # fmt: skip

    def _offset(self, name: Name, wish: str | int) -> str | None:
        """An offset of a kind, or one that some answer has shown before."""
        stream = self.world.streams.get(name)
        epoch, tail = (stream.epoch, stream.tail) if stream is not None else (0, 0)
        if isinstance(wish, int):
            return self.driver.tokens[wish % len(self.driver.tokens)] if self.driver.tokens else "-1"
        return {
            "none": None, "-1": "-1", "now": "now", "alias": "0000000000000000_0000000000000000",
            "tail": token_of(epoch, tail), "beyond": token_of(epoch, tail + 1), "garbage": "0" * 25 + "U",
            "later-epoch": token_of(epoch + 1, tail), "lower": token_of(epoch, tail).lower(),
        }[wish]  # fmt: skip

    async def _follow_poll(self, name: Name, action: str) -> None:
        stream = self.world.streams[name]
        tail = stream.tail
        path = path_of(name, v1=True) + query_of(offset=stream.token(tail), live="long-poll")
        poll = asyncio.create_task(ask(self.driver.node, "GET", path))
        await self._waiting(stream)
        await self._act(name, action)
        reply = await poll
        if action == "delete":
            assert (reply.status, code_of(reply)) == ((410, "gone") if stream.hidden else (404, "not_found"))
            return
        fresh = stream.entries[tail:]
        headers = {"stream-end-offset": stream.token(stream.tail), "stream-next-offset": stream.token(stream.tail),
                   "stream-up-to-date": "true", "stream-cursor": ANY}  # fmt: skip
        if stream.closed:
            del headers["stream-cursor"]
            headers["stream-closed"] = "true"
        if fresh:
            headers |= {"content-type": stream.content_type, "etag": ANY,
                        "cache-control": "public, max-age=60, stale-while-revalidate=300"}  # fmt: skip
            tag = Span(stream.life, tail, stream.tail, stream.closed, "")
            expected = Expected(200, headers, joined(fresh, as_json=stream.is_json), tag=tag)
        else:
            expected = Expected(204, headers | {"cache-control": "no-store"})
        fault = self.driver.fault(reply, expected)
        assert fault is None, fault

    async def _follow_events(self, name: Name, action: str, wish: str) -> None:
        stream = self.world.streams[name]
        at = 0 if wish == "-1" else stream.tail
        offset = {"-1": "-1", "now": "now", "tail": stream.token(stream.tail)}[wish]
        reader = self.driver.start("GET", path_of(name, v1=True) + query_of(offset=offset, live="sse"))
        stream.touch(self.world.now_us)
        at, seen = await self._caught_up(reader, stream, at, 0)
        await self._act(name, action)
        if action == "append":
            at, seen = await self._caught_up(reader, stream, at, seen)
            await reader.hang_up()
        else:
            async with asyncio.timeout(PATIENCE_S):
                await reader.task
            at, _ = self._told(reader, stream, at, seen)
        assert at == stream.tail
        encoding = None if is_text(stream) else "base64"
        headers = {name.decode(): value.decode() for name, value in reader.head["headers"]}
        assert headers.get("stream-sse-data-encoding") == encoding
        assert headers["content-type"] == "text/event-stream"

    async def _act(self, name: Name, action: str) -> None:
        """What happens to a stream while somebody reads it."""
        stream, path = self.world.streams[name], path_of(name, v1=True)
        if action == "delete":
            reply = await ask(self.driver.node, "DELETE", path)
            expected = self.world.delete(name, alive=True)
        else:
            body = b"" if action == "close" else written([1, " two\n"]) if stream.is_json else b" two\r\n\nlines\r"
            request = Append(body, stream.content_type, close="close" in action)
            reply = await ask(self.driver.node, "POST", path, headers_of(request), body)
            expected = self.world.post(name, request, alive=True)
        fault = self.driver.fault(reply, expected)
        assert fault is None, fault

    async def _waiting(self, stream: Stream) -> None:
        """Until the reader is attached and waits."""
        stream.touch(self.world.now_us)
        async with asyncio.timeout(PATIENCE_S):
            while not any(hub._waiters for hub in self.driver.node.context.live._hubs.values()):  # noqa: ASYNC110
                await asyncio.sleep(0)

    async def _caught_up(self, reader: Running, stream: Stream, at: int, seen: int) -> tuple[int, int]:
        """Read events until one says that there is no more."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                at, seen = self._told(reader, stream, at, seen)
                if at == stream.tail and seen:
                    return at, seen
                reader.grown.clear()
                await reader.grown.wait()

    def _told(self, reader: Running, stream: Stream, at: int, seen: int) -> tuple[int, int]:
        """Hold the new events against the stream: data and its control in turn, each of whole entries."""
        data: bytes | None = None
        for number, event in enumerate(events_of(reader.body)[seen:], start=seen + 1):
            assert event.kind in {"data", "control"}
            assert not event.other
            if event.kind == "data":
                assert data is None, "two data events without a control event"
                data = event.data
                continue
            said = json.loads(event.data)
            token = said.pop("streamNextOffset")
            end = next(end for end in range(at, stream.tail + 1) if stream.token(end) == token)
            assert data == (shown(stream, at, end) if end > at else None)
            last = end == stream.tail
            closed = {"streamClosed": True} if last and stream.closed else {"streamCursor": said.get("streamCursor")}
            assert said == closed | ({"upToDate": True} if last else {})
            assert "streamCursor" not in said or said["streamCursor"].isdigit()
            at, data, seen = end, None, number
        return at, seen

    def _read_all_back(self) -> None:
        """In the end every stream is there from its first entry to its last, page by page."""
        for name in sorted(self.world.streams):
            stream = self.world.streams[name]
            if self.world.possible(name) != [True] or stream.hidden:
                continue
            start, pages = 0, []
            while True:
                reply = self.driver.ask(
                    "GET", path_of(name, v1=True) + query_of(offset=stream.token(start), max_bytes=90)
                )
                pages.append(reply.body[1:-1] if stream.is_json else reply.body)
                start = next(
                    at
                    for at in range(start, stream.tail + 1)
                    if stream.token(at) == reply.headers["stream-next-offset"]
                )
                if "stream-up-to-date" in reply.headers:
                    break
            note(f"{name}: {stream.tail} entries")
            separator = b"," if stream.is_json else b""
            assert separator.join(page for page in pages if page) == separator.join(stream.entries)


TestProtocol = ProtocolMachine.TestCase
TestProtocol.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    print_blob=True,
)
