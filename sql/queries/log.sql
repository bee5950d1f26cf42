-- name: append_rows
-- Stores the rows of one group commit; the VALUES group is repeated once per row.
INSERT INTO log (row_id, stream, seq, count, ordinal, prev_row, jump_row, position, ts, flags, schema_version,
                 producer, producer_epoch, producer_seq, stream_seq, lens, keys, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: append_plain_rows
-- The same for rows of which no one has a producer, a `Stream-Seq`, lengths or keys: what is NULL need not be bound.
INSERT INTO log (row_id, stream, seq, count, ordinal, prev_row, jump_row, position, ts, flags, schema_version, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: last_row_id
-- The newest row that the log ever had: all of them may have been released.
SELECT max(coalesce((SELECT max(row_id) FROM log), 0), (SELECT value FROM node WHERE name = 'released_through'));

-- name: rows_after
-- Everything but the payloads above a row, oldest first: what start-up replays into `heads`.
SELECT row_id, stream, seq, count, ordinal, position + length(payload) - CASE WHEN lens IS NULL THEN 0 ELSE length(lens) / 4 - 1 END,
       ts, flags, schema_version, producer, producer_epoch, producer_seq, stream_seq
  FROM log WHERE row_id > :row ORDER BY row_id;

-- name: find_by_seq
-- Walks back from a row to the stream's row in which entry :seq begins, by anchors where they do not overshoot; or to the
-- stream's oldest row, if the entry's has left the log.
WITH RECURSIVE hop (row_id, seq, flags, prev_row, jump_row, position, ordinal) AS (
    SELECT row_id, seq, flags, prev_row, jump_row, position, ordinal FROM log WHERE row_id = :row
    UNION ALL
    SELECT l.row_id, l.seq, l.flags, l.prev_row, l.jump_row, l.position, l.ordinal
      FROM hop JOIN log AS l
        ON l.row_id = CASE WHEN (SELECT j.seq > :seq FROM log AS j WHERE j.row_id = hop.jump_row)
                           THEN hop.jump_row ELSE hop.prev_row END
     WHERE hop.seq > :seq OR (hop.seq = :seq AND hop.flags & 4)
)
SELECT row_id, seq, position, ordinal, prev_row, flags FROM hop ORDER BY ordinal LIMIT 1;

-- name: find_by_position
-- Walks back from a row to the stream's newest row that begins below byte :position.
WITH RECURSIVE hop (row_id, flags, prev_row, jump_row, position, ordinal, seq) AS (
    SELECT row_id, flags, prev_row, jump_row, position, ordinal, seq FROM log WHERE row_id = :row
    UNION ALL
    SELECT l.row_id, l.flags, l.prev_row, l.jump_row, l.position, l.ordinal, l.seq
      FROM hop JOIN log AS l
        ON l.row_id = CASE WHEN (SELECT j.position >= :position FROM log AS j WHERE j.row_id = hop.jump_row)
                           THEN hop.jump_row ELSE hop.prev_row END
     WHERE hop.position >= :position
)
SELECT row_id, seq, position, ordinal, prev_row FROM hop ORDER BY ordinal LIMIT 1;

-- name: find_by_ordinal
-- Walks back from a row to the stream's row with this ordinal.
WITH RECURSIVE hop (row_id, prev_row, jump_row, position, ordinal, seq) AS (
    SELECT row_id, prev_row, jump_row, position, ordinal, seq FROM log WHERE row_id = :row
    UNION ALL
    SELECT l.row_id, l.prev_row, l.jump_row, l.position, l.ordinal, l.seq
      FROM hop JOIN log AS l
        ON l.row_id = CASE WHEN (SELECT j.ordinal >= :ordinal FROM log AS j WHERE j.row_id = hop.jump_row)
                           THEN hop.jump_row ELSE hop.prev_row END
     WHERE hop.ordinal > :ordinal
)
SELECT row_id, seq, position, ordinal FROM hop ORDER BY ordinal LIMIT 1;

-- name: find_by_time
-- Walks back from a row to the stream's newest row that is older than :ts, or to its oldest row: times never run backwards
-- within a stream.
WITH RECURSIVE hop (row_id, prev_row, jump_row, ordinal, seq, count, flags, ts) AS (
    SELECT row_id, prev_row, jump_row, ordinal, seq, count, flags, ts FROM log WHERE row_id = :row
    UNION ALL
    SELECT l.row_id, l.prev_row, l.jump_row, l.ordinal, l.seq, l.count, l.flags, l.ts
      FROM hop JOIN log AS l
        ON l.row_id = CASE WHEN (SELECT j.ts >= :ts FROM log AS j WHERE j.row_id = hop.jump_row)
                           THEN hop.jump_row ELSE hop.prev_row END
     WHERE hop.ts >= :ts
)
SELECT seq, count, flags, ts FROM hop ORDER BY ordinal LIMIT 1;

-- name: time_of_row
-- When a row was appended.
SELECT ts FROM log WHERE row_id = :row;

-- name: first_above
-- Walks back from a row to the stream's oldest row above another one; NULL when the row is not there any more.
WITH RECURSIVE hop (row_id, seq, prev_row, jump_row) AS (
    SELECT row_id, seq, prev_row, jump_row FROM log WHERE row_id = :row
    UNION ALL
    SELECT l.row_id, l.seq, l.prev_row, l.jump_row
      FROM hop JOIN log AS l
        ON l.row_id = CASE WHEN hop.jump_row > :through THEN hop.jump_row ELSE hop.prev_row END
     WHERE hop.prev_row > :through
)
SELECT min(seq) FROM hop;

-- name: scan_rows
-- Rows of one stream in a stretch of the log, oldest first: for streams that fill most of it.
SELECT row_id, seq, count, flags, ts, lens, keys, payload
  FROM log WHERE row_id BETWEEN :first AND :last AND stream = :stream ORDER BY row_id;

-- name: walk_rows
-- The same rows by following the stream's own chain, newest first: for streams that are rare in the log.
WITH RECURSIVE hop (row_id, prev_row) AS (
    SELECT row_id, prev_row FROM log WHERE row_id = :last
    UNION ALL
    SELECT l.row_id, l.prev_row FROM hop JOIN log AS l ON l.row_id = hop.prev_row WHERE hop.row_id > :first
)
SELECT l.row_id, l.seq, l.count, l.flags, l.ts, l.lens, l.keys, l.payload FROM hop JOIN log AS l USING (row_id);

-- name: scan_keys
-- Of the rows of one stream in a stretch of the log, oldest first, which may hold entries with a key: all but their payloads.
SELECT row_id, seq, count, coalesce(length(keys), 0),
       CASE WHEN keys = :whole THEN 1 ELSE substr(keys, 1, 1) IN (x'02', x'03') AND instr(keys, :part) > 0 END
  FROM log WHERE row_id BETWEEN :first AND :last AND stream = :stream ORDER BY row_id;

-- name: walk_keys
-- The same by following the stream's own chain, newest first.
WITH RECURSIVE hop (row_id, prev_row) AS (
    SELECT row_id, prev_row FROM log WHERE row_id = :last
    UNION ALL
    SELECT l.row_id, l.prev_row FROM hop JOIN log AS l ON l.row_id = hop.prev_row WHERE hop.row_id > :first
)
SELECT l.row_id, l.seq, l.count, coalesce(length(l.keys), 0),
       CASE WHEN l.keys = :whole THEN 1 ELSE substr(l.keys, 1, 1) IN (x'02', x'03') AND instr(l.keys, :part) > 0 END
  FROM hop JOIN log AS l USING (row_id);

-- name: read_row
-- One row of the log, whole.
SELECT row_id, seq, count, flags, ts, lens, keys, payload FROM log WHERE row_id = :row;

-- name: dead_chain
-- The next slice of a dead stream's rows, newest first.
WITH RECURSIVE hop (row_id, prev_row) AS (
    SELECT row_id, prev_row FROM log WHERE row_id = :row AND stream = :stream
    UNION ALL
    SELECT l.row_id, l.prev_row FROM hop JOIN log AS l ON l.row_id = hop.prev_row LIMIT :limit
)
SELECT row_id, prev_row FROM hop;

-- name: free_row
-- Takes one row of a dead stream out of the log.
DELETE FROM log WHERE row_id = ?;

-- name: log_size
-- Rows and newest row of the log, for the inspection endpoints.
SELECT count(*), coalesce(max(row_id), 0) FROM log;
