-- name: rows_to_seal
-- What a seal needs of each row above one, oldest first; who appended it is asked separately, as most rows say nothing of it.
SELECT row_id, stream, seq, count, ordinal, position, ts, flags, schema_version, lens, keys, payload
  FROM log WHERE row_id > :after AND row_id <= :through ORDER BY row_id;

-- name: flags_after
-- The row after one: whether it begins an append.
SELECT flags FROM log WHERE row_id > ? ORDER BY row_id LIMIT 1;

-- name: marked_rows
-- A slice of the rows that say more of their append: its producer, its place in an order of the client's, the end.
SELECT row_id, stream, seq + count, flags, producer, producer_epoch, producer_seq, stream_seq
  FROM log WHERE row_id > :after AND row_id <= :through
   AND (producer IS NOT NULL OR stream_seq IS NOT NULL OR flags & 2) ORDER BY row_id LIMIT :limit;

-- name: living_streams
-- Which incarnations of a JSON array live, and can be sealed.
SELECT wanted.value FROM json_each(?) AS wanted
 WHERE EXISTS (SELECT 1 FROM heads AS h WHERE h.stream = wanted.value)
   AND NOT EXISTS (SELECT 1 FROM stuck AS s WHERE s.stream = wanted.value);
