-- name: dead_objects
-- Objects that left the catalogue before a moment, the longest dead first.
SELECT id, made, kind, level, stream, first_seq, end_seq, min_stream, max_stream, streams, entries, bytes, sha256, payload_bytes,
       min_ts, max_ts, first_row, last_row
  FROM objects WHERE dead_us <= :before ORDER BY dead_us LIMIT :limit;

-- name: known_objects
-- Which of some objects this folder knows, living or dead.
SELECT w.value FROM json_each(:made) AS w WHERE EXISTS (SELECT 1 FROM objects WHERE objects.made = w.value);

-- name: dead_index_objects
-- Objects of indexes that have been dead for long enough, and of which the catalogue has been told.
SELECT o.made, o.family, o.filter_bytes > 0
  FROM index_objects AS o
 WHERE o.dead_us <= :before AND NOT EXISTS (SELECT 1 FROM index_untold AS u WHERE u.kind = 'object' AND u.id = o.id)
 ORDER BY o.dead_us LIMIT :limit;

-- name: forget_index_object
-- An object of an index has been deleted from the store.
DELETE FROM index_objects WHERE made = ? AND dead_us IS NOT NULL;

-- name: known_index_objects
-- Which of some objects of indexes this folder knows, living or dead.
SELECT w.value FROM json_each(:made) AS w WHERE EXISTS (SELECT 1 FROM index_objects WHERE index_objects.made = w.value);
