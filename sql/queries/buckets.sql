-- name: load_bucket
-- One bucket by name.
SELECT id, streams, created_us, alive FROM buckets WHERE name = ?;

-- name: insert_bucket
-- A new bucket.
INSERT INTO buckets (id, name, created_us) VALUES (?, ?, ?);

-- name: delete_bucket
-- A bucket ends; its row and its tombstones stay for the next life of the name.
UPDATE buckets SET alive = 0 WHERE id = ?;

-- name: revive_bucket
-- A deleted bucket is created again.
UPDATE buckets SET alive = 1, created_us = ? WHERE id = ?;

-- name: count_streams
-- Moves a bucket's counter of live streams.
UPDATE buckets SET streams = streams + ? WHERE id = ?;

-- name: last_bucket_id
-- The newest bucket ever.
SELECT coalesce(max(id), 0) FROM buckets;

-- name: list_bucket
-- A page of a bucket's streams in byte order of their ids.
SELECT s.id, s.name, s.content_type, s.created_us, h.next_seq, h.ts, h.closed, s.dies_us, s.ttl_s
  FROM streams AS s JOIN heads AS h ON h.stream = s.id
 WHERE s.bucket = :bucket AND s.name > :after AND s.name >= :prefix AND (:prefix_end IS NULL OR s.name < :prefix_end)
       AND s.soft_deleted = 0
 ORDER BY s.name LIMIT :limit;

-- name: list_buckets
-- Buckets in byte order of their names.
SELECT id, name, streams FROM buckets WHERE alive = 1 ORDER BY name;

-- name: list_streams
-- A page of one bucket's streams after a name.
SELECT s.id, s.name, s.created_us, s.ttl_s, s.expires_us, s.dies_us, s.first_epoch + s.epoch_count - 1, s.profile,
       h.next_seq
  FROM streams AS s JOIN heads AS h ON h.stream = s.id
 WHERE s.bucket = ? AND s.name > ? AND s.soft_deleted = 0 ORDER BY s.name LIMIT ? OFFSET ?;
