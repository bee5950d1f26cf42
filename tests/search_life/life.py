"""Streams that live through everything a node does to them, and what a search has to say of them at each moment.

An answer is judged by the plain evaluator over the entries that its `coverage` claims, page by page.
"""

import json
import sqlite3
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

from search.engine import SortKey, after_of, sort_of
from search.engine.sorting import place_of
from search.language import QueryError, query, scorer
from streams_node.protocol.offsets import decode
from streams_node.schema.search_config import SearchConfig, parse
from streams_node.searching.hits import values_of
from streams_node.testing.inprocess import InProcess
from streams_node.wal.lookup import Name
from tests.http.wire import Reply, ask
from tests.indexing.world import FakeDriver, sealed
from tests.search.test_oracle import QUERIES, SORTS, entry
from tests.search.world import JSON, SEARCH, append, post

PAGES_MAX = 6
STEPS = ["append"] * 5 + ["seal"] * 3 + ["index"] * 3 + ["merge", "trim", "declare", "fork", "anew"]
_BOUNDLESS = 64 << 20


def _declarations() -> list[dict[str, Any]]:
    """The same entries, understood in other ways."""
    plain, other = deepcopy(SEARCH), deepcopy(SEARCH)
    del plain["fields"]["level"]["normalizer"]
    plain["defaultFields"] = [{"field": "title"}]
    other["fields"]["status"] = {**other["fields"]["status"], "kind": "keyword"}
    del other["fields"]["title"]
    other["defaultFields"] = [{"field": "text"}]
    return [SEARCH, plain, other]


DECLARATIONS = _declarations()
CONFIGS: list[SearchConfig] = [parse(each) for each in DECLARATIONS]


@dataclass
class Stream:
    """What a stream has, by itself or out of the one that it is a fork of."""

    name: str
    entries: list[Any] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)  # behind each entry
    earliest: int = 0
    declared: int | None = None

    @property
    def path(self) -> str:
        return f"/v1/stream/{self.name}"


class Life:
    """A few streams, and what happens to them. Nodes come and go."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.streams: dict[str, Stream] = {}
        self.serial = 0
        self.pages = 0
        self.left_out = 0
        self.indexed = 0
        self.timed_out = 0

    # --- what happens ---

    async def begin(self, node: InProcess, name: str) -> Stream:
        stream = self.streams[name] = Stream(name)
        assert (await ask(node, "PUT", stream.path, JSON)).status == 201
        await self._declare(node, stream, 0)
        return stream

    async def step(self, node: InProcess) -> None:
        random = self.random
        stream = random.choice(list(self.streams.values()))
        driver = FakeDriver(node)
        match random.choice(
            ["append"] * 5 + ["seal"] * 3 + ["index"] * 3 + ["merge", "trim", "declare", "fork", "anew"]
        ):
            case "append":
                await self.append(node, stream)
            case "seal":
                await sealed(node)
            case "index":
                await driver.round()
            case "merge":
                await driver.finish()
            case "trim":
                await self._trim(node, stream)
            case "declare":
                await self._declare(node, stream, random.randrange(len(CONFIGS)))
            case "fork":
                await self._fork(node, stream)
            case "anew" if len(self.streams) > 1:
                assert (await ask(node, "DELETE", stream.path)).status == 204
                assert (await post(node, stream.path, q="card")).status in {404, 410}
                del self.streams[stream.name]
                reply = await ask(node, "PUT", stream.path, JSON)
                if reply.status == 201:  # it is not kept for a fork
                    self.streams[stream.name] = fresh = Stream(stream.name)
                    await self._declare(node, fresh, 0)

    async def append(self, node: InProcess, stream: Stream) -> None:
        for _ in range(self.random.randrange(1, 4)):
            count = self.random.randrange(1, 20)
            made = [{**entry(self.random), "seq": len(stream.entries) + at} for at in range(count)]
            reply = await ask(node, "POST", stream.path, JSON, json.dumps(made).encode())
            assert reply.status == 204, reply
            stream.entries += made
            stream.tokens += [""] * (count - 1) + [reply.headers["stream-next-offset"]]

    async def _declare(self, node: InProcess, stream: Stream, number: int) -> None:
        body = {"schema": {"type": "object"}} if stream.declared is None else {}
        stream.declared = number
        said = json.dumps({**body, "search": DECLARATIONS[number]}).encode()
        reply = await ask(node, "POST", f"{stream.path}/_schema", JSON, said)
        assert reply.status == 200, reply

    async def _trim(self, node: InProcess, stream: Stream) -> None:
        stream.earliest = self.random.randint(stream.earliest, min(len(stream.entries), stream.earliest + 25))
        ledger = node.context.ledger
        state = await ledger.readable(Name("_default", stream.name))
        await ledger.committer.settled()

        def write(db: sqlite3.Connection) -> None:
            db.execute("UPDATE streams SET earliest_seq = ? WHERE id = ?", (stream.earliest, state.id))

        await node.context.database.writer.run(write)
        state.earliest_seq = stream.earliest

    async def _fork(self, node: InProcess, source: Stream) -> None:
        ends = [seq for seq, token in enumerate(source.tokens) if token and seq + 1 >= source.earliest]
        if not ends or len(self.streams) > 3:
            return
        self.serial += 1
        end = self.random.choice(ends) + 1
        fork = Stream(f"fork{self.serial}", source.entries[:end], source.tokens[:end], source.earliest, source.declared)
        headers = {**JSON, "stream-forked-from": source.path, "stream-fork-offset": source.tokens[end - 1]}
        reply = await ask(node, "PUT", fork.path, headers)
        assert reply.status == 201, reply
        self.streams[fork.name] = fork

    # --- what is said of it ---

    async def check(self, node: InProcess, times: int, *, total: bool = True, timeout_ms: int = 30_000) -> None:
        """Some searches. With `total` false, what is left out may be left out for another reason than the budget."""
        for _ in range(times):
            stream = self.random.choice(list(self.streams.values()))
            budget = self.random.choice([_BOUNDLESS] * 2 + [self.random.randrange(1 << 13)])
            node.context.searches.scan_bytes = budget
            try:
                await self.walk(node, stream, total=total and budget == _BOUNDLESS, timeout_ms=timeout_ms)
            finally:
                node.context.searches.scan_bytes = _BOUNDLESS

    async def walk(self, node: InProcess, stream: Stream, *, total: bool, timeout_ms: int = 30_000) -> None:
        """A query, page by page."""
        q, sort = self.random.choice(QUERIES), self.random.choice(SORTS)
        size, after = self.random.choice([1, 3, 7, 50]), None
        for _ in range(PAGES_MAX):
            asked = {"q": q, "sort": sort, "size": size, "search_after": after, "timeout_ms": timeout_ms}
            judge = judge_of(stream, q, sort)
            reply = await post(node, stream.path, **asked)
            if judge is None:
                assert reply.status == 400, reply
                return
            view = judged(stream, reply, judge, asked)
            self.pages += 1
            self.left_out += bool(view["coverage"]["omitted"])
            self.timed_out += view["timed_out"]
            self.indexed += bool(view["coverage"]["indexed_segments"])
            if total:
                assert view["coverage"]["complete"], view["coverage"]
            after = view["next_search_after"]
            if after is None:
                return


class Judge:
    """What the evaluator says of entries, for one query and one order."""

    def __init__(self, q: str, sort: Sequence[str], config: SearchConfig) -> None:
        plan = query(q, config)
        self.keys: tuple[SortKey, ...] = sort_of(sort, plan, config)
        self._score = scorer(plan, 1)
        self._place: Callable[..., Any] = place_of(self.keys)
        self._values = values_of(self.keys, 1)

    def after(self, raw: Sequence[Any]) -> Any:
        return self._place(after_of(raw, self.keys, lambda token: seq_of(token) - 1))

    def hit(self, record: Any, seq: int) -> Any:
        """Its place, or None."""
        score = self._score(record)
        return None if score is None else self._place(self._values(record, seq, score))


def judge_of(stream: Stream, q: str, sort: Sequence[str]) -> Judge | None:
    """None when the stream cannot be asked that."""
    try:
        return Judge(q, sort, CONFIGS[stream.declared or 0])
    except QueryError:
        return None


def judged(stream: Stream, reply: Reply, judge: Judge, asked: dict[str, Any]) -> dict[str, Any]:
    """A page that is what the evaluator finds in the entries that it claims."""
    view: dict[str, Any] = json.loads(reply.body)
    assert reply.status == (408 if view.get("timed_out") else 200), reply
    coverage, size, raw = view["coverage"], asked["size"], asked["search_after"]
    omitted = [(seq_of(first), seq_of(end)) for first, end in coverage["omitted"]]
    assert all(a < b for a, b in omitted)
    assert all(end < first for (_, end), (first, _) in pairwise(omitted))
    assert all(stream.earliest <= a and b <= len(stream.entries) for a, b in omitted)
    count = sum(b - a for a, b in omitted)
    assert coverage["possible_missing_events_upper_bound"] == count
    assert coverage["complete"] == (not omitted and not view["timed_out"])
    assert (coverage["oldest_omitted_append_at"] is None) <= (not omitted)
    assert seq_of(coverage["stream_head_offset"]) == len(stream.entries)
    assert seq_of(coverage["visible_through_offset"]) == (omitted[0][0] if omitted else len(stream.entries))
    bound = None if raw is None else judge.after(raw)

    places = [(judge.hit(record, seq), seq) for seq, record in enumerate(stream.entries) if seq >= stream.earliest]
    matching = sorted(each for each in places if each[0] is not None and (bound is None or each[0] > bound))
    claimed = [each for each in matching if not any(first <= each[1] < end for first, end in omitted)]
    goes_on = view["next_search_after"]
    wanted = [seq for place, seq in claimed if goes_on is None or place <= judge.after(goes_on)]
    made = [seq_of(hit["offset"]) - 1 for hit in view["hits"]]
    if view["timed_out"]:  # an index may have found something more before the time was up
        assert [seq for _, seq in matching if seq in set(made)] == made, asked
        assert set(wanted) <= set(made), asked
    else:
        assert made == wanted, (stream.name, asked, coverage)
    assert [hit["source"] for hit in view["hits"]] == [stream.entries[seq] for seq in made]
    assert len(made) <= size
    exact = coverage["complete"] and goes_on is None
    assert view["total"] == {"value": len(made), "relation": "eq" if exact else "gte"}
    if len(made) == size:
        assert goes_on == view["hits"][-1]["sort"]
    assert goes_on is None or omitted or len(made) == size
    if exact:
        assert made == [seq for _, seq in matching]
    return view


def seq_of(token: str) -> int:
    position = decode(token)
    assert position is not None
    return position.seq


async def found_at_once(node: InProcess, stream: Stream, word: str) -> dict[str, Any]:
    """A word that nobody else has is appended and searched: it is found, or it is in what was left out."""
    seq = len(stream.entries)
    stream.entries.append({"text": word, "title": word, "seq": seq})
    stream.tokens.append("")
    await append(node, [stream.entries[-1]], stream.path)
    reply = await post(node, stream.path, q=word)
    view: dict[str, Any] = json.loads(reply.body)
    assert reply.status in {200, 408}, reply
    made = [hit["source"]["seq"] for hit in view["hits"]]
    omitted = [(seq_of(first), seq_of(end)) for first, end in view["coverage"]["omitted"]]
    if made != [seq]:
        assert made == []
        assert any(a <= seq < b for a, b in omitted), view
        assert view["total"]["relation"] == "gte"
        assert view["coverage"]["possible_missing_events_upper_bound"] == sum(b - a for a, b in omitted)
    return view
