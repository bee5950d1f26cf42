"""The successes of the routes of indexes: a node that has its tiers, and a driver without Spark."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from indexers.messages import ClaimRequest, RenewRequest
from streams_node.testing.inprocess import Answer, InProcess
from tests.indexing.world import JSON, FakeDriver, append, create, indexed, sealed

Request = Callable[..., Awaitable[Answer]]
Watch = Callable[[InProcess], Request]


async def walk_indexes(folder: Path, watch: Watch) -> None:
    async with indexed(folder / "node") as node:
        request = watch(node)
        await create(node, "/v1/stream/shop/orders")
        await append(node, "/v1/stream/shop/orders", [{"k": "x"}] * 3)
        await sealed(node)
        await _drive(node, request)
        for path in ("/v1/stream/shop/orders", "/shop/orders"):
            status = await request("GET", f"{path}/_index_status")
            tag: Mapping[str, str] = {"if-none-match": status.headers["etag"]}
            await request("GET", f"{path}/_index_status", tag)
            await request("POST", f"{path}/_index/rebuild", JSON, b"{}")
            told = await request("GET", f"{path}/_details")
            await request("GET", f"{path}/_details", {"if-none-match": told.headers["etag"]})
            await request("GET", f"{path}/_routing_keys")
            await request("GET", f"{path}/_producers")
        await request("GET", "/v1/server/_index")


async def _drive(node: InProcess, request: Request) -> None:
    driver = FakeDriver(node)
    ask = "/v1/server/_index"
    answer = await request("POST", f"{ask}/claim", JSON, msgspec.json.encode(ClaimRequest(driver="walk")))
    claim = driver.claim_in(answer.body)
    renewal = RenewRequest(claim=claim.claim, fence=claim.fence)
    await request("POST", f"{ask}/renew", JSON, msgspec.json.encode(renewal))
    await request("POST", f"{ask}/commit", JSON, msgspec.json.encode(driver.built(claim)))
    await request("POST", f"{ask}/claim", JSON, msgspec.json.encode(ClaimRequest(driver="walk")))
