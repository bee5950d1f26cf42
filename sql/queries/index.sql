-- name: plan_of
-- How a stream should be indexed.
SELECT generation, configs, since_us FROM index_plans WHERE stream = ?;

-- name: put_plan
-- How a stream should be indexed from now on; the same as before changes nothing.
INSERT INTO index_plans (stream, generation, configs, since_us)
VALUES (?, ?, ?, ?)
    ON CONFLICT (stream) DO UPDATE SET configs = excluded.configs, generation = generation + 1, since_us = excluded.since_us
    WHERE configs <> excluded.configs;

-- name: plans_after
-- Plans that changed after a change, in their order.
SELECT change, stream, generation, configs, since_us FROM index_plans WHERE change > :after ORDER BY change LIMIT :limit;

-- name: unplanned
-- Declared streams that nobody has made a plan for: they were declared before there were plans, or came from the bucket.
SELECT s.id, m.registry, s.profile, s.content_type
  FROM streams AS s CROSS JOIN schemas AS m ON m.stream = s.id
 WHERE s.meaning > 0 AND s.id > :after AND NOT EXISTS (SELECT 1 FROM index_plans AS p WHERE p.stream = s.id)
 ORDER BY s.id LIMIT :limit;

-- name: covers_of
-- What covers a stream, in order, with the objects that do.
SELECT c.family, c.config, c.first_seq, c.end_seq, c.ordinal, c.entries, c.payload_bytes, c.min_ts, c.max_ts, c.skipped,
       o.made, o.level, o.bytes, o.sum, o.rows, o.filter_bytes, o.filter_sum, o.made_us
  FROM index_covers AS c JOIN index_objects AS o ON o.id = c.object
 WHERE c.stream = :stream ORDER BY c.family, c.config, c.first_seq;

-- name: covers_in_family
-- The same of one family.
SELECT c.family, c.config, c.first_seq, c.end_seq, c.ordinal, c.entries, c.payload_bytes, c.min_ts, c.max_ts, c.skipped,
       o.made, o.level, o.bytes, o.sum, o.rows, o.filter_bytes, o.filter_sum, o.made_us
  FROM index_covers AS c JOIN index_objects AS o ON o.id = c.object
 WHERE c.stream = :stream AND c.family = :family ORDER BY c.config, c.first_seq;

-- name: covers_in_config
-- The same under one configuration.
SELECT c.family, c.config, c.first_seq, c.end_seq, c.ordinal, c.entries, c.payload_bytes, c.min_ts, c.max_ts, c.skipped,
       o.made, o.level, o.bytes, o.sum, o.rows, o.filter_bytes, o.filter_sum, o.made_us
  FROM index_covers AS c JOIN index_objects AS o ON o.id = c.object
 WHERE c.stream = :stream AND c.family = :family AND c.config = :config ORDER BY c.first_seq;
