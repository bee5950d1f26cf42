"""Drawn records, and drawn aggregations of them."""

from random import Random
from typing import Any

from tests.aggregate.world import T0

HOUR = 3_600_000
LEVELS = ("INFO", "info", "warn", "error", "debug", "é", "\u2028", "")
QUERIES = (
    "level:info", "status:503", "level:error OR status:200", "NOT level:info", "level:info AND NOT status:200",
    "has:status", "text:card", "level:warn text:card", "status:>=300", "NOT (level:error OR level:info)",
    "level:nobody",
)  # fmt: skip
_STATUS = (200, 404, 503, "503", -1, 2**70)


def record(random: Random) -> Any:
    """A record in which anything may be missing, null, many, or of another kind. Numbers are of few bits, so that
    sums are exact in any order.
    """
    if random.random() < 0.02:
        return random.choice([5, "x", None, [1]])
    made: dict[str, Any] = {
        "at": _time(random),
        "level": random.choice(LEVELS if random.random() < 0.9 else (None, ["info", "warn"], 7, ["x"])),
        "status": random.choice(_STATUS) if random.random() < 0.9 else random.choice([None, [200, 404], "x"]),
        "ms": _number(random),
        "text": random.choice(["card declined", "over", "", None]),
    }  # fmt: skip
    return {name: value for name, value in made.items() if random.random() < 0.95}


def _number(random: Random) -> Any:
    return random.randrange(-4096, 1 << 20) / 4 if random.random() < 0.95 else random.choice([None, "2.5", [1], [1, 2]])


def _time(random: Random) -> Any:
    chance = random.random()
    if chance < 0.9:
        return T0 + random.randrange(3 * HOUR) if random.random() < 0.5 else T0 + random.randrange(90) * 60_000
    if chance < 0.95:
        return f"2026-03-25T10:{random.randrange(60):02}:{random.randrange(60):02}.{random.randrange(10**9):09}Z"
    return random.choice([None, 0, -1, -T0, 8.64e15, "soon", [T0], [T0, T0 + 1], 0.5])


def asked(random: Random, rollup: str = "req") -> dict[str, Any]:
    """Of a rollup of the world: mostly of the hours that records lie in, with edges of all kinds."""
    begin, end = sorted((_edge(random), _edge(random)))
    made: dict[str, Any] = {
        "rollup": rollup,
        "begin": begin,
        "to": end if end > begin else begin + random.randrange(1, 2 * HOUR),
        "interval": random.choice(["1m", "1h", "1m", "1s"] if rollup == "req" else ["1m"]),
    }
    if random.random() < 0.4:
        made["q"] = random.choice(QUERIES)
    if rollup == "req":
        if random.random() < 0.6:
            made["group_by"] = random.choice([["level"], ["status"], ["status", "level"], []])
        if random.random() < 0.4:
            made["measures"] = random.choice([["n"], ["ms"], ["bad", "n"]])
    return made


def _edge(random: Random) -> int:
    step = random.choice([1, 1000, 60_000, HOUR])
    if random.random() < 0.05:
        return random.choice([-T0 - 1, -1, 0, 8_640_000_000_000_000])
    return (T0 - HOUR + random.randrange(5 * HOUR)) // step * step
