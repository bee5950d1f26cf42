"""Very many keys, page by page; the benchmark does the same with millions."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from indexers.runs import RunReader
from ops.bench.routing_keys import some_keys, walk

KEYS, RUNS, LIMIT = 200_000, 8, 500


def test_every_page_of_200_000_keys_is_complete_and_costs_a_part_of_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A walk decodes each row group about once, however many pages there are; a page at random, one of each run."""
    decoded = 0
    read = RunReader._read

    def counted(self: RunReader, number: int, columns: Any) -> Any:
        nonlocal decoded
        decoded += 1
        return read(self, number, columns)

    monkeypatch.setattr(RunReader, "_read", counted)

    async def main() -> None:
        in_order, at_random = await walk(tmp_path, some_keys(KEYS), RUNS, LIMIT)
        assert (in_order.keys, len(in_order.pages)) == (KEYS, KEYS // LIMIT)
        groups = RUNS * -(-KEYS // RUNS // (1 << 14))
        assert decoded <= 2 * groups + RUNS * (1 + len(at_random.pages)) + len(at_random.pages)

    anyio.run(main)
