"""What is counted about subscriptions moves when the thing happens."""

import re
from functools import partial
from pathlib import Path

from streams_node.testing.clock import FakeClock
from tests.docs.test_counted import OF_SUBSCRIPTIONS
from tests.subscriptions.receivers import receiving, said
from tests.subscriptions.world import Client, code, run, until


def test_every_counter_of_subscriptions_moves(tmp_path: Path) -> None:
    answers = [said(500), said(200), said(200, b'{"done":true}')]

    async def scenario(client: Client) -> None:
        async with receiving(lambda _: answers.pop(0) if answers else said(200)) as receiver:
            await client.webhook("h", receiver.url, "called/*", lease_ttl_ms=1000)
            await client.put("called/a", 1)
            for result in ("failed", "taken", "done"):
                await receiver.next()
                await until(partial(counted, client, f'streams_webhook_calls_total{{result="{result}"}}'))
                clock.advance(2)
            await client.pull("s", lease_ttl_ms=1000)
            await client.put("events/a", 1)
            assert (await numbers(client))["streams_subscription_news"] == 1
            first = await client.claim("s")
            clock.advance(2)
            await client.done("s", await client.claim("s"))
            assert code(await client.held("s", "/ack", first)) == (409, "FENCED")
            found = await numbers(client)
            moved = {name.partition("{")[0] for name, number in found.items() if number}
            assert moved >= OF_SUBSCRIPTIONS
            assert found["streams_subscriptions"] == 2
            assert found["streams_subscription_claims_total"] == 2
            assert found["streams_subscription_fenced_total"] == 1
            assert found["streams_subscription_leases_over_total"] == 2

    clock = FakeClock()
    run(tmp_path, scenario, clock=clock)


async def counted(client: Client, name: str) -> bool:
    return (await numbers(client))[name] > 0


async def numbers(client: Client) -> dict[str, float]:
    text = (await client.node.request("GET", "/metrics")).body.decode()
    return {name: float(number) for name, number in re.findall(r"^(streams_\S+) (\S+)$", text, re.MULTILINE)}
