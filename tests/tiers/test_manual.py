"""The page on recovery, done as it says: from a bucket that was copied while its node ran, to a node that goes on."""

import asyncio
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from tests.docs.examples import examples
from tests.support.node_process import NodeProcess
from tests.support.wire import Wire

MANUAL = Path(__file__).resolve().parents[2] / "streams_node" / "docs"
JSON = {"content-type": "application/json"}
S = "/v1/stream/orders"


def command(page: str, having: str) -> list[str]:
    """The one command line of a page that starts a node so."""
    text = (MANUAL / page).read_text("utf-8")
    (found,) = [line for line in re.findall(r"^streams-node serve .*$", text, re.MULTILINE) if having in line]
    return shlex.split(found)


def test_a_node_begins_from_a_copy_of_the_store_as_the_manual_says(tmp_path: Path) -> None:
    (copying,) = [
        line for each in examples(MANUAL / "operate.md") for line in [each.code] if "streams-data/objects" in line
    ]
    copying = copying[copying.index("mkdir -p backup") :]
    flags = command("recover.md", "--object-store-folder")
    assert {"--bootstrap-from-store", "--data"} <= set(flags)

    async def run() -> None:
        with NodeProcess(tmp_path / "streams-data") as node:
            await node.ready()
            async with Wire(node.port) as wire:
                await wire.request("PUT", S, JSON, b"[1,2]")
                flushed = await wire.request("POST", f"{S}/_flush")
                assert (flushed.status, json.loads(flushed.body)["flushed"]) == (200, True)
                await asyncio.to_thread(subprocess.run, ["bash", "-euc", copying], cwd=tmp_path, check=True)
                lost = await wire.request("POST", S, JSON, b"[3]")
            node.kill()
        shutil.rmtree(tmp_path / "streams-data")
        folder = flags[flags.index("--object-store-folder") + 1]
        settings = {"bootstrap_from_store": "true", "object_store_folder": tmp_path / "backup"}
        assert folder.startswith("/")
        for _ in range(2):  # the flag may stay
            with NodeProcess(tmp_path / "new-data", settings=settings) as node:
                await node.ready()
                async with Wire(node.port) as wire:
                    there = await wire.request("GET", f"{S}?offset=-1")
                    assert json.loads(there.body)[:2] == [1, 2]
                    gone = await wire.request("GET", f"{S}?offset={lost.next_offset}")
                    assert (gone.status, gone.next_offset) == (410, flushed_offset(flushed.body))
                    new = await wire.request("POST", S, JSON, b"[4]")
                    assert new.next_offset > lost.next_offset
                node.terminate()
                await node.ended()

    asyncio.run(run())


def flushed_offset(body: bytes) -> str:
    found: str = json.loads(body)["next_offset"]
    return found
