"""What a page may not wait for: a stage that goes through a whole table."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from streams_node.compactor import outlook
from streams_node.compactor.jobs import Limits
from streams_node.compactor.outlook import Outlook
from streams_node.wal.database import Database

_LOOKS = ("live_packs", "gone_segments", "small_segments_after")
_PATIENCE_S = 20


@pytest.mark.parametrize("look", _LOOKS)
def test_a_page_does_not_wait_for_a_look_of_the_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    """One goes through all segments: 300,000 of them took half a second of a busy machine."""
    began, over = threading.Event(), threading.Event()
    original = getattr(outlook, look)

    def slow(*arguments: Any, **named: Any) -> Any:
        began.set()
        over.wait()
        return original(*arguments, **named)

    async def main() -> None:
        database, _ = await Database.open(
            tmp_path / "streams.db", cache_bytes=1 << 20, reader_threads=1, read_queue_max=10
        )
        looking = asyncio.create_task(Outlook(database, Limits(), now_us=lambda: 0, clock=lambda: 100.0).look())
        try:
            assert await asyncio.to_thread(began.wait, _PATIENCE_S)
            async with asyncio.timeout(_PATIENCE_S):
                assert await database.list_streams(1, 0, 0) == []
            assert not looking.done()
        finally:
            over.set()
            await looking
            await database.close()

    monkeypatch.setattr(outlook, look, slow)
    asyncio.run(main())
