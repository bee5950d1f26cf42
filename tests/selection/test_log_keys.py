"""Keyed reads of what is not sealed yet: the same entries as a plain list, and no bytes of the others."""

import json
import random
import sqlite3
from pathlib import Path
from urllib.parse import quote

import anyio
import pytest

from streams_node.protocol import frames
from streams_node.read.keyed import log_chunk
from streams_node.testing.inprocess import InProcess, in_process
from streams_node.wal import tails
from streams_node.wal.lookup import Name
from streams_node.wal.tails import LogEnd, read_keyed
from tests.http.wire import ask

JSON = {"content-type": "application/json"}
SIDES = ("/v1/stream/a", "/v1/stream/b")
KEYS = ("", "k", "kk", "k\x01", "ä", "rare")
LARGE, ROWS = 100_000, 1000


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux says what a process has read")
def test_entries_of_other_keys_are_not_read(tmp_path: Path) -> None:
    async def main() -> None:
        async with in_process(tmp_path / "node", queue_bytes_max=1 << 30, log_row_bytes_max=LARGE * 2) as node:
            await ask(node, "PUT", SIDES[0], JSON)
            rare = b""
            for at in range(ROWS):
                body = json.dumps({"n": at, "pad": "x" * LARGE}).encode()
                key = "rare" if at == ROWS // 2 else "other"
                rare = body if key == "rare" else rare
                assert (await ask(node, "POST", SIDES[0], JSON | {"stream-key": key}, body)).status == 204
            state = await node.context.ledger.readable(Name("_default", "a"))
            db = sqlite3.connect(node.context.database.path, isolation_level=None)
            try:
                (first, few), (whole, all_) = (read(db, state.id, state.tail, key) for key in ("rare", "other"))
            finally:
                db.close()
            assert (first, len(whole)) == ([rare], ROWS - 1)
            assert all_ > ROWS * LARGE  # so it would be noticed if they were read
            assert few < ROWS * 3 * 4096 + 2 * LARGE  # a row's own page, the pages that lead there, the one entry
            reply = await ask(node, "GET", f"{SIDES[0]}?offset=-1&key=rare")
            assert (reply.body, "stream-up-to-date" in reply.headers) == (b"[%b]" % rare, True)

    anyio.run(main)


def read(db: sqlite3.Connection, stream: int, tail: LogEnd, key: str) -> tuple[list[bytes], int]:
    """All entries with a key, and how many bytes it took to find them."""
    entries: list[bytes] = []
    before, at = bytes_read(), 0
    while at < tail.seq:
        rows, end, passed = read_keyed(db, stream, tail, at, 1 << 20, key)
        chunk = log_chunk(rows, at, key, end, passed)
        entries += [chunk.data[begin:end] for begin, end in zip(chunk.begins, chunk.ends, strict=True)]
        at = chunk.end
    return entries, bytes_read() - before


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """Rows of any size count as large, stretches are short, and keys may be too many to be a few."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - to run it again
    chance = random.Random(seed)
    monkeypatch.setattr(tails, "_SPLIT_BYTES", 0)
    monkeypatch.setattr(tails, "_SPAN_BYTES", chance.choice((1, 100, 3000, 1 << 26)))
    monkeypatch.setattr(frames, "_FEW", chance.choice((1, 2, 256)))
    monkeypatch.setattr(tails, "ROWS_MAX", chance.choice((1, 2, 7, 4096)))
    return chance


@pytest.mark.parametrize("again", range(4))
def test_keyed_reads_of_large_rows_are_the_plain_list(tmp_path: Path, split: random.Random, again: int) -> None:
    chance = split

    async def main() -> None:
        async with in_process(tmp_path / str(again), log_row_bytes_max=chance.choice((4096, 1 << 18))) as node:
            known: list[list[tuple[str | None, bytes]]] = [[], []]
            for at, path in enumerate(SIDES):
                await ask(node, "PUT", path, JSON)
                if at:  # keys of their own for the entries of an append
                    routing = {"routingKey": {"jsonPointer": "/k", "required": False}}
                    assert (
                        await ask(node, "POST", f"{path}/_schema", JSON, json.dumps(routing).encode())
                    ).status == 200
            for _ in range(120):
                side = chance.randrange(2)
                known[side] += await append(node, chance, SIDES[side], own=bool(side))
            for path, entries in zip(SIDES, known, strict=True):
                for key in (*KEYS, "nobody"):
                    wanted = [text for one, text in entries if one == key]
                    for size in (1, 5000, 1 << 20):
                        assert await walk(node, path, key, size) == wanted if key else True

    anyio.run(main)


async def append(node: InProcess, chance: random.Random, path: str, *, own: bool) -> list[tuple[str | None, bytes]]:
    keys = [chance.choice((*KEYS, None)) for _ in range(chance.choice((1, 1, 3, 9)))]
    if not own:
        keys = [keys[0]] * len(keys)
    fresh = []
    for key in keys:
        value = {"pad": "x" * chance.choice((0, 10, 200, 900, 9000)), "n": chance.random()}
        fresh.append((key, json.dumps(value | ({"k": key} if own and key is not None else {})).encode()))
    headers = JSON if own or not keys[0] else JSON | {"stream-key": keys[0].encode().decode("latin-1")}
    if not own and not keys[0]:
        fresh = [(None, text) for _, text in fresh]
    reply = await ask(node, "POST", path, headers, b"[%b]" % b",".join(text for _, text in fresh))
    assert reply.status == 204, reply
    return fresh


async def walk(node: InProcess, path: str, key: str, size: int) -> list[bytes]:
    found: list[bytes] = []
    offset = "-1"
    while True:
        reply = await ask(node, "GET", f"{path}?offset={offset}&key={quote(key, safe='')}&max_bytes={size}")
        assert reply.status == 200, reply
        found += [json.dumps(each).encode() for each in json.loads(reply.body)]
        if "stream-up-to-date" in reply.headers:
            return found
        assert reply.headers["stream-next-offset"] != offset
        offset = reply.headers["stream-next-offset"]
