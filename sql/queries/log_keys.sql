-- name: scan_stretch
-- The routing keys of one stream's rows in a stretch of the log, oldest first, without the entries.
SELECT row_id, seq, count, keys FROM log WHERE row_id BETWEEN :first AND :last AND stream = :stream ORDER BY row_id;

-- name: walk_stretch
-- The same by following the stream's own chain, newest first.
WITH RECURSIVE hop (row_id, prev_row) AS (
    SELECT row_id, prev_row FROM log WHERE row_id = :last
    UNION ALL
    SELECT l.row_id, l.prev_row FROM hop JOIN log AS l ON l.row_id = hop.prev_row WHERE hop.row_id > :first
)
SELECT l.row_id, l.seq, l.count, l.keys FROM hop JOIN log AS l USING (row_id);
