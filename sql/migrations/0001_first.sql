-- The first layout. Times are microseconds since 1970, sizes are bytes.

-- Facts about this folder: its node id, its birth, the log row up to which `heads` is complete.
CREATE TABLE node (
    name  TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO node (name, value) VALUES ('heads_through', 0);

CREATE TABLE buckets (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    created_us INTEGER NOT NULL,
    alive      INTEGER NOT NULL DEFAULT 1,     -- a deleted bucket keeps its row, so that its tombstones keep their meaning
    streams    INTEGER NOT NULL DEFAULT 0      -- live streams, kept in the transaction that creates or deletes one
) STRICT;

-- One row a living incarnation: what a client configured. Nothing here changes on an append. Clustered by name, so that
-- finding a stream is one descent and a listing reads neighbours.
CREATE TABLE streams (
    bucket         INTEGER NOT NULL,
    name           TEXT NOT NULL,
    id             INTEGER NOT NULL,           -- the incarnation; never used twice
    content_type   TEXT NOT NULL,
    created_us     INTEGER NOT NULL,
    ttl_s          INTEGER,                    -- sliding window, as asked for
    expires_us     INTEGER,                    -- absolute end, as asked for
    dies_us        INTEGER,                    -- not before this moment may it be collected (a sliding window's upper bound)
    first_epoch    INTEGER NOT NULL,
    epoch_count    INTEGER NOT NULL DEFAULT 1, -- more than one: the others are in `epochs`
    profile        TEXT NOT NULL DEFAULT 'generic',
    soft_deleted   INTEGER NOT NULL DEFAULT 0, -- gone for clients, kept for its forks
    source         INTEGER,                    -- lineage: the incarnation it was forked from,
    fork_seq       INTEGER,                    -- the first sequence that is its own,
    fork_sub       INTEGER,                    -- and how much of the source's next append it took
    earliest_seq   INTEGER NOT NULL DEFAULT 0, -- retention: entries below are gone
    PRIMARY KEY (bucket, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX streams_by_end ON streams (dies_us) WHERE dies_us IS NOT NULL;

-- Where each stream ends. Narrow, and written behind the log in slices: rows above `heads_through` are replayed at start.
CREATE TABLE heads (
    stream       INTEGER PRIMARY KEY,
    next_seq     INTEGER NOT NULL DEFAULT 0,   -- entries so far
    last_row     INTEGER NOT NULL DEFAULT 0,   -- newest log row, 0 when there is none
    ordinal      INTEGER NOT NULL DEFAULT 0,   -- log rows so far
    position     INTEGER NOT NULL DEFAULT 0,   -- bytes of its entries so far
    ts           INTEGER NOT NULL DEFAULT 0,   -- time of the newest append
    anchor_1     INTEGER NOT NULL DEFAULT 0,   -- newest row whose ordinal is a multiple of 32,
    anchor_2     INTEGER NOT NULL DEFAULT 0,   -- of 32^2,
    anchor_3     INTEGER NOT NULL DEFAULT 0,   -- of 32^3,
    anchor_4     INTEGER NOT NULL DEFAULT 0,   -- of 32^4
    closed       INTEGER NOT NULL DEFAULT 0,
    schema_version INTEGER NOT NULL DEFAULT 0,
    producers    INTEGER NOT NULL DEFAULT 0,   -- rows in `producers`
    stream_seq   TEXT,
    closed_by    TEXT,                         -- the producer triple that closed it
    closed_epoch INTEGER,
    closed_seq   INTEGER
) STRICT;

CREATE TABLE epochs (
    stream    INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    PRIMARY KEY (stream, epoch)
) STRICT, WITHOUT ROWID;

CREATE TABLE producers (
    stream    INTEGER NOT NULL,
    producer  TEXT NOT NULL,
    epoch     INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    next_seq  INTEGER NOT NULL,                -- the stream's tail right after that request
    PRIMARY KEY (stream, producer)
) STRICT, WITHOUT ROWID;

-- Names that lived before: a new life starts one epoch higher, so an old offset can never mean new data.
CREATE TABLE tombstones (
    bucket      INTEGER NOT NULL,
    name        TEXT NOT NULL,
    epoch       INTEGER NOT NULL,
    stream      INTEGER NOT NULL,
    deleted_us  INTEGER NOT NULL,
    PRIMARY KEY (bucket, name)
) STRICT, WITHOUT ROWID;

-- Log rows of dead streams, freed in slices from their newest row backwards.
CREATE TABLE graves (
    stream   INTEGER PRIMARY KEY,
    last_row INTEGER NOT NULL
) STRICT;

-- The write-ahead log: append-only, one row an append (a large one takes several), in commit order.
CREATE TABLE log (
    row_id         INTEGER PRIMARY KEY,
    stream         INTEGER NOT NULL,
    seq            INTEGER NOT NULL,           -- of its first entry
    count          INTEGER NOT NULL,           -- entries that end in this row
    ordinal        INTEGER NOT NULL,           -- 1 for the stream's first row
    prev_row       INTEGER NOT NULL,           -- the stream's row before this, 0 for the first
    jump_row       INTEGER NOT NULL,           -- an older row: see wal/anchors.py
    position       INTEGER NOT NULL,           -- bytes of the stream's entries before this row
    ts             INTEGER NOT NULL,
    flags          INTEGER NOT NULL,           -- 1 first row of its append, 2 closes the stream, 4 continues an entry
    schema_version INTEGER NOT NULL,
    producer       TEXT,
    producer_epoch INTEGER,
    producer_seq   INTEGER,
    stream_seq     TEXT,
    lens           BLOB,                       -- u32 little-endian per entry; NULL when the row is one entry or a piece of one
    keys           BLOB,                       -- routing keys, see wal/frames.py; NULL when none
    payload        BLOB NOT NULL               -- entries; of a JSON stream joined by commas
) STRICT;
