"""`GET /v1/streams` by offset is that part of the list of all streams, whatever has been made, deleted or has ended."""

import random
import sys
from collections.abc import Callable

import orjson
import pytest

from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess
from streams_node.wal import stretches
from tests.http.wire import ask

WithNode = Callable[..., None]
ROUNDS = 400


def seeded() -> int:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", file=sys.stderr)  # noqa: T201 - shown with a failure
    return seed


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("STREAMS_TARGET", 4), ("STREAMS_MAX", 8), ("_JOINED_MAX", 2)):
        monkeypatch.setattr(stretches, name, value)


def test_every_page_is_a_part_of_the_plain_list(with_node: WithNode) -> None:
    choice = random.Random(seeded())

    async def test(node: InProcess, clock: FakeClock) -> None:
        ends: dict[tuple[str, str], int | None] = {}
        for _round in range(ROUNDS):
            bucket, name = choice.choice("abc"), str(choice.randrange(40))
            path = f"/v1/stream/{bucket}/{name}"
            match choice.randrange(8):
                case 0 | 1 | 2 if ends.get((bucket, name), 0) is not None:
                    end_us = choice.choice([None, clock.now_us + choice.randrange(1, 9) * 1_000_000])
                    headers = {} if end_us is None else {"stream-expires-at": str(end_us * 1000)}
                    if (ends.get((bucket, name)) or 0) <= clock.now_us:
                        assert (await ask(node, "PUT", path, headers)).status == 201
                        ends[bucket, name] = end_us
                case 3:
                    living = (bucket, name) in ends and (ends[bucket, name] or clock.now_us + 1) > clock.now_us
                    assert (await ask(node, "DELETE", path)).status == (204 if living else 404)
                    ends.pop((bucket, name), None)
                case 4:
                    clock.advance(1)
                case 5:
                    await node.upkeep._tend_stretches()
                case 6:
                    await node.upkeep._end_streams()
            listed = sorted(one for one, end_us in ends.items() if end_us is None or end_us > clock.now_us)
            limit, offset = choice.choice([0, 1, 3, 1000]), choice.randrange(len(listed) + 3)
            page = orjson.loads((await ask(node, "GET", f"/v1/streams?limit={limit}&offset={offset}")).body)
            shown = [tuple(stream["name"].split("/")) for stream in page]
            assert shown == listed[offset : offset + limit], (limit, offset)

    with_node(test)


def test_a_full_page_is_full_although_streams_before_it_and_on_it_have_ended(with_node: WithNode) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        for at in range(30):
            headers = {"stream-ttl": "5"} if at % 3 == 0 else {}
            assert (await ask(node, "PUT", f"/v1/stream/{at:02d}", headers)).status == 201
        clock.advance(60)
        page = orjson.loads((await ask(node, "GET", "/v1/streams?limit=5&offset=10")).body)
        assert [stream["name"] for stream in page] == ["16", "17", "19", "20", "22"]

    with_node(test)
