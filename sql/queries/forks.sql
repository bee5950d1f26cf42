-- name: insert_fork
-- A new incarnation that shares the beginning of another one.
INSERT INTO streams (bucket, name, id, content_type, created_us, ttl_s, expires_us, dies_us, first_epoch, epoch_count, profile,
                     source, fork_seq, fork_sub, earliest_seq, meaning)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_fork_head
-- Its head, before its first own append.
INSERT INTO heads (stream, next_seq, ts, schema_version) VALUES (?, ?, ?, ?);

-- name: count_forks
-- Moves the number of forks that a stream is kept for.
UPDATE streams SET forks = forks + ? WHERE bucket = ? AND name = ?;

-- name: hide_stream
-- A stream is gone for clients, and kept for its forks.
UPDATE streams SET soft_deleted = 1, dies_us = NULL WHERE bucket = ? AND name = ?;

-- name: load_source
-- The name of a stream that has forks.
SELECT b.name, s.name FROM streams AS s INDEXED BY streams_forked JOIN buckets AS b ON b.id = s.bucket
 WHERE s.id = ? AND s.forks > 0;

-- name: load_lives
-- Whose entries a fork shares, nearest first: each incarnation, from where to where, and its end in the log.
WITH RECURSIVE hop (depth, stream, first_seq, end_seq, source) AS (
    SELECT 1, s.id, coalesce(s.fork_seq, 0), :end, s.source FROM streams AS s INDEXED BY streams_forked
     WHERE s.id = :source AND s.forks > 0
    UNION ALL
    SELECT hop.depth + 1, s.id, coalesce(s.fork_seq, 0), min(hop.end_seq, hop.first_seq), s.source
      FROM hop JOIN streams AS s INDEXED BY streams_forked ON s.id = hop.source AND s.forks > 0
)
SELECT hop.stream, hop.first_seq, hop.end_seq, h.last_row, h.ordinal, h.position, h.next_seq
  FROM hop JOIN heads AS h ON h.stream = hop.stream ORDER BY hop.depth;

-- name: orphaned_streams
-- Streams that were kept for forks, and have none any more.
SELECT b.name, s.name FROM streams AS s INDEXED BY streams_orphaned JOIN buckets AS b ON b.id = s.bucket
 WHERE s.id > 0 AND s.soft_deleted = 1 AND s.forks = 0 LIMIT ?;
