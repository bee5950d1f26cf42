-- Objects that no index driver could use: listed, and tried again later each time, across restarts.

CREATE TABLE index_failures (
    made     TEXT PRIMARY KEY,                 -- the unique end of the key of a sealed object or an index object
    reason   TEXT NOT NULL,
    count    INTEGER NOT NULL,                 -- times in a row
    since_us INTEGER NOT NULL,                 -- of the first one
    until_us INTEGER NOT NULL                  -- it rests until then
) STRICT, WITHOUT ROWID;
