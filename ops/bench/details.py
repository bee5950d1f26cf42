"""What watchers of `_details` cost: many long-polls on one stream that changes all the time, without sockets.

python -m ops.bench.details --watchers 1000 --changes 10 --seconds 8
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from streams_node.testing.inprocess import InProcess, in_process

PATH = "/v1/stream/watched"
JSON = {"content-type": "application/json"}


async def watch(node: InProcess, ends: float) -> int:
    """Follow the stream as a client does; how often it was told of a change."""
    tag, heard = "", 0
    while time.monotonic() < ends:
        answer = await node.request(
            "GET", f"{PATH}/_details?live=long-poll&timeout_ms=2000", {"if-none-match": tag} if tag else {}
        )
        heard += answer.status == 200  # noqa: PLR2004 - an HTTP status
        tag = answer.headers["etag"]
    return heard


async def measure(watchers: int, changes: float, seconds: float) -> str:
    with tempfile.TemporaryDirectory() as name:
        async with in_process(Path(name) / "node") as node:
            await node.request("PUT", PATH, JSON)
            ends = time.monotonic() + seconds
            began, made = time.process_time(), node.context.details.made
            watching = [asyncio.ensure_future(watch(node, ends)) for _ in range(watchers)]
            appended = 0
            while time.monotonic() < ends:
                await node.request("POST", PATH, JSON, b'[{"a":1}]')
                appended += 1
                await asyncio.sleep(1 / changes)
            busy = time.process_time() - began
            heard = sum(await asyncio.gather(*watching))
            share = 100 * busy / seconds
            made = node.context.details.made - made
    return f"{watchers} watchers: {share:.0f} % of a core, {appended} changes, {made} bodies, {heard} answers"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--watchers", type=int, default=1000)
    parser.add_argument("--changes", type=float, default=10.0, help="a second")
    parser.add_argument("--seconds", type=float, default=8.0)
    asked = parser.parse_args()
    for watchers in (0, asked.watchers):
        print(asyncio.run(measure(watchers, asked.changes, asked.seconds)))


if __name__ == "__main__":
    main()
