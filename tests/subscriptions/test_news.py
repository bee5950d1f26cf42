"""That no entry is left out of what subscriptions are told, however little of it memory had room for."""

import asyncio
import json
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from streams_node.subscriptions import maker, news, patterns, registry
from streams_node.subscriptions.patterns import Trie, parse
from streams_node.subscriptions.subscription import Subscription
from streams_node.subscriptions.tables import find_links
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import in_process
from streams_node.wal.lookup import Name
from tests.subscriptions.receivers import receiving
from tests.subscriptions.world import BEGINNING, Client, code, has, run, until


async def told(client: Client, path: str) -> str | None:
    """From where on a worker is told of a stream, if it is."""
    answer = await client.of("s", "POST", "/claim", {"worker": "w"})
    if answer.status != 200:
        return None
    claim = json.loads(answer.body)
    await client.held("s", "/release", claim)
    return {each["path"]: each["acked_offset"] for each in claim["streams"] if each["has_pending"]}.get(path)


async def told_from(client: Client, path: str, offset: str) -> bool:
    return await told(client, path) == offset


@pytest.mark.usefixtures("matched")
def test_a_stream_that_is_made_again_during_a_wake_is_news(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s")
        await client.put("events/a", 1, 2)
        claim = await client.claim("s")
        assert (await client.ask("DELETE", "events/a")).status == 204
        await client.put("events/a", 3)
        await client.append("events/a", 4)
        await until(lambda: has(client, "s", {"events/a": BEGINNING}))
        await client.node.context.subscriptions._news.move_on()  # as it happens now and then
        await client.held("s", "/release", claim)
        await until(lambda: told_from(client, "events/a", BEGINNING))

    run(tmp_path, scenario)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("wanted", [{"pattern": "events/*"}, {"pattern": "wake/*", "streams": ["events/fork"]}])
def test_a_fork_is_news_with_all_that_it_shares(tmp_path: Path, wanted: dict[str, Any], *, restarted: bool) -> None:
    """Whoever was told of the source's entries was not told of the fork's; and the source may be of no interest."""
    clock = FakeClock()
    made = {"type": "pull-wake", "wake_stream": "wake/pool", **wanted}

    async def before(client: Client) -> None:
        await client.put("wake/pool")
        await client.put("archive/source", 1, 2)
        forked = {"stream-forked-from": "/v1/stream/archive/source"}
        assert (await client.ask("PUT", "events/old", None, **forked)).status == 201
        clock.advance(1)
        await client.subscribe("s", **made)
        clock.advance(1)
        assert (await client.ask("PUT", "events/fork", None, **forked)).status == 201
        if "streams" not in wanted:  # the making of it wakes nobody, but whoever named it may claim it
            assert code(await client.of("s", "POST", "/claim", {"worker": "w"})) == (409, "NO_PENDING_WORK")
        if not restarted:
            await after(client)

    async def after(client: Client) -> None:
        end = await client.append("events/fork", 3)
        old = await client.append("events/old", 3)
        claim = await client.claim("s")
        told = {each["path"]: (each["acked_offset"], each["tail_offset"]) for each in claim["streams"]}
        assert told.pop("events/fork") == (BEGINNING, end)
        if "streams" not in wanted:  # the other one was there, with what it shares
            assert told == {
                "events/old": ((await client.ask("HEAD", "archive/source")).headers["stream-next-offset"], old)
            }
        await client.done("s", claim)
        assert (await client.acked("s"))["events/fork"] == end

    run(tmp_path, before, clock=clock)
    if restarted:
        run(tmp_path, after, clock=clock)


@pytest.mark.usefixtures("matched")
def test_a_stream_that_came_and_went_leaves_no_link(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s")
        for _ in range(5):
            await client.put("events/a", 1)
            assert (await client.ask("DELETE", "events/a")).status == 204
        await client.put("events/b", 1)
        await until(lambda: has(client, "s", {"events/b": BEGINNING}))

    run(tmp_path, scenario)


def test_what_memory_had_no_room_for_is_told_of_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news, "PENDING_MAX", 2)

    async def scenario(client: Client) -> None:
        await client.pull("s")
        for path in ("events/a", "events/b", "events/c"):  # the last one finds no room
            await client.put(path, 1)
        claim = await client.claim("s")
        acks = [{"stream": "events/a", "offset": claim["streams"][0]["tail_offset"]}]
        assert claim["streams"][0]["path"] == "events/a"
        assert (await client.held("s", "/ack", claim, acks=acks)).status == 200
        await client.append("events/c", 2)  # now there is room, and more to tell of
        await client.held("s", "/release", claim)
        await until(lambda: told_from(client, "events/c", BEGINNING))

    run(tmp_path, scenario)


def test_what_the_last_life_did_not_note_is_told_of_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = asyncio.Event()
    sweep = news.News.sweep

    async def nothing(_: news.News) -> None:
        """As if the node had been killed before."""

    async def late_sweep(self: news.News) -> bool:
        await looked.wait()
        return await sweep(self)

    async def before(client: Client) -> None:
        await client.pull("s")
        await client.put("events/a", 1)

    async def after(client: Client) -> None:
        await client.append("events/a", 2)
        await client.node.context.subscriptions._news.settle()
        looked.set()
        await until(lambda: told_from(client, "events/a", BEGINNING))

    with monkeypatch.context() as patched:
        patched.setattr(news.News, "join", nothing)
        run(tmp_path, before)
    monkeypatch.setattr(news.News, "sweep", late_sweep)
    run(tmp_path, after)


# --- paths that take long ---------------------------------------------------------------------------------------------


class Walks:
    """Walks along paths come to their second place, and stay there until they are let on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pauses = 0
        self.under_way, self.let = asyncio.Event(), asyncio.Event()
        monkeypatch.setattr(patterns, "SLICE_PLACES", 0)
        monkeypatch.setattr(registry, "asyncio", SimpleNamespace(sleep=self._pause))

    async def _pause(self, _: float) -> None:
        self._pauses += 1
        if self._pauses > 1:
            self.under_way.set()
            await self.let.wait()


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> Walks:
    return Walks(monkeypatch)


async def announced(client: Client, id_: str) -> bool:
    return any(event["subscription_id"] == id_ for event in await client.events())


@pytest.mark.parametrize("named", [False, True], ids=["new", "named"])
def test_what_is_appended_behind_a_walk_wakes_who_came_behind_it(tmp_path: Path, walks: Walks, *, named: bool) -> None:
    """The walk finds who was there when it began, and the commit that comes meanwhile is matched by it, too."""

    async def scenario(client: Client) -> None:
        await client.put("events/a", 1)
        await client.pull("s")
        await client.pull("t", "other/*")
        await client.append("events/a", 2)
        await walks.under_way.wait()
        streams = {"streams": ["events/a"]}
        coming = asyncio.ensure_future(
            client.of("t", "POST", "/streams", streams) if named else client.pull("u", "*/a")
        )
        await until(partial(came, client, "t" if named else "u"))
        await client.append("events/a", 3)
        walks.let.set()
        await until(partial(announced, client, "t" if named else "u"))
        await coming

    run(tmp_path, scenario)


def test_a_long_walk_holds_nobody_else_up(tmp_path: Path, walks: Walks, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(client: Client) -> None:
        await client.put("events/a", 1)
        await client.pull("s")
        await client.pull("t", "other/*")
        await client.append("events/a", 2)
        await walks.under_way.wait()
        monkeypatch.setattr(patterns, "SLICE_PLACES", 1000)  # the other paths are short
        async with asyncio.timeout(5):
            await client.put("other/b", 1)
            claim = await client.claim("t")
            assert [each["path"] for each in claim["streams"]] == ["other/b"]
            await client.done("t", claim)
            await client.pull("u", "more/*")
            assert await has(client, "u", {})
        assert not await announced(client, "s")
        walks.let.set()
        await until(partial(announced, client, "s"))

    run(tmp_path, scenario)


def test_a_stream_that_is_made_again_while_its_end_is_matched_keeps_its_new_link(
    tmp_path: Path, walks: Walks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end takes what links there are by then: the new life joins after it."""
    looks = 0
    made_again = news.News._made_again

    def looked(self: news.News) -> bool:
        nonlocal looks
        looks += 1
        return made_again(self)

    async def looked_twice() -> bool:
        return looks > 1

    async def scenario(client: Client) -> None:
        await client.pull("s")
        await client.put("events/a", 1)
        await client.done("s", await client.claim("s"))
        monkeypatch.setattr(patterns, "SLICE_PLACES", 0)
        assert (await client.ask("DELETE", "events/a")).status == 204
        await walks.under_way.wait()
        monkeypatch.setattr(patterns, "SLICE_PLACES", 1000)
        await client.put("events/a", 2)
        await until(looked_twice)
        walks.let.set()
        await until(partial(told_from, client, "events/a", BEGINNING))
        await until(partial(has, client, "s", {"events/a": BEGINNING}))

    monkeypatch.setattr(patterns, "SLICE_PLACES", 1000)
    monkeypatch.setattr(news.News, "_made_again", looked)
    run(tmp_path, scenario)


def test_others_have_turns_between_streams_that_were_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As all of a commit behind its first paths that take long: each is found at once, and there may be thousands."""
    turn = 0
    matched_at: list[int] = []
    found = registry.Registry.found

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def noted(self: registry.Registry, name: Name) -> set[Subscription]:
        matched_at.append(turn)
        return await found(self, name)

    async def nothing(_: news.News) -> None:
        """As if the loop had not come to it."""

    async def scenario(client: Client) -> None:
        await client.pull("s")
        with monkeypatch.context() as patched:
            patched.setattr(news.News, "join", nothing)
            for number in range(8):
                await client.put(f"other/x{number}", number)
        monkeypatch.setattr(registry.Registry, "found", noted)
        counting = asyncio.ensure_future(count())
        await client.node.context.subscriptions._news.join()
        counting.cancel()
        assert len(set(matched_at)) == len(matched_at) == 8

    monkeypatch.setattr(news, "LONG_MAX", 0)
    run(tmp_path, scenario)


async def came(client: Client, id_: str) -> bool:
    """Whether a subscription hears of `events/a`, and begins at its end."""
    context = client.node.context
    subscription = context.subscriptions.registry.get(id_)
    if subscription is None:
        return False
    names = [Name("events", "a")]
    return bool(await context.ledger.database.readers.run(find_links, subscription.number, names))


# --- little memory ----------------------------------------------------------------------------------------------------


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for next to nothing, so that everything goes the long way."""
    monkeypatch.setattr(news, "PENDING_MAX", 3)
    monkeypatch.setattr(news, "QUEUE_MAX", 4)
    monkeypatch.setattr(news, "_SLICE", 2)
    monkeypatch.setattr(maker, "LINKED_MAX", 2)


@pytest.fixture(params=[False, True], ids=["quick", "long"])
def matched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the commits, or as if every path took too long for that."""
    if request.param:
        monkeypatch.setattr(patterns, "SLICE_PLACES", 0)
        monkeypatch.setattr(registry, "_LONG_MAX", 2)


PATTERNS = {"s": "events/*", "t": "**", "u": "*/x1", "v": "tenants/**"}
PATHS = [f"{bucket}/x{number}" for bucket in ("events", "tenants", "other") for number in range(8)]


class World:
    """Random writes, deletions and workers; and how long each stream has become."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.tails: dict[str, str] = {}
        self.news: set[str] = set()  # streams that were written to since there are subscriptions
        self.acked: dict[str, dict[str, str]] = {}  # of each subscription: what it may have no news before

    async def begin(self, client: Client) -> None:
        for path in self.random.sample(PATHS, 6):
            await self.write(client, path)
        for id_, pattern in PATTERNS.items():
            await client.pull(id_, pattern)
        self.news.clear()
        self.acked = {id_: dict(self.tails) for id_ in PATTERNS}

    async def live(self, client: Client) -> None:
        for _ in range(60):
            path = self.random.choice(PATHS)
            if path in self.tails and self.random.random() < 0.05:
                assert (await client.ask("DELETE", path)).status == 204
                del self.tails[path]
                for acked in self.acked.values():
                    acked.pop(path, None)
            else:
                await self.write(client, path)
            if self.random.random() < 0.3:
                await self.work(client, self.random.choice(list(PATTERNS)))

    async def write(self, client: Client, path: str) -> None:
        put = client.append if path in self.tails else client.put
        self.tails[path] = await put(path, *range(self.random.randint(1, 3)))
        self.news.add(path)

    async def work(self, client: Client, id_: str) -> None:
        answer = await client.of(id_, "POST", "/claim", {"worker": "w"})
        if answer.status == 200:
            claim = json.loads(answer.body)
            for each in claim["streams"]:
                if each["has_pending"]:  # from no later than what was acknowledged: nothing is left out
                    known = self.acked[id_].get(each["path"], BEGINNING)
                    assert each["acked_offset"] <= known, each
            if self.random.random() < 0.3:
                await client.held(id_, "/release", claim)
            else:
                await client.done(id_, claim)
                self.acked[id_] |= {each["path"]: each["tail_offset"] for each in claim["streams"]}

    def expected(self, id_: str) -> dict[str, str]:
        """The ends of all streams of a subscription, by looking at each."""
        trie = Trie[int]()
        trie.add(parse(PATTERNS[id_]), 0)
        return {path: tail for path, tail in self.tails.items() if trie.globs(Name(*path.split("/", 1)))}

    async def drained(self, client: Client, id_: str) -> bool:
        """Whether everything is acknowledged. Only what nobody wrote to since may have no link."""
        await self.work(client, id_)
        acked, expected = await client.acked(id_), self.expected(id_)
        return all(acked[path] == tail if path in acked else path not in self.news for path, tail in expected.items())


@pytest.mark.usefixtures("little", "matched")
@pytest.mark.parametrize("seed", range(3))
def test_everything_that_was_written_is_acknowledged_in_the_end(tmp_path: Path, seed: int) -> None:
    """Over restarts, against a model that looks at every pattern for every stream."""

    async def scenario() -> None:
        world = World(seed)
        for turn in range(4):
            async with in_process(tmp_path, heads_flush_rows=5) as node:
                client = Client(node)
                if turn == 0:
                    await world.begin(client)
                if turn < 3:
                    await world.live(client)
                    continue
                for id_ in PATTERNS:
                    await until(partial(world.drained, client, id_))
                    await until(partial(idle, client, id_))
                    acked = await client.acked(id_)
                    assert set(acked) <= set(world.expected(id_))

    asyncio.run(scenario())


async def idle(client: Client, id_: str) -> bool:
    answer = await client.of(id_, "POST", "/claim", {"worker": "w"})
    if answer.status == 200:
        await client.done(id_, json.loads(answer.body))
    return answer.status == 409


@pytest.mark.usefixtures("little")
def test_a_webhook_hears_of_every_stream_with_room_for_three(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        async with receiving() as receiver:
            await client.webhook("s", receiver.url)
            receiver.open.clear()
            wanted = {f"events/x{number}": await client.put(f"events/x{number}", number) for number in range(25)}
            receiver.open.set()
            heard: dict[str, str] = {}
            while heard != wanted:
                heard |= (await receiver.next()).tails()

    run(tmp_path, scenario, heads_flush_rows=5)
