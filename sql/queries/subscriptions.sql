-- name: all_subscriptions
-- Every subscription, at a start.
SELECT number, id, kind, pattern, url, wake_bucket, wake_name, lease_ms, description, digest, base, created_us, since_row,
       linked, generation, phase, wake, holder, lease_us, delivered, attempts, attempt_us, seen
  FROM subscriptions;

-- name: one_subscription
-- The same of one.
SELECT number, id, kind, pattern, url, wake_bucket, wake_name, lease_ms, description, digest, base, created_us, since_row,
       linked, generation, phase, wake, holder, lease_us, delivered, attempts, attempt_us, seen
  FROM subscriptions WHERE number = ?;

-- name: put_subscription
-- A new subscription, before its first wake.
INSERT INTO subscriptions (number, id, kind, pattern, url, wake_bucket, wake_name, lease_ms, description, digest, base,
                           created_us, since_row)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: move_subscription
-- Its wake, as it is from now on.
UPDATE subscriptions
   SET generation = ?, phase = ?, wake = ?, holder = ?, lease_us = ?, delivered = ?, attempts = ?, attempt_us = ?, seen = ?
 WHERE number = ?;

-- name: settle_links
-- Every stream that was there has its link.
UPDATE subscriptions SET linked = ? WHERE number = ?;

-- name: delete_subscription
-- Takes a subscription out.
DELETE FROM subscriptions WHERE number = ?;

-- name: clear_id
-- Before an id is given: of one whose answer was lost, a row may be there.
DELETE FROM subscriptions WHERE id = ?;

-- name: bury_subscription
-- Its links are freed later.
INSERT OR IGNORE INTO subscription_graves (number) VALUES (?);

-- name: buried_subscriptions
-- Deleted subscriptions with links left.
SELECT number FROM subscription_graves LIMIT ?;

-- name: free_links
-- Some links of a deleted subscription.
DELETE FROM subscription_links
 WHERE subscription = :number AND (bucket, name) IN (
     SELECT bucket, name FROM subscription_links WHERE subscription = :number ORDER BY bucket, name LIMIT :count);

-- name: unbury_subscription
-- A deleted subscription has no links left.
DELETE FROM subscription_graves WHERE number = ?;

-- name: explicit_links
-- Every stream that was named by a request, at a start.
SELECT subscription, bucket, name FROM subscription_links WHERE explicit = 1;

-- name: missing_links
-- Of subscriptions and streams, by their places in a list, those without a link.
SELECT wanted.key
  FROM json_each(?) AS wanted
 WHERE NOT EXISTS (
     SELECT 1 FROM subscription_links AS l
      WHERE l.subscription = wanted.value ->> 0 AND l.bucket = wanted.value ->> 1 AND l.name = wanted.value ->> 2);

-- name: join_links
-- Links of streams that are new to subscriptions; one that is there stays as it is.
INSERT OR IGNORE INTO subscription_links (subscription, bucket, name, stream, acked_seq, acked, explicit)
SELECT wanted.value ->> 0, wanted.value ->> 1, wanted.value ->> 2, wanted.value ->> 3, wanted.value ->> 4,
       wanted.value ->> 5, 0
  FROM json_each(?) AS wanted;

-- name: name_links
-- Links by name; one that is there keeps what was acknowledged.
INSERT INTO subscription_links (subscription, bucket, name, stream, acked_seq, acked, explicit)
SELECT wanted.value ->> 0, wanted.value ->> 1, wanted.value ->> 2, wanted.value ->> 3, wanted.value ->> 4,
       wanted.value ->> 5, 1
  FROM json_each(?) AS wanted WHERE 1
    ON CONFLICT (subscription, bucket, name) DO UPDATE SET explicit = 1;

-- name: unname_link
-- A link that only the glob keeps.
UPDATE subscription_links SET explicit = 0 WHERE subscription = ? AND bucket = ? AND name = ?;

-- name: drop_joined
-- One link that ends with a life of its stream, unless it was made by name.
DELETE FROM subscription_links WHERE subscription = ? AND bucket = ? AND name = ? AND stream <= ? AND explicit = 0;

-- name: drop_link
-- One link, however it was made.
DELETE FROM subscription_links WHERE subscription = ? AND bucket = ? AND name = ?;

-- name: find_links
-- The links of one subscription to the streams of a list.
SELECT l.bucket, l.name, l.stream, l.acked_seq, l.acked, l.explicit
  FROM json_each(:names) AS wanted
 CROSS JOIN subscription_links AS l
    ON l.subscription = :number AND l.bucket = wanted.value ->> 0 AND l.name = wanted.value ->> 1;

-- name: some_links
-- The first links of a subscription in the order of their names.
SELECT bucket, name, stream, acked_seq, acked, explicit
  FROM subscription_links WHERE subscription = ? ORDER BY bucket, name LIMIT ?;

-- name: count_links
-- How many links a subscription has, as far as that matters.
SELECT count(*) FROM (SELECT 1 FROM subscription_links AS page WHERE subscription = ? LIMIT ?) AS page;

-- name: ack_links
-- What was acknowledged of streams: never less than before, and nothing of one without a link.
INSERT INTO subscription_links (subscription, bucket, name, stream, acked_seq, acked, explicit)
SELECT l.subscription, l.bucket, l.name, wanted.value ->> 2, wanted.value ->> 3, wanted.value ->> 4, l.explicit
  FROM json_each(?) AS wanted
 CROSS JOIN subscription_links AS l
    ON l.subscription = ? AND l.bucket = wanted.value ->> 0 AND l.name = wanted.value ->> 1
 WHERE 1
    ON CONFLICT (subscription, bucket, name) DO UPDATE
   SET stream = excluded.stream, acked_seq = excluded.acked_seq, acked = excluded.acked
 WHERE subscription_links.stream <> excluded.stream OR subscription_links.acked_seq < excluded.acked_seq;

-- name: links_behind
-- Links whose streams have more than was acknowledged, in the order of their names.
SELECT l.bucket, l.name
  FROM subscription_links AS l
 CROSS JOIN buckets AS b ON b.name = l.bucket
 CROSS JOIN streams AS s ON s.bucket = b.id AND s.name = l.name
 CROSS JOIN heads AS h ON h.stream = s.id
 WHERE l.subscription = ? AND h.next_seq > CASE WHEN l.stream = s.id THEN l.acked_seq ELSE 0 END
 ORDER BY l.bucket, l.name LIMIT ?;

-- name: late_streams
-- Streams with a log row above another one, in the order of the table; the scan goes on behind a place.
SELECT s.bucket, b.name, s.name, s.id, h.last_row
  FROM streams AS s
 CROSS JOIN heads AS h ON h.stream = s.id
 CROSS JOIN buckets AS b ON b.id = s.bucket
 WHERE (s.bucket, s.name) > (:bucket, :name) AND h.last_row > :through AND s.soft_deleted = 0
 ORDER BY s.bucket, s.name LIMIT :limit;

-- name: streams_from
-- Streams in the order of the table, behind a place: to be held against a new glob.
SELECT s.bucket, b.name, s.name
  FROM streams AS s
 CROSS JOIN buckets AS b ON b.id = s.bucket
 WHERE (s.bucket, s.name) > (?, ?) AND s.soft_deleted = 0
 ORDER BY s.bucket, s.name LIMIT ?;

-- name: plain_ends
-- Where streams of a list end, as far as heads are written: of those with one epoch and no lifetime, that are no forks.
SELECT b.name, s.name, s.id, s.first_epoch, h.next_seq
  FROM json_each(?) AS wanted
 CROSS JOIN buckets AS b ON b.name = wanted.value ->> 0
 CROSS JOIN streams AS s ON s.bucket = b.id AND s.name = wanted.value ->> 1
 CROSS JOIN heads AS h ON h.stream = s.id
 WHERE s.ttl_s IS NULL AND s.expires_us IS NULL AND s.soft_deleted = 0 AND s.epoch_count = 1 AND s.source IS NULL;

-- name: joined_through
-- The log row up to which every stream that a subscription hears of has its link.
SELECT value FROM node WHERE name = 'subscriptions_through';

-- name: set_joined_through
-- Moves that row.
INSERT INTO node (name, value) VALUES ('subscriptions_through', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
