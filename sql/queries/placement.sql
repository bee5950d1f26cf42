-- name: node_value
-- One fact about this folder.
SELECT value FROM node WHERE name = ?;

-- name: node_values
-- All facts about this folder.
SELECT name, value FROM node;

-- name: set_node_value
-- Moves one fact.
UPDATE node SET value = ? WHERE name = ?;

-- name: untouched
-- Whether nothing was ever stored here, nor a bucket claimed: what a first start leaves that was refused.
SELECT NOT EXISTS (SELECT 1 FROM node WHERE name IN ('fence', 'generation') AND value <> 0)
   AND NOT EXISTS (SELECT 1 FROM heads WHERE stream > 0) AND NOT EXISTS (SELECT 1 FROM log WHERE row_id > 0)
   AND NOT EXISTS (SELECT 1 FROM buckets WHERE id > 0) AND NOT EXISTS (SELECT 1 FROM tombstones WHERE bucket > 0)
   AND NOT EXISTS (SELECT 1 FROM subscriptions WHERE number > 0);

-- name: insert_object
-- An object that a generation names. One that is there already stays as it is: applying a generation twice is no harm.
INSERT INTO objects (made, kind, level, stream, first_seq, end_seq, min_stream, max_stream, streams, entries, bytes, sha256,
                     payload_bytes, min_ts, max_ts, first_row, last_row)
VALUES (:made, :kind, :level, :stream, :first_seq, :end_seq, :min_stream, :max_stream, :streams, :entries, :bytes, :sha256,
        :payload_bytes, :min_ts, :max_ts, :first_row, :last_row)
    ON CONFLICT (made) DO NOTHING;

-- name: kill_object
-- An object has left the catalogue.
UPDATE objects SET dead_us = ? WHERE made = ? AND dead_us IS NULL;

-- name: forget_object
-- An object has been deleted from the store.
DELETE FROM objects WHERE made = ?;

-- name: forget_directory
-- Its directory goes with it.
DELETE FROM directories WHERE object = (SELECT id FROM objects WHERE made = ?);

-- name: segments_from
-- The segments of a stream from the one on that may hold an entry, in order.
SELECT id, made, kind, level, stream, first_seq, end_seq, min_stream, max_stream, streams, entries, bytes, sha256, payload_bytes,
       min_ts, max_ts, first_row, last_row
  FROM objects
 WHERE stream = :stream AND dead_us IS NULL
   AND first_seq >= coalesce((SELECT max(first_seq) FROM objects WHERE stream = :stream AND first_seq <= :seq AND dead_us IS NULL), :seq)
 ORDER BY first_seq LIMIT :limit;

-- name: packs_of
-- The packs whose span of incarnations includes one.
SELECT id, made, kind, level, stream, first_seq, end_seq, min_stream, max_stream, streams, entries, bytes, sha256, payload_bytes,
       min_ts, max_ts, first_row, last_row
  FROM objects WHERE stream IS NULL AND dead_us IS NULL AND min_stream <= :stream AND max_stream >= :stream ORDER BY first_row;

-- name: all_live
-- Every object that the catalogue names.
SELECT id, made, kind, level, stream, first_seq, end_seq, min_stream, max_stream, streams, entries, bytes, sha256, payload_bytes,
       min_ts, max_ts, first_row, last_row
  FROM objects WHERE dead_us IS NULL ORDER BY id;

-- name: is_live
-- Whether the catalogue names an object.
SELECT EXISTS (SELECT 1 FROM objects WHERE made = ? AND dead_us IS NULL);

-- name: load_directory
-- The kept directory of a pack.
SELECT directory FROM directories WHERE object = ?;

-- name: keep_directory
-- Keeps a pack's directory, if the pack is still there.
INSERT OR IGNORE INTO directories (object, directory) SELECT id, :directory FROM objects WHERE made = :made;

-- name: release_rows
-- A slice of the log that is in published objects; rows of stuck streams stay.
DELETE FROM log WHERE row_id > :after AND row_id <= :through AND stream NOT IN (SELECT stream FROM stuck);

-- name: sizes_above
-- The oldest rows of a stretch of the log, with their sizes: SQLite knows those without reading the payloads.
SELECT row_id, length(payload) FROM log WHERE row_id > :after AND row_id <= :through ORDER BY row_id LIMIT :limit;

-- name: log_bytes_above
-- Payload in the log above a row, for what the node counts from its start on.
SELECT coalesce(sum(length(payload)), 0), count(*), coalesce(max(row_id), 0) FROM log WHERE row_id > ?;

-- name: oldest_ts_above
-- When the oldest row above one was written.
SELECT ts FROM log WHERE row_id > ? ORDER BY row_id LIMIT 1;

-- name: stick
-- A stream cannot be sealed.
INSERT OR REPLACE INTO stuck (stream, reason, since_us) VALUES (?, ?, ?);

-- name: unpublished
-- What changed since the newest generation, in the order of its last change.
SELECT max(change) AS newest, bucket, name FROM unpublished GROUP BY bucket, name ORDER BY newest;

-- name: any_unpublished
-- Whether there is anything.
SELECT EXISTS (SELECT 1 FROM unpublished) OR EXISTS (SELECT 1 FROM index_untold);

-- name: newest_change
-- The newest change that the catalogue has not been told of, 0 when there is none.
SELECT coalesce(max(change), 0) FROM unpublished;

-- name: untold_through
-- Whether a change up to one is untold.
SELECT EXISTS (SELECT 1 FROM unpublished WHERE change <= ?);

-- name: told
-- The catalogue has been told of changes up to one.
DELETE FROM unpublished WHERE change <= ?;

-- name: count_requests
-- Adds to the account of a stream or, as 0, of the node; what was asked for a stream that is gone is the node's.
INSERT INTO store_requests (stream, artifact, op, requests, failures, bytes)
    SELECT iif(EXISTS (SELECT 1 FROM heads WHERE stream = :stream), :stream, 0),
           :artifact, :op, :requests, :failures, :bytes WHERE true
    ON CONFLICT (stream, artifact, op) DO UPDATE SET requests = requests + excluded.requests,
        failures = failures + excluded.failures, bytes = bytes + excluded.bytes;
