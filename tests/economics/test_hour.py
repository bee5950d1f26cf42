"""An hour of quiet streams with every stage at work; `ops.bench.economics` does it with a hundred thousand."""

import asyncio
from pathlib import Path

from ops.bench.economics import hour

_STREAMS = 5000


def test_an_hour_of_quiet_streams_is_cheap(tmp_path: Path) -> None:
    """What it costs hardly depends on the number of streams: requests are made for flushes, and not for streams."""
    outcome = asyncio.run(hour(tmp_path, _STREAMS))
    assert outcome.problems == [], outcome
    assert outcome.appends == 60 * _STREAMS
