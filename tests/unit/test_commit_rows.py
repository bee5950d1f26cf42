"""Plain rows and heads are stored by narrower statements: what is in the tables is the same, whatever a batch mixes."""

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sql
from streams_node.ingest.state import StreamState
from streams_node.wal.batch import COLUMNS, Writes, commit
from streams_node.wal.lookup import Configured, Head, Name
from streams_node.wal.migrate import migrate

OPTIONAL = slice(11, 17)  # producer, its epoch and number, `Stream-Seq`, lengths, keys
_NUMBERS = st.integers(0, 1 << 53)
_BYTES = st.binary(max_size=20)
_MAYBE = (st.none() | st.text(max_size=4), st.none() | _NUMBERS, st.none() | _NUMBERS, st.none() | st.text(max_size=4),
          st.none() | _BYTES, st.none() | _BYTES)  # fmt: skip
_ROW = st.tuples(*[_NUMBERS] * 10, st.one_of(st.just((None,) * 6), st.tuples(*_MAYBE)), _BYTES)
_NOT_PLAIN = st.none() | st.text(min_size=1, max_size=4)


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(":memory:", isolation_level=None)
    migrate(db)
    yield db
    db.close()


@given(rows=st.lists(_ROW, min_size=1, max_size=150))
def test_every_row_is_stored_as_it_was_decided(database: sqlite3.Connection, rows: list[Any]) -> None:
    database.execute("DELETE FROM main.log")
    writes = Writes()
    expected = []
    for number, (*first, optional, payload) in enumerate(rows, 1):
        row = (number, *first, *optional, payload)
        assert len(row) == COLUMNS
        writes.rows += (*row[:-1], bytearray(payload))
        writes.plain_rows += all(value is None for value in row[OPTIONAL])
        expected.append(row)
    commit(database, writes)
    assert database.execute("SELECT * FROM main.log ORDER BY row_id").fetchall() == expected


@given(
    heads=st.lists(
        st.tuples(st.lists(_NUMBERS, min_size=9, max_size=9), st.booleans(), _NOT_PLAIN, _NOT_PLAIN), max_size=20
    )
)
def test_every_head_is_stored_as_it_was_decided(database: sqlite3.Connection, heads: list[Any]) -> None:
    database.execute("DELETE FROM main.heads")
    writes = Writes(rows=[1 << 60, *[0] * 10, *[None] * 6, b""], plain_rows=1)  # no head may be ahead of the log
    database.execute("DELETE FROM main.log")
    expected = []
    for number, (numbers, closed, stream_seq, by) in enumerate(heads, 1):
        closing = (None, None, None) if by is None else (by, 3, 4)
        head = Head._make((*numbers, int(closed or by is not None), 0, 0, stream_seq, *closing))
        config = Configured(number, "text/plain", 0, None, None, None, 0, 1, "generic", 0, 0, 0)
        StreamState(Name("_default", str(number)), 1, config, head, {}, []).add_head(writes)
        expected.append((*head, number))
    commit(database, writes)
    read = sql.queries("streams").read_head
    assert [(*database.execute(read, (head[-1],)).fetchone(), head[-1]) for head in expected] == expected
