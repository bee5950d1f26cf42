-- name: load_streams
-- Everything the decisions about a stream need, for many names at once; the VALUES group is repeated once per name.
-- One row of JSON, because every row that Python fetches is another wait for its interpreter lock.
WITH wanted (slot, bucket_name, name) AS (VALUES (?, ?, ?))
SELECT json_group_array(json_array(
           w.slot, b.id, b.alive, s.id, s.content_type, s.created_us, s.ttl_s, s.expires_us, s.dies_us, s.first_epoch,
           s.epoch_count, s.profile, s.soft_deleted, s.earliest_seq, s.recovered, s.meaning, s.forks, s.source, s.fork_seq,
           s.fork_sub, t.epoch,
           h.next_seq, h.last_row, h.ordinal, h.position, h.ts, h.anchor_1, h.anchor_2, h.anchor_3, h.anchor_4,
           h.closed, h.schema_version, h.producers, h.stream_seq, h.closed_by, h.closed_epoch, h.closed_seq))
  FROM wanted AS w
  LEFT JOIN buckets AS b ON b.name = w.bucket_name
  LEFT JOIN streams AS s ON s.bucket = b.id AND s.name = w.name
  LEFT JOIN heads AS h ON h.stream = s.id
  LEFT JOIN tombstones AS t ON s.id IS NULL AND t.bucket = b.id AND t.name = w.name;

-- name: load_producers
-- The producers of one stream.
SELECT producer, epoch, seq, next_seq FROM producers WHERE stream = ?;

-- name: load_epochs
-- The epochs of one stream after its first.
SELECT epoch, first_seq FROM epochs WHERE stream = ? ORDER BY epoch;

-- name: insert_stream
-- A new incarnation.
INSERT INTO streams (bucket, name, id, content_type, created_us, ttl_s, expires_us, dies_us, first_epoch)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_head
-- The head of a new incarnation, before its first append.
INSERT INTO heads (stream, ts) VALUES (?, ?);

-- name: delete_stream
-- Takes a stream's configuration out.
DELETE FROM streams WHERE bucket = ? AND name = ?;

-- name: delete_head
-- Takes a stream's head out.
DELETE FROM heads WHERE stream = ?;

-- name: delete_producers
-- Takes a stream's producers out.
DELETE FROM producers WHERE stream = ?;

-- name: delete_epochs
-- Takes a stream's later epochs out.
DELETE FROM epochs WHERE stream = ?;

-- name: bury_name
-- Remembers the last epoch of a name that died.
INSERT INTO tombstones (bucket, name, epoch, stream, deleted_us) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (bucket, name) DO UPDATE SET epoch = excluded.epoch, stream = excluded.stream, deleted_us = excluded.deleted_us;

-- name: dig_grave
-- Marks a dead stream's log rows for freeing.
INSERT INTO graves (stream, last_row) VALUES (?, ?);

-- name: next_graves
-- Dead streams with log rows left. A row above `heads_through` stays: it is what keeps its number from being given again.
SELECT stream, last_row FROM graves WHERE last_row <= (SELECT value FROM node WHERE name = 'heads_through') LIMIT ?;

-- name: move_grave
-- How far the freeing of a dead stream has come.
UPDATE graves SET last_row = ? WHERE stream = ?;

-- name: close_grave
-- A dead stream has no log rows left.
DELETE FROM graves WHERE stream = ?;

-- name: write_heads
-- Heads as of the batch they are written in; the VALUES group is repeated once per head.
REPLACE INTO heads (next_seq, last_row, ordinal, position, ts, anchor_1, anchor_2, anchor_3, anchor_4, closed,
                    schema_version, producers, stream_seq, closed_by, closed_epoch, closed_seq, stream)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: write_plain_heads
-- The same for heads of open streams without a `Stream-Seq`: what is NULL need not be bound.
REPLACE INTO heads (next_seq, last_row, ordinal, position, ts, anchor_1, anchor_2, anchor_3, anchor_4, closed,
                    schema_version, producers, stream)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: read_head
-- One head, in the order `write_heads` takes it.
SELECT next_seq, last_row, ordinal, position, ts, anchor_1, anchor_2, anchor_3, anchor_4, closed, schema_version, producers,
       stream_seq, closed_by, closed_epoch, closed_seq
  FROM heads WHERE stream = ?;

-- name: write_producers
-- The newest accepted requests of producers; the VALUES group is repeated once per producer.
REPLACE INTO producers (stream, producer, epoch, seq, next_seq) VALUES (?, ?, ?, ?, ?);

-- name: count_producers
-- How many producers a stream has.
SELECT count(*) FROM producers WHERE stream = ?;

-- name: heads_through
-- The log row up to which `heads` and `producers` are complete.
SELECT value FROM node WHERE name = 'heads_through';

-- name: set_heads_through
-- Moves that row forward.
UPDATE node SET value = ? WHERE name = 'heads_through';

-- name: postpone_end
-- A touched sliding window: the stream may not be collected before this moment.
UPDATE streams SET dies_us = ? WHERE bucket = ? AND name = ?;

-- name: retain_from
-- Entries below this one are gone.
UPDATE streams SET earliest_seq = ? WHERE bucket = ? AND name = ?;

-- name: ended_streams
-- Streams whose stored end has passed.
SELECT b.name, s.name FROM streams AS s JOIN buckets AS b ON b.id = s.bucket
 WHERE s.dies_us IS NOT NULL AND s.dies_us <= ? ORDER BY s.dies_us LIMIT ?;

-- name: insert_epoch
-- A stream that was recovered goes on in an epoch of its own.
INSERT INTO epochs (stream, epoch, first_seq) VALUES (?, ?, ?);

-- name: open_epoch
-- Says so where the stream is.
UPDATE streams SET epoch_count = epoch_count + 1, recovered = 0 WHERE bucket = ? AND name = ?;

-- name: newest_epoch
-- The highest epoch that any stream has had.
UPDATE node SET value = max(value, ?) WHERE name = 'epoch_newest';

-- name: last_stream_id
-- The newest incarnation ever: living, buried or in the log.
SELECT max(coalesce((SELECT max(stream) FROM heads), 0), coalesce((SELECT max(stream) FROM tombstones), 0),
           coalesce((SELECT max(stream) FROM graves), 0), (SELECT value FROM node WHERE name = 'stream_base'),
           coalesce((SELECT stream FROM log ORDER BY row_id DESC LIMIT 1), 0));
