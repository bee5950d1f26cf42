-- name: catalogue
-- Where this folder stands: the newest generation that is applied, and the log row up to which it goes.
SELECT (SELECT value FROM node WHERE name = 'generation'), (SELECT value FROM node WHERE name = 'released_through');

-- name: open_row
-- Walks back from a stream's row to its oldest one above :through; the row is NULL when it is not there any more.
WITH RECURSIVE hop (row_id, seq, position, prev_row, jump_row) AS (
    SELECT row_id, seq, position, prev_row, jump_row FROM log WHERE row_id = :row AND row_id > :through
    UNION ALL
    SELECT l.row_id, l.seq, l.position, l.prev_row, l.jump_row
      FROM hop JOIN log AS l
        ON l.row_id = CASE WHEN hop.jump_row > :through THEN hop.jump_row ELSE hop.prev_row END
     WHERE hop.prev_row > :through
)
SELECT min(row_id), min(seq), min(position) FROM hop;

-- name: requests_of
-- Requests to the object store that are counted for a stream, without those of the last seconds.
SELECT artifact, op, requests FROM store_requests WHERE stream = ?;

-- name: schema_bytes
-- What its declarations take.
SELECT length(CAST(registry AS BLOB)) + coalesce(length(CAST(config AS BLOB)), 0) FROM schemas WHERE stream = ?;
