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
SELECT max(coalesce((SELECT max(id) FROM buckets), 0), (SELECT value FROM node WHERE name = 'bucket_base'));

-- name: list_bucket
-- A page of a bucket's streams in byte order of their ids. One bound on each side, as an index has no use for a second.
SELECT s.id, s.name, s.content_type, s.created_us, h.next_seq, h.ts, h.closed, s.dies_us, s.ttl_s
  FROM streams AS s JOIN heads AS h ON h.stream = s.id
 WHERE s.bucket = :bucket AND s.name >= :first AND s.name < :end AND +s.name > :after AND s.soft_deleted = 0
 ORDER BY s.name LIMIT :limit;

-- name: list_streams
-- A page of all streams from a place on, without those that have ended: the rest of one bucket, then all after it.
WITH page AS (
    SELECT b.name AS bucket, s.name AS name, s.id AS id, s.created_us, s.ttl_s, s.expires_us, s.dies_us,
           s.first_epoch + s.epoch_count - 1, s.profile
      FROM buckets AS b JOIN streams AS s ON s.bucket = b.id
     WHERE b.name = :bucket AND s.name >= :name AND s.soft_deleted = 0 AND (s.dies_us IS NULL OR s.dies_us > :now)
    UNION ALL
    SELECT b.name, s.name, s.id, s.created_us, s.ttl_s, s.expires_us, s.dies_us, s.first_epoch + s.epoch_count - 1, s.profile
      FROM buckets AS b INDEXED BY buckets_in_use JOIN streams AS s ON s.bucket = b.id
     WHERE b.name > :bucket AND b.streams > 0 AND s.soft_deleted = 0 AND (s.dies_us IS NULL OR s.dies_us > :now)
     ORDER BY 1, 2 LIMIT :limit OFFSET :skip
)
SELECT page.*, h.next_seq, h.last_row FROM page CROSS JOIN heads AS h ON h.stream = page.id;

-- name: list_stretches
-- The list of all streams in stretches, in its order.
SELECT bucket, name, streams FROM stretches ORDER BY bucket, name;

-- name: count_ended
-- Streams that have ended and are not collected: how many of a bucket in which of the stretches that begin in it. Those
-- without one lie in the last stretch that begins before the bucket.
SELECT b.name, (SELECT u.name FROM stretches AS u WHERE u.bucket = b.name AND u.name <= s.name
                 ORDER BY u.name DESC LIMIT 1) AS stretch, count(*)
  FROM streams AS s JOIN buckets AS b ON b.id = s.bucket
 WHERE s.dies_us IS NOT NULL AND s.dies_us <= ? AND s.soft_deleted = 0 GROUP BY b.name, stretch;

-- name: long_stretch
-- The first stretch with too many streams.
SELECT bucket, name, streams FROM stretches WHERE streams > ? ORDER BY bucket, name LIMIT 1;

-- name: short_stretches
-- Stretches that are short together with the one before them.
SELECT bucket, name, streams
  FROM (SELECT bucket, name, streams, lag(streams) OVER (ORDER BY bucket, name) AS before FROM stretches)
 WHERE streams + before <= ? LIMIT ?;

-- name: name_after
-- The name so many streams after a place, in the order of the list of all streams.
SELECT b.name, s.name FROM buckets AS b JOIN streams AS s ON s.bucket = b.id
 WHERE b.name = :bucket AND s.name >= :name AND s.soft_deleted = 0
UNION ALL
SELECT b.name, s.name FROM buckets AS b INDEXED BY buckets_in_use JOIN streams AS s ON s.bucket = b.id
 WHERE b.name > :bucket AND b.streams > 0 AND s.soft_deleted = 0
 ORDER BY 1, 2 LIMIT 1 OFFSET :skip;

-- name: begin_stretch
-- A new stretch.
INSERT INTO stretches (bucket, name, streams) VALUES (?, ?, ?);

-- name: set_stretch
-- How many streams a stretch has.
UPDATE stretches SET streams = ? WHERE bucket = ? AND name = ?;

-- name: lengthen_stretch
-- Gives the streams of a stretch that ends to the one before it, unless that has become long meanwhile.
UPDATE stretches SET streams = streams + :streams
 WHERE streams + :streams <= :most AND (bucket, name) = (
     SELECT t.bucket, t.name FROM stretches AS t WHERE (t.bucket, t.name) < (:bucket, :name)
      ORDER BY t.bucket DESC, t.name DESC LIMIT 1);

-- name: end_stretch
-- Takes a stretch out.
DELETE FROM stretches WHERE bucket = ? AND name = ?;
