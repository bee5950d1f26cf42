-- name: log_rows
-- Every row of the log, without what its entries say; `end` is the byte position after them.
SELECT row_id, stream, seq, count, ordinal, prev_row, position, flags, ts, producer, producer_epoch, producer_seq, stream_seq,
       position + length(payload) - CASE WHEN lens IS NULL THEN 0 ELSE length(lens) / 4 - 1 END AS end
  FROM log ORDER BY row_id;

-- name: heads
-- Every living stream with its head.
SELECT s.id AS stream, s.bucket, s.name, h.next_seq, h.last_row, h.ordinal, h.position, h.ts, h.anchor_1, h.anchor_2,
       h.closed, h.producers, h.stream_seq
  FROM streams AS s LEFT JOIN heads AS h ON h.stream = s.id;

-- name: lonely_heads
-- Heads without a stream.
SELECT stream FROM heads WHERE stream NOT IN (SELECT id FROM streams);

-- name: producers
-- Every producer.
SELECT stream, producer, epoch, seq, next_seq FROM producers;

-- name: graves
-- Dead streams whose rows are being freed.
SELECT stream, last_row FROM graves;

-- name: miscounted_buckets
-- Buckets whose counter is not the number of their streams.
SELECT b.name, b.streams, count(s.id) FROM buckets AS b LEFT JOIN streams AS s ON s.bucket = b.id
 GROUP BY b.id HAVING b.streams <> count(s.id) OR (b.alive = 0 AND count(s.id) > 0);

-- name: wrong_tombstones
-- Living streams that do not stand above the last death of their name.
SELECT s.name, s.first_epoch, t.epoch FROM streams AS s JOIN tombstones AS t ON t.bucket = s.bucket AND t.name = s.name
 WHERE s.first_epoch <= t.epoch;

-- name: heads_through
-- The row up to which heads are complete.
SELECT value FROM node WHERE name = 'heads_through';

-- name: released_through
-- The row up to which the log is in published objects.
SELECT value FROM node WHERE name = 'released_through';

-- name: miscounted_stretches
-- Stretches of the list of all streams whose count is not the number of streams between them and the next one.
WITH listed AS (
    SELECT (SELECT t.bucket || char(10) || t.name FROM stretches AS t WHERE (t.bucket, t.name) <= (b.name, s.name)
             ORDER BY t.bucket DESC, t.name DESC LIMIT 1) AS stretch
      FROM streams AS s JOIN buckets AS b ON b.id = s.bucket WHERE s.soft_deleted = 0
)
SELECT t.bucket, t.name, t.streams, count(l.stretch)
  FROM stretches AS t LEFT JOIN listed AS l ON l.stretch = t.bucket || char(10) || t.name
 GROUP BY t.bucket, t.name HAVING t.streams <> count(l.stretch);
