"""Windows of which lengths add up to which."""

from collections.abc import Iterable

# Far above every useful window, and low enough that no start of a window leaves 64 bits: dates of records are within
# 8.64e15 ms of 1970. What is configured beyond is answered from the entries.
INTERVAL_MS_MAX = 1 << 53


def chains(intervals: Iterable[int]) -> list[tuple[int, ...]]:
    """Intervals by length, in stretches of which each divides the next one."""
    found: list[tuple[int, ...]] = []
    for interval in sorted(set(intervals)):
        if not 0 < interval <= INTERVAL_MS_MAX:
            raise ValueError(f"an interval of {interval} ms has no windows: at most {INTERVAL_MS_MAX}")
        if found and interval % found[-1][-1] == 0:
            found[-1] = (*found[-1], interval)
        else:
            found.append((interval,))
    return found
