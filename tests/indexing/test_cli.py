"""`streams-node index` against a node of its own."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from streams_node.cli import main
from tests.indexing.world import JSON, KEYED, RemoteDriver
from tests.support.node_process import NodeProcess
from tests.support.wire import Wire

SETTINGS: dict[str, object] = {"index_driver": "off", "index_stream_entries": 1000, "flush_ms_max": 50}


async def prepared(port: int) -> None:
    async with Wire(port) as wire:
        await wire.request("PUT", "/v1/stream/a", JSON)
        await wire.request("POST", "/v1/stream/a/_schema", JSON, json.dumps(KEYED).encode())
        await wire.request("POST", "/v1/stream/a", JSON, json.dumps([{"k": "x"}] * 5).encode())
        assert (await wire.request("POST", "/v1/stream/a/_flush")).status in {200, 204}


async def commanded(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    status = await asyncio.to_thread(main, list(words))
    return status, capsys.readouterr().out


async def work(port: int, objects: Path, done: asyncio.Event) -> None:
    async with Wire(port) as wire:
        driver = RemoteDriver(wire, objects)
        while not done.is_set():
            claim = await driver.claim(wait_ms=100)
            if claim is not None:
                # What is asked for anew meanwhile may be refused: as any driver, it claims again then.
                assert (await driver.commit(driver.built(claim))).status in {200, 409}


def test_status_and_rebuild(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = tmp_path / "objects"

    async def scenario() -> list[Any]:
        with NodeProcess(tmp_path / "data", settings={**SETTINGS, "object_store_folder": objects}) as node:
            await node.ready()
            await prepared(node.port)
            url = ("--url", f"http://127.0.0.1:{node.port}")
            seen: list[Any] = [
                await commanded(capsys, "index", "status", "a", *url),
                await commanded(capsys, "index", "status", "a", "--json", *url),
                await commanded(capsys, "index", "status", "none", "--json", *url),
                await commanded(capsys, "index", "rebuild", "a", *url),
                await commanded(capsys, "index", "status", *url),
            ]
            done = asyncio.Event()
            async with asyncio.TaskGroup() as together:  # a driver that fails ends the wait for its work
                together.create_task(work(node.port, objects, done))
                try:
                    seen += [
                        await commanded(
                            capsys, "index", "rebuild", "a", "--wait", "--anew", "--family", "lexicon", *url
                        ),
                        await commanded(capsys, "index", "status", "--json", *url),
                        await commanded(capsys, "index", "rebuild", "a", "--family", "none", "--json", *url),
                    ]
                finally:
                    done.set()
            return seen

    plain, as_json, missing, rebuilt, overview, waited, after, refused = asyncio.run(scenario())
    assert plain[0] == 0
    assert "keys" in plain[1]
    assert json.loads(as_json[1])["routing_key_index"]["lag_segments"] == 1
    assert (missing[0], json.loads(missing[1])["error"]["code"]) == (1, "not_found")
    assert rebuilt == (0, "a: 5 entries of lexicon will be indexed\n")
    assert "due_entries              5" in overview[1]
    assert waited[0] == 0
    assert json.loads(after[1])["due_entries"] == 0
    assert (refused[0], json.loads(refused[1])["error"]["code"]) == (1, "bad_request")
