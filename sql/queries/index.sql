-- name: plan_of
-- How a stream should be indexed.
SELECT generation, configs, since_us FROM index_plans WHERE stream = ?;

-- name: put_plan
-- How a stream should be indexed from now on; the same as before changes nothing.
INSERT INTO index_plans (stream, generation, configs, since_us)
VALUES (?, ?, ?, ?)
    ON CONFLICT (stream) DO UPDATE SET configs = excluded.configs, generation = generation + 1, since_us = excluded.since_us
    WHERE configs <> excluded.configs;

-- name: plan_moves
-- Counters that grow with each change of a stream's plan, and of what is covered.
SELECT change, moves FROM index_plans WHERE stream = ?;

-- name: count_move
-- What covers a stream has changed.
UPDATE index_plans SET moves = moves + 1 WHERE stream = ?;

-- name: shares_of
-- The objects that cover a stream, with its share of each.
SELECT c.family, c.config, o.made, sum(c.payload_bytes), o.payload_bytes, o.bytes + o.filter_bytes, o.sections, o.made_us
  FROM index_covers AS c JOIN index_objects AS o ON o.id = c.object WHERE c.stream = ? GROUP BY c.family, c.config, o.id;

-- name: plans_after
-- Plans that changed after a change, in their order.
SELECT change, stream, generation, configs, since_us FROM index_plans WHERE change > :after ORDER BY change LIMIT :limit;

-- name: unplanned
-- Declared streams that nobody has made a plan for, or not one as it is made now: they were declared by an older version,
-- or came from the bucket.
SELECT s.id, m.registry, s.profile, s.content_type
  FROM streams AS s CROSS JOIN schemas AS m ON m.stream = s.id
 WHERE s.meaning > 0 AND s.id > :after AND NOT EXISTS (
           SELECT 1 FROM index_plans AS p
            WHERE p.stream = s.id AND (p.configs NOT LIKE '%"rollups":%' OR p.configs LIKE '%"rollups":"3-%')
              AND (p.configs NOT LIKE '%"companion":%' OR p.configs LIKE '%"companion":"2-%'))
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

-- name: measure
-- How long some streams are, what of them should be indexed, and whether they are the node's own.
SELECT s.id, max(coalesce(s.fork_seq, 0), s.earliest_seq), h.next_seq, h.position, h.last_row, p.configs,
       substr(s.name, 1, 2) = '__',
       (SELECT value FROM node WHERE name = 'released_through')
  FROM json_each(:streams) AS w
  CROSS JOIN streams AS s ON s.id = w.value AND s.meaning > 0
  CROSS JOIN heads AS h ON h.stream = s.id
  CROSS JOIN index_plans AS p ON p.stream = s.id;

-- name: measure_covers
-- How much of them is covered.
SELECT c.stream, c.family, c.config, sum(c.end_seq - c.first_seq), max(c.end_seq)
  FROM json_each(:streams) AS w CROSS JOIN index_covers AS c ON c.stream = w.value
 GROUP BY c.stream, c.family, c.config;

-- name: meaning_of
-- What the entries of some streams mean, and how they should be indexed.
SELECT s.id, max(coalesce(s.fork_seq, 0), s.earliest_seq), h.next_seq, m.registry, s.profile, s.content_type, p.configs
  FROM json_each(:streams) AS w
  CROSS JOIN streams AS s ON s.id = w.value AND s.meaning > 0
  CROSS JOIN heads AS h ON h.stream = s.id
  CROSS JOIN schemas AS m ON m.stream = s.id
  CROSS JOIN index_plans AS p ON p.stream = s.id;

-- name: spans_of
-- Which entries of a stream are covered.
SELECT family, config, first_seq, end_seq FROM index_covers WHERE stream = ?;

-- name: other_config
-- Whether anything covers a stream in a family under another configuration: two descents, however many covers there are.
SELECT EXISTS (SELECT 1 FROM index_covers WHERE stream = :stream AND family = :family AND config < :config)
    OR EXISTS (SELECT 1 FROM index_covers WHERE stream = :stream AND family = :family AND config > :config);

-- name: next_fence
-- The number of a new claim.
UPDATE node SET value = value + 1 WHERE name = 'index_fence' RETURNING value;

-- name: mergeable
-- Living objects of a family and level that are small enough to be merged, oldest first, with a configuration of each.
SELECT o.made, o.bytes + o.filter_bytes, o.covers, o.rows,
       (SELECT c.config FROM index_covers AS c INDEXED BY index_covers_of_object WHERE c.object = o.id LIMIT 1)
  FROM index_objects AS o
 WHERE o.family = :family AND o.level = :level AND o.dead_us IS NULL AND o.bytes <= :bytes_max ORDER BY o.id LIMIT :limit;

-- name: index_object
-- One object of an index.
SELECT id, made, family, level, bytes, sum, rows, filter_bytes, filter_sum, sections, covers, dead_us FROM index_objects WHERE made = ?;

-- name: object_covers
-- The entries that it covers, in order.
SELECT c.stream, c.first_seq, c.end_seq, c.config, c.ordinal, c.entries, c.payload_bytes, c.min_ts, c.max_ts, c.skipped
  FROM index_covers AS c WHERE c.object = ? ORDER BY c.stream, c.first_seq;

-- name: insert_index_object
-- A new one.
INSERT INTO index_objects (made, family, level, bytes, sum, rows, filter_bytes, filter_sum, sections, payload_bytes, made_us)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id;

-- name: insert_cover
-- Entries that it covers.
INSERT INTO index_covers (stream, family, config, first_seq, end_seq, object, ordinal, entries, payload_bytes, min_ts, max_ts, skipped)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: overlapping
-- The last cover that begins before the end of a stretch: as they do not overlap, no other one can reach into it.
SELECT first_seq, end_seq FROM index_covers
 WHERE stream = ? AND family = ? AND config = ? AND first_seq < ? ORDER BY first_seq DESC LIMIT 1;

-- name: uncover_object
-- An object covers nothing any more.
DELETE FROM index_covers WHERE object = ?;

-- name: retire
-- What covers a stream under a configuration is not used any more.
DELETE FROM index_covers WHERE stream = ? AND family = ? AND config = ?;

-- name: objects_of
-- The objects that cover a stream in a family.
SELECT DISTINCT object FROM index_covers WHERE stream = ? AND family = ?;

-- name: uncover_family
-- Nothing covers a stream in a family any more.
DELETE FROM index_covers WHERE stream = ? AND family = ?;

-- name: idle_objects
-- Living objects that cover nothing.
SELECT id FROM index_objects INDEXED BY index_objects_idle WHERE covers = 0 AND dead_us IS NULL AND id > 0 LIMIT :limit;

-- name: kill_index_object
-- It waits for the collector.
UPDATE index_objects SET dead_us = ? WHERE id = ? AND dead_us IS NULL;

-- name: tell
-- The catalogue is to be told of a plan or an object.
INSERT INTO index_untold (kind, id) VALUES (?, ?) ON CONFLICT (kind, id) DO UPDATE SET change = change + 1;

-- name: index_totals
-- Living objects of a family.
SELECT count(*), coalesce(sum(bytes + filter_bytes), 0) FROM index_objects WHERE family = ? AND dead_us IS NULL;

-- name: failures
-- Objects that could not be used, those that failed last at the end; what is in the bucket no more is left out.
SELECT f.made, f.reason, f.count, f.since_us, f.until_us FROM index_failures AS f
 WHERE EXISTS (SELECT 1 FROM objects AS o WHERE o.made = f.made)
    OR EXISTS (SELECT 1 FROM index_objects AS i WHERE i.made = f.made AND i.dead_us IS NULL)
 ORDER BY f.until_us, f.made;

-- name: put_failure
-- An object could not be used.
INSERT INTO index_failures (made, reason, count, since_us, until_us) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (made) DO UPDATE SET reason = excluded.reason, count = excluded.count, until_us = excluded.until_us;

-- name: keep_failures
-- Nothing is known any more of objects but these.
DELETE FROM index_failures WHERE made NOT IN (SELECT value FROM json_each(:made));
