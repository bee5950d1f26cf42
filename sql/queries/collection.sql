-- name: dead_objects
-- Objects that left the catalogue before a moment, the longest dead first.
SELECT id, made, kind, level, stream, first_seq, end_seq, min_stream, max_stream, streams, entries, bytes, sha256, payload_bytes,
       min_ts, max_ts, first_row, last_row
  FROM objects WHERE dead_us <= :before ORDER BY dead_us LIMIT :limit;

-- name: known_objects
-- Which of some objects this folder knows, living or dead.
SELECT w.value FROM json_each(:made) AS w WHERE EXISTS (SELECT 1 FROM objects WHERE objects.made = w.value);
