"""What subscriptions cost appends: random ones of a million streams, without any, and with a thousand globs.

Two nodes with the same million streams, in a thousand buckets, are measured in turn. One has a subscription to each
bucket: webhooks that a receiver says are done, or `pull-wake` without a worker. Every append is news for exactly one.

    python -m ops.bench.subscriptions [--kind webhook|pull-wake] [--rounds 5] [--seconds 5] [--dir DIR] [--out FILE]
"""

import argparse
import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from urllib.request import Request, urlopen

import sql
from ops.bench import load, machine, proc
from ops.bench.million import sequence
from ops.bench.wire import HOST
from streams_node.wal.folder import DATABASE
from streams_node.wal.migrate import migrate

STREAMS, GROUPS = 1_000_000, 1000
PORTS = {"without": 4471, "with": 4472}
RECEIVER_PORT = 4473
CONNECTIONS = 64
OCTETS = "application/octet-stream"
BODY_BYTES = 200
MICROS = 1e6
READY_S = 120.0
_TARGET = 0.8
_STREAM_SQL, _BUCKET_SQL = sql.queries("streams"), sql.queries("buckets")
_RECEIVER = """
import asyncio, re
told = 0
async def serve(reader, writer):
    global told
    try:
        head = await reader.readuntil(b"\\r\\n\\r\\n")
    except asyncio.IncompleteReadError:
        return writer.close()
    body = await reader.readexactly(int(re.search(rb"(?i)content-length: (\\d+)", head)[1]))
    told += body.count(b'"has_pending":true')
    answer = b'{"done":true,"told":%d}' % told if body != b"{}" else b"%d" % told
    writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(answer) + answer)
    await writer.drain()
    writer.close()
async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", PORT) as server:
        await server.serve_forever()
asyncio.run(main())
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m ops.bench.subscriptions", description="Appends under subscriptions."
    )
    parser.add_argument("--kind", choices=("webhook", "pull-wake"), default="webhook")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--dir", type=Path, help="where the data folders are made")
    parser.add_argument("--out", type=Path, help="write the result to FILE, too, behind what it holds")
    options = parser.parse_args()
    load.ensure_wrk()
    folder = Path(tempfile.mkdtemp(prefix="subscriptions-", dir=options.dir))
    try:
        return run(folder, options)
    finally:
        shutil.rmtree(folder)


def run(folder: Path, options: argparse.Namespace) -> int:
    began = time.perf_counter()
    fill(folder / "without", options.streams)
    shutil.copytree(folder / "without", folder / "with")
    print(f"{options.streams:,} streams made in {time.perf_counter() - began:.0f} s", flush=True)
    body = load.write_bodies(folder / "bodies", (b"x" * BODY_BYTES,))[0]
    with receiver(), node(folder / "without", "without") as plain, node(folder / "with", "with") as subscribed:
        subscribe(options.kind)
        pids = {"without": plain, "with": subscribed}
        samples = measure(pids, body, options)
        rss = {name: proc.tree_rss_mib(pid) for name, pid in pids.items()}
        told = int(ask("POST", f"http://{HOST}:{RECEIVER_PORT}/", {}))
    text, missed = page(options, samples, rss, told, machine.stamp(folder))
    print(text)
    if options.out is not None:
        with options.out.open("a", encoding="utf-8") as out:
            out.write(text)
    return int(missed)


def fill(folder: Path, streams: int) -> None:
    """The streams as a node would have made them, without a request for each."""
    folder.mkdir()
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        migrate(db)
        db.execute("BEGIN")
        for bucket in range(GROUPS):
            db.execute(_BUCKET_SQL.insert_bucket, (bucket + 1, f"t{bucket:03d}", 1))
            db.execute(_BUCKET_SQL.count_streams, (streams // GROUPS, bucket + 1))
        for bucket in range(GROUPS):
            indexes = range(bucket, streams, GROUPS)
            rows = [(bucket + 1, f"m{at:07d}", at + 1, OCTETS, 1, None, None, None, 0) for at in indexes]
            db.executemany(_STREAM_SQL.insert_stream, rows)
        db.executemany(_STREAM_SQL.insert_head, ((at + 1, 1) for at in range(streams)))
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@contextmanager
def node(folder: Path, name: str) -> Iterator[int]:
    """A node with the defaults, on a folder."""
    program = str(Path(sys.executable).with_name("streams-node"))
    command = [program, "serve", "--data", str(folder), "--port", str(PORTS[name]), "--no-auth"]
    with (folder.parent / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        until = time.monotonic() + READY_S
        while True:
            try:
                ask("GET", f"http://{HOST}:{PORTS[name]}/readyz")
                break
            except OSError:
                if time.monotonic() > until or process.poll() is not None:
                    raise
                time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


@contextmanager
def receiver() -> Iterator[None]:
    """Says that everything is done, and counts what it was told."""
    code = _RECEIVER.replace("PORT", str(RECEIVER_PORT))
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def subscribe(kind: str) -> None:
    """A subscription to each bucket."""
    base = f"http://{HOST}:{PORTS['with']}/v1/stream"
    began = time.perf_counter()
    ask("PUT", f"{base}/wake/pool", [])
    for bucket in range(GROUPS):
        wanted: dict[str, object] = {"type": kind, "pattern": f"t{bucket:03d}/*"}
        if kind == "webhook":
            wanted["webhook"] = {"url": f"http://{HOST}:{RECEIVER_PORT}/"}
        else:
            wanted["wake_stream"] = "wake/pool"
        ask("PUT", f"{base}/__ds/subscriptions/s{bucket}", wanted)
    print(f"{GROUPS:,} subscriptions made in {time.perf_counter() - began:.0f} s", flush=True)


def measure(pids: dict[str, int], body: Path, options: argparse.Namespace) -> dict[str, list[tuple[float, float]]]:
    """Appends a second, and processor time of each, round by round; the first round warms up."""
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in pids}
    states = dict.fromkeys(pids, 1)
    for turn in range(options.rounds + 1):
        for name in sorted(pids, reverse=bool(turn % 2)):
            cpu = proc.tree_cpu_seconds(pids[name])
            arguments = ["/v1/stream/t", str(options.streams), str(GROUPS), str(states[name]), OCTETS, str(body)]
            result = load.run_wrk(
                PORTS[name], "grouped.lua", arguments, connections=CONNECTIONS, seconds=options.seconds
            )
            cpu = proc.tree_cpu_seconds(pids[name]) - cpu
            states[name] = next(islice(sequence(states[name]), result.requests, None))
            rate = result.acknowledged / result.seconds
            if result.refused or result.socket_errors:
                print(f"{name}: {result.refused} refused, {result.socket_errors} connections broke", flush=True)
            if turn:
                samples[name].append((rate, cpu * MICROS / result.acknowledged))
                print(f"{name:8} {rate:8.0f} appends/s  {samples[name][-1][1]:6.1f} CPU µs/append", flush=True)
    return samples


def page(
    options: argparse.Namespace, samples: dict[str, list[tuple[float, float]]], rss: dict[str, float], told: int,
    stamp: str,
) -> tuple[str, bool]:  # fmt: skip
    """What came of it, for people, and whether the target was missed."""
    rounds = list(zip(samples["without"], samples["with"], strict=True))
    ratios = [held[0] / plain[0] for plain, held in rounds]
    median = statistics.median(ratios)
    rates = {name: statistics.median(rate for rate, _ in found) for name, found in samples.items()}
    lines = [
        f"## {options.kind}: {median:.2f} of the rate without",
        "",
        "| round | without, appends/s | with, appends/s | ratio | CPU µs/append without | with |",
        "| --- | --- | --- | --- | --- | --- |",
        *(
            f"| {turn} | {plain[0]:.0f} | {held[0]:.0f} | {held[0] / plain[0]:.2f} | {plain[1]:.0f} | {held[1]:.0f} |"
            for turn, (plain, held) in enumerate(rounds, 1)
        ),
        f"| median | {rates['without']:.0f} | {rates['with']:.0f} | {median:.2f} | | |",
        "",
        f"Target: {_TARGET} or more, by the median; {'missed' if median < _TARGET else 'met'}. "
        f"{options.streams:,} streams, {GROUPS:,} subscriptions, {CONNECTIONS} connections, "
        f"{options.seconds:g} s a round. "
        f"RSS {rss['with']:.0f} MiB against {rss['without']:.0f}. "
        + (f"The receiver was told of {told:,} streams with news." if options.kind == "webhook" else "Nobody claimed."),
        "",
        f"`python -m ops.bench.subscriptions --kind {options.kind}`; {stamp}.",
        "",
    ]
    return "\n".join(lines), median < _TARGET


def ask(method: str, url: str, body: object = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"content-type": "application/json"}, method=method)  # noqa: S310 - our own address
    with urlopen(request, timeout=READY_S) as answer:  # noqa: S310
        found: bytes = answer.read()
        return found


if __name__ == "__main__":
    raise SystemExit(main())
