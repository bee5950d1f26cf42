"""What is wrong with a node, in sentences: pure, from what its parts say of themselves."""

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from streams_node.config import Settings

Severity = Literal["warning", "error"]
_LATE = 3  # times a flush: see the manual, what to watch
_FLOORS = 2  # so many times the floor is near it
_NEAR = 0.5  # of what may wait
_SECOND_US = 1_000_000
_REFUSALS = {"disk_low": "disk_floor", "backlog": "backlog_full", "upload_lag": "backlog_old", "fenced": "fenced"}
CODES = (
    "disk_floor", "disk_low", "backlog_full", "backlog_old", "backlog_growing", "fenced", "store_away", "store_failing",
    "sealing_failing", "compaction_failing", "collection_failing", "streams_stuck", "objects_damaged",
    "index_driver_missing", "index_driver_failed", "index_objects_failed", "clock_jumped", "memory_tight",
    "memory_critical", "writes_refused", "writer_slow",
)  # fmt: skip


class Problem(NamedTuple):
    """`code` is for programs, `message` says what is wrong, `hint` what to do."""

    code: str
    severity: Severity
    message: str
    hint: str


class Facts(NamedTuple):
    """What the parts of a node say of themselves."""

    refusals: Mapping[str, str]  # why every write is refused, by reason
    writer_waits_s: float = 0.0
    disk_free_bytes: int | None = None
    backlog_bytes: int = 0
    lag_s: float = 0.0
    store_opened: bool = True
    store_away: bool = False
    store_problem: str | None = None
    sealing_problem: str | None = None
    compaction_problem: str | None = None
    collection_problem: str | None = None
    stuck_streams: int = 0
    damaged: Mapping[str, int] = {}  # by where they were found
    index_driver: Literal["off", "idle", "running"] = "off"
    index_problem: str | None = None
    index_due_s: float = 0.0
    index_streams: int = 0
    index_claims: int = 0
    index_failed: int = 0
    clock_jump_us: int | None = None
    memory_state: str = "calm"
    rss_bytes: int = 0
    memory_limit_bytes: int = 0


def problems(facts: Facts, settings: Settings) -> list[Problem]:
    """The worst first."""
    found = [
        *_writes(facts, settings),
        *_memory(facts),
        *_store(facts, settings),
        *_stages(facts),
        *_indexes(facts, settings),
        *_clock(facts),
    ]
    return sorted(found, key=lambda each: each.severity != "error")


def _writes(facts: Facts, settings: Settings) -> Iterator[Problem]:
    for reason, message in facts.refusals.items():
        yield Problem(
            _REFUSALS.get(reason, "writes_refused"), "error", f"Writes are refused: {message}.", _hint(reason)
        )
    if facts.writer_waits_s * 1000 > settings.append_wait_ms_max:
        text = f"The disk has not answered a commit for {facts.writer_waits_s:.1f} s."
        yield Problem("writer_slow", "error", text, "Look at the disk that `data` is on.")
    free, floor = facts.disk_free_bytes, settings.disk_floor_bytes
    if free is not None and "disk_low" not in facts.refusals and free < _FLOORS * floor:
        text = f"The disk has {free} bytes left; at {floor} (`disk_floor_bytes`) writes are refused."
        yield Problem("disk_low", "warning", text, "Make room on the disk that `data` is on.")


def _hint(reason: str) -> str:
    return {
        "disk_low": "Make room on the disk that `data` is on; writes go on by themselves.",
        "backlog": "See why the object store does not take objects; writes go on when it has caught up.",
        "upload_lag": "See why the object store does not take objects; writes go on when it has caught up.",
        "fenced": "Stop this node; the manual's page on recovery says how to save what it had not published.",
        "shutting_down": "Nothing: it ends.",
    }.get(reason, "The node's log says more; writes go on by themselves when the cause is gone.")


def _memory(facts: Facts) -> Iterator[Problem]:
    if facts.memory_state == "calm":
        return
    text = f"The process has {facts.rss_bytes} bytes of memory, of {facts.memory_limit_bytes} (`memory_limit_bytes`)."
    hint = "Searches get less until it is calm; if it stays so, give the node more memory or a lower `auto_tune`."
    severity: Severity = "error" if facts.memory_state == "critical" else "warning"
    yield Problem(f"memory_{facts.memory_state}", severity, text, hint)


def _store(facts: Facts, settings: Settings) -> Iterator[Problem]:
    if facts.store_problem is not None and "fenced" not in facts.refusals:
        away = facts.store_away or not facts.store_opened
        code = "store_away" if away else "store_failing"
        what = "does not answer" if away else "is not up to date"
        text = f"The object store {what}: {facts.store_problem}."
        yield Problem(code, "error", text, "Reads and appends go on, and so does the node when the cause is gone.")
    behind = facts.lag_s * 1000 > _LATE * settings.flush_ms_max
    full = facts.backlog_bytes > _NEAR * settings.backlog_bytes_max
    if (behind or full) and not {"backlog", "upload_lag"} & facts.refusals.keys():
        text = (
            f"{facts.backlog_bytes} bytes of log are not in the object store yet, the oldest for {int(facts.lag_s)} s."
        )
        yield Problem("backlog_growing", "warning", text, "The loss of the disk would cost these entries.")


def _stages(facts: Facts) -> Iterator[Problem]:
    for code, what, problem in (
        ("sealing_failing", "The log cannot be sealed", facts.sealing_problem),
        ("compaction_failing", "Sealed objects cannot be merged", facts.compaction_problem),
        ("collection_failing", "Objects cannot be deleted", facts.collection_problem),
    ):
        if problem is not None:
            hint = "It is tried again by itself; the node's log says more."
            yield Problem(code, "error" if code == "sealing_failing" else "warning", f"{what}: {problem}.", hint)
    if facts.stuck_streams:
        text = f"{facts.stuck_streams} streams cannot be sealed: their rows contradict each other."
        yield Problem("streams_stuck", "error", text, "They stay in the log, and others go on; the log names them.")
    damaged = {where: count for where, count in facts.damaged.items() if count}
    if damaged:
        text = (
            f"Damaged objects were found since the start: {', '.join(f'{n} {where}' for where, n in damaged.items())}."
        )
        hint = "The manual's page on recovery says what to do; copies are made anew by themselves."
        yield Problem("objects_damaged", "error", text, hint)


def _indexes(facts: Facts, settings: Settings) -> Iterator[Problem]:
    if facts.index_problem is not None:
        text = f"The index driver does not run: {facts.index_problem}."
        yield Problem(
            "index_driver_failed", "warning", text, "It is started again, later each time; answers stay right."
        )
    late = facts.index_due_s * 1000 > 2 * settings.index_due_ms
    idle = not facts.index_claims and facts.index_driver != "running"
    if late and idle and facts.index_problem is None:
        text = (
            f"{facts.index_streams} streams have waited to be indexed for up to {int(facts.index_due_s)} s, and no "
            "driver is at it."
        )
        hint = "Start an index driver, or set `index_driver=auto`. Answers stay right and get slower."
        yield Problem("index_driver_missing", "warning", text, hint)
    if facts.index_failed:
        text = f"Index drivers could not use {facts.index_failed} objects."
        yield Problem("index_objects_failed", "warning", text, "`streams-node index status` names them.")


def _clock(facts: Facts) -> Iterator[Problem]:
    if facts.clock_jump_us is not None:
        seconds = facts.clock_jump_us / _SECOND_US
        way = "on" if seconds > 0 else "back"
        text = f"The clock of this machine went {way} by {abs(seconds):.1f} s within the last hour."
        hint = "Times of entries never run backwards in a stream; see that the clock is kept by NTP."
        yield Problem("clock_jumped", "warning", text, hint)
