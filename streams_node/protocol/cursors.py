"""Cursors of live reads: the number of a 20-second interval, so that caches collapse waiters and never loop."""

INTERVAL_S = 20
EPOCH_S = 1_728_432_000  # 2024-10-09T00:00:00Z, the protocol's default
JITTER_S_MAX = 3600
_DIGITS_MAX = 18  # a longer cursor is not one of ours and is ignored


def cursor(now_s: float, seen: str | None, jitter: float) -> str:
    """The cursor of an answer; strictly greater than the client's. `jitter` is a random number in [0, 1)."""
    interval = int(now_s - EPOCH_S) // INTERVAL_S
    if not seen or len(seen) > _DIGITS_MAX or not (seen.isascii() and seen.isdigit()) or int(seen) < interval:
        return str(interval)
    seconds = 1 + jitter * (JITTER_S_MAX - 1)
    return str(int(seen) + max(1, -int(-seconds // INTERVAL_S)))
