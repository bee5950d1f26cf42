-- name: changes_through
-- The newest of the oldest changes that the catalogue has not been told of, and whether there are more.
SELECT page.newest, EXISTS (SELECT 1 FROM unpublished WHERE change > page.newest)
  FROM (SELECT coalesce(max(wanted.change), 0) AS newest
          FROM (SELECT change FROM unpublished WHERE change > 0 ORDER BY change LIMIT :limit) AS wanted) AS page;

-- name: changed_buckets
-- The buckets among them, as they are now.
SELECT b.id, b.name, b.created_us, b.alive
  FROM (SELECT DISTINCT bucket FROM unpublished WHERE change > 0 AND change <= :through AND name IS NULL) AS wanted
  CROSS JOIN buckets AS b ON b.id = wanted.bucket ORDER BY b.id;

-- name: changed_streams
-- The streams among them, as they are now, with their later epochs.
SELECT s.id, s.bucket, s.name, s.content_type, s.created_us, s.ttl_s, s.expires_us, s.first_epoch,
       CASE WHEN s.epoch_count = 1 THEN NULL ELSE (
           SELECT json_group_array(json_array(page.epoch, page.first_seq))
             FROM (SELECT epoch, first_seq FROM epochs WHERE stream = s.id ORDER BY epoch) AS page) END,
       s.profile, s.soft_deleted, s.source, s.fork_seq, s.fork_sub, s.earliest_seq,
       CASE WHEN s.source IS NULL THEN NULL ELSE (
           SELECT h.ts FROM heads AS h WHERE h.stream = s.id AND h.ts > s.created_us) END
  FROM (SELECT DISTINCT bucket, name FROM unpublished WHERE change > 0 AND change <= :through AND name IS NOT NULL) AS wanted
  CROSS JOIN streams AS s ON s.bucket = wanted.bucket AND s.name = wanted.name;

-- name: changed_schemas
-- What is declared of them.
SELECT m.stream, m.registry, m.config
  FROM (SELECT DISTINCT bucket, name FROM unpublished WHERE change > 0 AND change <= :through AND name IS NOT NULL) AS wanted
  CROSS JOIN streams AS s ON s.bucket = wanted.bucket AND s.name = wanted.name AND s.meaning > 0
  CROSS JOIN schemas AS m ON m.stream = s.id;

-- name: changed_schema_bytes
-- How large that is.
SELECT coalesce(sum(length(m.registry) + coalesce(length(m.config), 0)), 0)
  FROM (SELECT DISTINCT bucket, name FROM unpublished WHERE change > 0 AND change <= :through AND name IS NOT NULL) AS wanted
  CROSS JOIN streams AS s ON s.bucket = wanted.bucket AND s.name = wanted.name AND s.meaning > 0
  CROSS JOIN schemas AS m ON m.stream = s.id;

-- name: changed_tombstones
-- The names among them that have no stream any more.
SELECT t.bucket, t.name, t.epoch, t.stream, t.deleted_us
  FROM (SELECT DISTINCT bucket, name FROM unpublished WHERE change > 0 AND change <= :through AND name IS NOT NULL) AS wanted
  CROSS JOIN tombstones AS t ON t.bucket = wanted.bucket AND t.name = wanted.name
 WHERE NOT EXISTS (SELECT 1 FROM streams AS s WHERE s.bucket = wanted.bucket AND s.name = wanted.name);

-- name: raise_node_value
-- Moves one fact forward, never back.
UPDATE node SET value = max(value, :value) WHERE name = :name;

-- name: newest_row
-- The newest row that this database can vouch for: of the log, of the heads, or published.
SELECT max(coalesce((SELECT max(row_id) FROM log), 0),
           (SELECT max(value) FROM node WHERE name IN ('heads_through', 'released_through')));

-- name: untold_plans
-- Plans of which the catalogue has not been told, as they are now, with the configurations that serve beside theirs.
SELECT u.id, u.change, p.generation, p.configs, p.since_us, (
           SELECT json_group_array(json_array(page.family, page.config))
             FROM (SELECT DISTINCT c.family, c.config FROM index_covers AS c WHERE c.stream = u.id
                    ORDER BY c.family, c.config) AS page
            WHERE page.config IS NOT p.configs ->> page.family)
  FROM index_untold AS u LEFT JOIN index_plans AS p ON p.stream = u.id
 WHERE u.kind = 'plan' ORDER BY u.id LIMIT :limit;

-- name: untold_objects
-- Objects of indexes of which the catalogue has not been told, as they are now.
SELECT u.id, u.change, o.made, o.family, o.level, o.bytes, o.sum, o.rows, o.filter_bytes, o.filter_sum, o.sections,
       o.payload_bytes, o.made_us, o.covers, o.dead_us
  FROM index_untold AS u LEFT JOIN index_objects AS o ON o.id = u.id
 WHERE u.kind = 'object' ORDER BY u.id LIMIT :limit;

-- name: covers_in_object
-- The entries that one of them covers.
SELECT c.stream, c.first_seq, c.end_seq, c.config, c.ordinal, c.entries, c.payload_bytes, c.min_ts, c.max_ts, c.skipped
  FROM index_covers AS c WHERE c.object = ?;

-- name: told_index
-- The catalogue has been told of one of them as it was; what has changed since stays.
DELETE FROM index_untold WHERE kind = ? AND id = ? AND change = ?;
