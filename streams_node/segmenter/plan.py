"""When a seal is due, and how long to wait after a failure: decided on plain values."""

from typing import NamedTuple

_BACKOFF_S = 0.2
_BACKOFF_S_MAX = 30.0


class Situation(NamedTuple):
    """What there is to seal."""

    committed_row: int
    sealed_row: int
    demanded_row: int
    unsealed_bytes: int
    unsealed_s: float  # age of the oldest of it


def is_due(now: Situation, *, flush_bytes: int, flush_ms_max: int) -> bool:
    """Enough of the log, or something old enough, or somebody waits for it."""
    if now.committed_row <= now.sealed_row:
        return False
    return (
        now.demanded_row > now.sealed_row or now.unsealed_bytes >= flush_bytes or now.unsealed_s * 1000 >= flush_ms_max
    )


def backoff_s(failures: int) -> float:
    """The pause after so many failures in a row."""
    return min(_BACKOFF_S_MAX, _BACKOFF_S * 2.0 ** min(failures - 1, 16))
