"""Whose entries a fork shares: a chain of incarnations, each with a stretch of the sequences below the fork point."""

import sqlite3

import msgspec

import sql
from streams_node.wal.lookup import Name
from streams_node.wal.tails import LogEnd

_FORKS = sql.queries("forks")


class Life(msgspec.Struct, gc=False):
    """An incarnation that has the entries [first, end) of a fork. `tail` is an end of it that is not before those.

    What is cached of one stays true: what lies below a fork point never changes, and is kept as long as the fork.
    """

    id: int
    first: int
    end: int
    tail: LogEnd
    cold_below: int = 0  # entries below it are known to have left the log


class Lineage(msgspec.Struct, gc=False):
    """Where a fork comes from. Its own entries begin at `fork_seq`."""

    source: int
    source_name: Name
    fork_seq: int
    fork_sub: int  # as it was asked for
    lives: tuple[Life, ...] | None = None  # of all that it shares, oldest last; None until a read needs them

    def anchor(self, *, is_json: bool) -> int:
        """The offset that it was forked at: messages beyond it are shared, bytes of the next append were copied."""
        return self.fork_seq - self.fork_sub if is_json else self.fork_seq


def load_lives(db: sqlite3.Connection, source: int, fork_seq: int) -> tuple[Life, ...]:
    """The chain of a fork, also those who have nothing to share."""
    return tuple(
        Life(stream, first, end, LogEnd(*tail))
        for stream, first, end, *tail in db.execute(_FORKS.load_lives, {"source": source, "end": fork_seq})
    )
