"""What `_details` costs: an answer about a stream of very many sealed parts, and many who watch one that changes.

Without sockets: a node in this process, real SQLite and a folder as its object store. Each part is a real object.

python -m ops.bench.details                        # 3 minutes; leave the machine alone meanwhile
python -m ops.bench.details --out DETAILS.md       # and write it down, with the day and the machine
python -m ops.bench.details --segments 0           # the watchers only
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ops.bench import machine
from ops.bench.errors import BenchError
from ops.bench.stats import percentile
from streams_node.testing.inprocess import Answer, InProcess, in_process

HERE = Path(__file__).parent
PATH = "/v1/stream/watched"
JSON = {"content-type": "application/json"}
OK = 200
ENTRIES_AN_APPEND = 100
# An entry a part, and no merging of them; the node does everything else as ever.
PARTS: dict[str, Any] = {
    "tiers": True,
    "segment_entries": 1,
    "own_segment_bytes": 1,
    "compaction_packs": 1000,
    "compaction_pause_ms": 3_600_000,
}
SEAL_S_MAX = 600.0
ANSWER_MS_MAX, WATCHED_PERCENT_MAX = 10, 30  # the targets
HEAD = """# What `_details` costs

`python -m ops.bench.details --out DETAILS.md`. A node in one process with its client, without sockets.

"""


# --- an answer ------------------------------------------------------------------------------------------------------


async def answers(segments: int, rounds: int) -> list[str]:
    """Times of answers about a stream of so many parts: the same state again, and the next one after an append."""
    with tempfile.TemporaryDirectory() as name:
        async with in_process(Path(name) / "node", **PARTS) as node:
            await cut_up(node, segments)
            await details(node)
            same = [await timed(lambda: details(node)) for _ in range(rounds)]
            following = []
            for _ in range(rounds):
                await node.request("POST", PATH, JSON, b'[{"a":1}]')
                following.append(await timed(lambda: details(node)))
    return [_row("the same state again", same), _row("the state after an append", following)]


async def cut_up(node: InProcess, segments: int) -> None:
    """A stream of so many sealed parts, all of them in the object store."""
    await node.request("PUT", PATH, JSON)
    body = json.dumps([{"a": 1}] * ENTRIES_AN_APPEND).encode()
    for _ in range(segments // ENTRIES_AN_APPEND):
        await node.request("POST", PATH, JSON, body)
    ends = time.monotonic() + SEAL_S_MAX
    while time.monotonic() < ends:
        await node.request("POST", f"{PATH}/_flush")
        if json.loads((await details(node)).body)["stream"]["uploaded_segment_count"] >= segments:
            return
    raise BenchError(f"{segments} parts were not sealed in {SEAL_S_MAX:.0f} s")


async def details(node: InProcess) -> Answer:
    answer = await node.request("GET", f"{PATH}/_details")
    if answer.status != OK:
        raise BenchError(f"status {answer.status}")
    return answer


async def timed(act: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Milliseconds on the clock, and of the processor; other threads of the process count, too."""
    began, worked = time.perf_counter(), time.process_time()
    await act()
    return 1000 * (time.perf_counter() - began), 1000 * (time.process_time() - worked)


def _row(what: str, times: list[tuple[float, float]]) -> str:
    clock, processor = (sorted(each) for each in zip(*times, strict=True))
    p99 = percentile(clock, 0.99)
    numbers = (percentile(clock, 0.5), p99, clock[-1], percentile(processor, 0.5), percentile(processor, 0.99))
    return (
        f"| {what} | {' | '.join(f'{each:.2f}' for each in numbers)} | {'yes' if p99 < ANSWER_MS_MAX else '**no**'} |"
    )


# --- many who watch -------------------------------------------------------------------------------------------------


async def watch(node: InProcess, ends: float) -> int:
    """Follow the stream as a client does; how often it was told of a change."""
    tag, heard = "", 0
    while time.monotonic() < ends:
        answer = await node.request(
            "GET", f"{PATH}/_details?live=long-poll&timeout_ms=2000", {"if-none-match": tag} if tag else {}
        )
        heard += answer.status == OK
        tag = answer.headers["etag"]
    return heard


async def watched(watchers: int, changes: float, seconds: float) -> tuple[float, str]:
    """The share of a core in percent, and a row."""
    with tempfile.TemporaryDirectory() as name:
        async with in_process(Path(name) / "node") as node:
            await node.request("PUT", PATH, JSON)
            ends = (start := time.monotonic()) + seconds
            began, made = time.process_time(), node.context.details.made
            watching = [asyncio.ensure_future(watch(node, ends)) for _ in range(watchers)]
            appended = 0
            while time.monotonic() < ends:
                await node.request("POST", PATH, JSON, b'[{"a":1}]')
                appended += 1
                await asyncio.sleep(max(0.0, start + appended / changes - time.monotonic()))
            busy = time.process_time() - began
            heard = sum(await asyncio.gather(*watching))
            share = 100 * busy / seconds
            made = node.context.details.made - made
    return share, f"| {watchers:,} | {appended} | {made} | {heard:,} | {share:.0f} |"


# --- both -----------------------------------------------------------------------------------------------------------


def report(asked: argparse.Namespace) -> str:
    lines = []
    if asked.segments:
        rows = asyncio.run(answers(asked.segments, asked.rounds))
        lines += [f"{asked.segments:,} sealed parts, {asked.rounds:,} answers each, in ms:", ""]
        head = f"| | p50 | p99 | longest | processor, p50 | processor, p99 | p99 < {ANSWER_MS_MAX} ms |"
        lines += [head, _rule(7), *rows, "", _load(), ""]
    both = [asyncio.run(watched(number, asked.changes, asked.seconds)) for number in (0, asked.watchers)]
    met = "met" if both[-1][0] <= WATCHED_PERCENT_MAX else "**missed**"
    lines += [
        f"{asked.changes:g} changes a second, {asked.seconds:g} s; at most {WATCHED_PERCENT_MAX} % of a core: {met}.",
        "Clients and appends are in it. A thousand watchers are told together, once a second, of all changes since.",
        "",
    ]
    lines += ["| watchers | changes | bodies made | answers | % of a core |", _rule(5), *(row for _, row in both), ""]
    return "\n".join([*lines, machine.stamp(HERE), ""])


def _load() -> str:
    """How many others wanted a core meanwhile: what the clock says is right on a quiet machine only."""
    return f"Load of the machine in those minutes: {os.getloadavg()[1]:.1f}; clocks are right where nobody else works."


def _rule(columns: int) -> str:
    return "| --- " * columns + "|"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, default=10_000, help="sealed parts of the stream; 0: watchers only")
    parser.add_argument("--rounds", type=int, default=1000, help="answers that are timed")
    parser.add_argument("--watchers", type=int, default=1000)
    parser.add_argument("--changes", type=float, default=10.0, help="a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=Path, help="a file in this folder that it is written to")
    asked = parser.parse_args()
    told = report(asked)
    print(told)
    if asked.out is not None:
        (HERE / asked.out).write_text(HEAD + told, encoding="utf-8")


if __name__ == "__main__":
    main()
