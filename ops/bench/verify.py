"""Proves that what was acknowledged is stored: by counting tails after every measurement, and by reading back."""

import json
from collections.abc import Callable
from contextlib import closing

from ops.bench.errors import BenchError
from ops.bench.load import LoadResult
from ops.bench.reader import EnoughError, PageReader

READ_BACK_SIZE_MAX = 32 << 20  # enough to see thousands of entries, small enough for every cell


def appended(before: dict[str, int], after: dict[str, int], units: int) -> int:
    """Turn the growth of the tails into a number of appends; one append moves a tail by `units`."""
    growth = sum(after.values()) - sum(before.values())
    if growth % units:
        raise BenchError(f"the tails grew by {growth}, which is no multiple of {units}")
    return growth // units


def check_counts(result: LoadResult, stored: int, connections: int) -> None:
    """Accept exactly the acknowledged appends, plus those whose answer nobody was left to read."""
    unread_max = connections + result.socket_errors
    if not result.acknowledged <= stored <= result.acknowledged + unread_max:
        raise BenchError(f"{result.acknowledged} appends were acknowledged, {stored} are stored")


def check_bytes(port: int, stream: str, bodies: tuple[bytes, ...], stored: int) -> None:
    """Read a byte stream back from its start: it must be made of whole bodies, all of them if it is not too long."""
    size = len(bodies[0])
    data, complete = _read_back(port, stream)
    known, whole = set(bodies), len(data) // size
    if any(data[index * size : (index + 1) * size] not in known for index in range(whole)):
        raise BenchError(f"{stream} holds bytes that were never sent")
    if complete and len(data) != stored * size:
        raise BenchError(f"{stream} has {stored} appends of {size} bytes, a read gives {len(data)} bytes")


def check_numbered_objects(port: int, stream: str, count: int) -> None:
    """Read a JSON stream back whole; its objects must be numbered 0, 1, 2, ... by their field `n`."""
    page = bytearray()
    expected = 0

    def page_end() -> None:
        nonlocal expected
        for event in json.loads(page):
            if event["n"] != expected:
                raise BenchError(f"{stream}: found object {event['n']} where {expected} belongs")
            expected += 1
        page.clear()

    with closing(PageReader(port)) as reader:
        reader.follow(stream, sink=page.extend, page_end=page_end)
    if expected != count:
        raise BenchError(f"{stream}: {count} objects were stored, {expected} were read")


def _read_back(port: int, stream: str) -> tuple[bytes, bool]:
    data = bytearray()
    with closing(PageReader(port)) as reader:
        try:
            reader.follow(stream, sink=_until_full(data))
        except EnoughError:
            return bytes(data), False
    return bytes(data), True


def _until_full(data: bytearray) -> Callable[[bytes], None]:
    def sink(piece: bytes) -> None:
        data.extend(piece)
        if len(data) >= READ_BACK_SIZE_MAX:
            raise EnoughError

    return sink
