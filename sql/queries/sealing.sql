-- name: rows_to_seal
-- What a seal needs of each row above one, oldest first, and whether it says more of its append: that is asked separately,
-- as most rows do not.
SELECT row_id, stream, seq, count, ordinal, position, ts, flags, schema_version, lens, keys,
       producer IS NOT NULL OR stream_seq IS NOT NULL OR flags & 2, payload
  FROM log WHERE row_id > :after AND row_id <= :through ORDER BY row_id;

-- name: plain_rows
-- Rows above one that are a small entry each, column by column: numbers and payloads joined. SQLite visits them in the
-- order of their ids, as the range is of its primary key; all columns are joined in the same order in any case. The count
-- says whether there were others between them. A blob is joined as text without a look at its bytes. Commas, as they
-- are the default: every other separator is looked at again with each row, which takes half as long again.
SELECT count(*), (SELECT schema_version FROM log WHERE row_id = :after + 1), count(keys),
       count(coalesce(producer, stream_seq)) + sum(flags) - count(*),
       group_concat(stream), group_concat(seq), group_concat(ts), group_concat(length(payload)),
       CAST(group_concat(payload, '') AS BLOB)
  FROM log WHERE row_id > :after AND row_id <= :through
   AND count = 1 AND (flags = 1 OR flags = 3) AND lens IS NULL AND length(payload) <= :bytes_max
   AND schema_version = (SELECT schema_version FROM log WHERE row_id = :after + 1);

-- name: plain_keys
-- The routing keys of the same rows: the size of each, or -1 for none, and all of them joined.
SELECT count(*), group_concat(coalesce(length(keys), -1)), CAST(group_concat(keys, '') AS BLOB)
  FROM log WHERE row_id > :after AND row_id <= :through
   AND count = 1 AND (flags = 1 OR flags = 3) AND lens IS NULL AND length(payload) <= :bytes_max;

-- name: ends_of_rows
-- Where the rows of a JSON array lie in their streams, column by column; those that have been freed are missing.
SELECT count(*), group_concat(l.row_id), group_concat(l.ordinal), group_concat(l.position)
  FROM json_each(?) AS wanted CROSS JOIN log AS l ON l.row_id = wanted.value;

-- name: flags_after
-- The row after one: whether it begins an append.
SELECT flags FROM log WHERE row_id > ? ORDER BY row_id LIMIT 1;

-- name: marked_rows
-- A slice of the rows that say more of their append: its producer, its place in an order of the client's, the end.
SELECT row_id, stream, seq + count, flags, producer, producer_epoch, producer_seq, stream_seq
  FROM log WHERE row_id > :after AND row_id <= :through
   AND (producer IS NOT NULL OR stream_seq IS NOT NULL OR flags & 2) ORDER BY row_id LIMIT :limit;

-- name: streams_left_out
-- Which incarnations of a JSON array do not live, or cannot be sealed.
SELECT wanted.value FROM json_each(?) AS wanted
 WHERE NOT EXISTS (SELECT 1 FROM heads AS h WHERE h.stream = wanted.value)
    OR EXISTS (SELECT 1 FROM stuck AS s WHERE s.stream = wanted.value);
