-- name: live_packs
-- Every pack that the catalogue names, and what is known to be dead in it.
SELECT id, made, kind, level, stream, first_seq, end_seq, min_stream, max_stream, streams, entries, bytes, sha256, payload_bytes,
       min_ts, max_ts, first_row, last_row, dead_entries
  FROM objects WHERE stream IS NULL AND dead_us IS NULL AND level >= 0 ORDER BY level, first_row;

-- name: segments_after
-- Segments in the order in which they became known: whose neighbours have to be looked at.
SELECT id, stream FROM objects WHERE id > :after AND +stream IS NOT NULL AND dead_us IS NULL ORDER BY id LIMIT :limit;

-- name: small_segments
-- The segments of some streams that are not full, in the order of their entries.
SELECT o.id, o.made, o.kind, o.level, o.stream, o.first_seq, o.end_seq, o.min_stream, o.max_stream, o.streams, o.entries, o.bytes,
       o.sha256, o.payload_bytes, o.min_ts, o.max_ts, o.first_row, o.last_row
  FROM json_each(:streams) AS w JOIN objects AS o ON o.stream = w.value
 WHERE o.dead_us IS NULL AND o.payload_bytes < :payload_bytes AND o.entries < :entries ORDER BY o.stream, o.first_seq;

-- name: gone_segments
-- Segments of streams that are gone.
SELECT id, made, kind, level, stream, first_seq, end_seq, min_stream, max_stream, streams, entries, bytes, sha256, payload_bytes,
       min_ts, max_ts, first_row, last_row
  FROM objects AS o
 WHERE o.stream >= 0 AND o.dead_us IS NULL AND NOT EXISTS (SELECT 1 FROM heads WHERE heads.stream = o.stream)
 ORDER BY o.stream LIMIT :limit;

-- name: gone_among
-- Which of some streams are gone. One row of JSON, as there may be many.
SELECT json_group_array(w.value) FROM json_each(:streams) AS w
 WHERE NOT EXISTS (SELECT 1 FROM heads WHERE heads.stream = w.value);

-- name: directory_of
-- The kept directory of a pack that is still there.
SELECT d.directory FROM objects AS o JOIN directories AS d ON d.object = o.id WHERE o.made = ?;

-- name: set_dead_entries
-- How many entries of a pack are of streams that are gone.
UPDATE objects SET dead_entries = ? WHERE made = ?;
