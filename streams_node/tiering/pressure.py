"""What is not in the bucket yet: counted as it comes and goes, and refused beyond its bounds."""

import sqlite3

import sql
from streams_node.config import Settings
from streams_node.errors import Overloaded, Unavailable
from streams_node.ingest.batches import Batch
from streams_node.ingest.ledger import Ledger
from streams_node.wal.batch import rollback
from streams_node.wal.database import Database

_PLACEMENT = sql.queries("placement")
_SECOND_US = 1_000_000


class Pressure:
    """The backlog of one node: bytes, and the age of the oldest entry. `sealed_bytes` of it are in files already."""

    def __init__(self, ledger: Ledger, settings: Settings) -> None:
        self._ledger = ledger
        self._settings = settings
        self.bytes = 0  # of log above `published_through`
        self.published_through = 0
        self.sealed_through = 0
        self.sealed_bytes = 0  # of these, in files on their way
        self._oldest_us: int | None = None  # when the oldest row that is not published was written, or a little later
        self._unsealed_us: int | None = None
        self._sealed_us: dict[int, int] = {}  # by their last rows: what came after a seal is younger than this

    async def begin(self, database: Database) -> None:
        """Count what a start finds, or what is to be sealed anew."""
        self.published_through, self.bytes, self._oldest_us = await database.readers.run(_look)
        self.sealed_through, self._unsealed_us = self.published_through, self._oldest_us
        self.sealed_bytes, self._sealed_us = 0, {}

    def committed(self, batch: Batch) -> None:
        """A batch is on disk."""
        if batch.touched:
            self.bytes += batch.bytes
            if self._oldest_us is None:
                self._oldest_us = self._ledger.now_us()
            if self._unsealed_us is None:
                self._unsealed_us = self._ledger.now_us()
            if self.bytes > self._settings.backlog_bytes_max:
                self._refuse_backlog()  # at once: what is let in above the bound is what was decided already

    def sealed(self, through_row: int, log_bytes: int) -> None:
        """A stretch of the log is in files. What came since its end was read is younger than this moment."""
        self.sealed_through = through_row
        self.sealed_bytes += log_bytes
        more = self._ledger.committer.committed_through > through_row
        self._sealed_us[through_row] = self._ledger.now_us()
        self._unsealed_us = self._sealed_us[through_row] if more else None

    def published(self, through_row: int, log_bytes: int) -> None:
        """A generation names it."""
        if through_row <= self.published_through:
            return
        self.published_through = through_row
        self.sealed_bytes = max(0, self.sealed_bytes - log_bytes)
        self.bytes = max(0, self.bytes - log_bytes)
        after_us = self._sealed_us.get(through_row, self._ledger.now_us())
        self._sealed_us = {row: at_us for row, at_us in self._sealed_us.items() if row > through_row}
        if self._ledger.committer.committed_through <= through_row:
            self.bytes, self._oldest_us = 0, None
        else:
            self._oldest_us = after_us

    # --- what the segmenter asks ---

    def committed_row(self) -> int:
        """The newest row on disk."""
        return self._ledger.committer.committed_through

    def unsealed_bytes(self) -> int:
        """Of log that no seal has taken."""
        return max(0, self.bytes - self.sealed_bytes)

    def unsealed_s(self) -> float:
        """Age of the oldest row that no seal has taken; 0 when there is none."""
        if self._unsealed_us is None or self.committed_row() <= self.sealed_through:
            return 0.0
        now_us = self._ledger.now_us()
        self._unsealed_us = min(self._unsealed_us, now_us)  # a clock that was set back must not stop sealing by age
        return (now_us - self._unsealed_us) / _SECOND_US

    def lag_s(self) -> float:
        """Age of the oldest row that is not published."""
        if self._oldest_us is None:
            return 0.0
        now_us = self._ledger.now_us()
        self._oldest_us = min(self._oldest_us, now_us)
        return (now_us - self._oldest_us) / _SECOND_US

    def watch(self) -> None:
        """Refuse appends beyond the bounds, and take them again below: reads go on all the time."""
        refusals, settings = self._ledger.refusals, self._settings
        if self.bytes > settings.backlog_bytes_max:
            self._refuse_backlog()
        else:
            refusals.pop("backlog", None)
        if self.lag_s() * 1000 > settings.upload_lag_ms_max:
            refusals["upload_lag"] = Unavailable(
                f"the oldest entry that is not in the object store is {int(self.lag_s())} s old; appends go on when "
                "the store takes objects again"
            )
        else:
            refusals.pop("upload_lag", None)

    def _refuse_backlog(self) -> None:
        bound = self._settings.backlog_bytes_max
        text = f"{self.bytes} bytes of log are not in the object store yet, more than {bound}"
        self._ledger.refusals["backlog"] = Overloaded(f"{text}; try again when it has caught up")


def _look(db: sqlite3.Connection) -> tuple[int, int, int | None]:
    through = db.execute(_PLACEMENT.node_value, ("released_through",)).fetchone()[0]
    size, rows, _ = db.execute(_PLACEMENT.log_bytes_above, (through,)).fetchone()
    oldest = db.execute(_PLACEMENT.oldest_ts_above, (through,)).fetchone()
    return through, size, oldest[0] if rows and oldest else None


def stick(db: sqlite3.Connection, stuck: list[tuple[int, str]], now_us: int) -> None:
    """Remember streams whose rows must stay in the log."""
    db.execute("BEGIN IMMEDIATE")
    try:
        db.executemany(_PLACEMENT.stick, [(stream, reason, now_us) for stream, reason in stuck])
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise
