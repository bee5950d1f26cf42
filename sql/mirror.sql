-- The database `catalogue/mirror.db`: the catalogue as of one generation. It can be made anew at any time, so it has no
-- migrations: one of another layout is dropped. Before the first name: its layout.

PRAGMA user_version = 4;

-- Header and checksum of the generation that it stands for.
CREATE TABLE state (
    name  TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE buckets (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    alive      INTEGER NOT NULL
) STRICT;

CREATE TABLE streams (
    id           INTEGER PRIMARY KEY,
    bucket       INTEGER NOT NULL,
    name         TEXT NOT NULL,
    content_type TEXT NOT NULL,
    created_us   INTEGER NOT NULL,
    ttl_s        INTEGER,
    expires_us   INTEGER,
    first_epoch  INTEGER NOT NULL,
    epochs       TEXT NOT NULL,                -- JSON, as in the record
    profile      TEXT NOT NULL,
    soft_deleted INTEGER NOT NULL,
    source       INTEGER,
    fork_seq     INTEGER,
    fork_sub     INTEGER,
    earliest_seq INTEGER NOT NULL,
    ts           INTEGER                       -- of what a fork shares
) STRICT;

CREATE UNIQUE INDEX streams_by_name ON streams (bucket, name);

CREATE TABLE schemas (
    stream   INTEGER PRIMARY KEY,
    registry TEXT NOT NULL,                    -- JSON, as in the record
    config   TEXT
) STRICT;

CREATE TABLE tombstones (
    bucket     INTEGER NOT NULL,
    name       TEXT NOT NULL,
    epoch      INTEGER NOT NULL,
    stream     INTEGER NOT NULL,
    deleted_us INTEGER NOT NULL,
    PRIMARY KEY (bucket, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE ends (
    stream         INTEGER PRIMARY KEY,
    next_seq       INTEGER NOT NULL,
    ordinal        INTEGER NOT NULL,
    position       INTEGER NOT NULL,
    ts             INTEGER NOT NULL,
    schema_version INTEGER NOT NULL,
    closed         INTEGER NOT NULL,
    closed_by      TEXT,
    closed_epoch   INTEGER,
    closed_seq     INTEGER,
    stream_seq     TEXT
) STRICT;

CREATE TABLE producers (
    stream   INTEGER NOT NULL,
    producer TEXT NOT NULL,
    epoch    INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    next_seq INTEGER NOT NULL,
    PRIMARY KEY (stream, producer)
) STRICT, WITHOUT ROWID;

CREATE TABLE objects (
    made          TEXT PRIMARY KEY,
    kind          TEXT NOT NULL,
    level         INTEGER NOT NULL,
    stream        INTEGER,
    first_seq     INTEGER NOT NULL,
    end_seq       INTEGER NOT NULL,
    min_stream    INTEGER NOT NULL,
    max_stream    INTEGER NOT NULL,
    streams       INTEGER NOT NULL,
    entries       INTEGER NOT NULL,
    bytes         INTEGER NOT NULL,
    sha256        TEXT NOT NULL,
    payload_bytes INTEGER NOT NULL,
    min_ts        INTEGER NOT NULL,
    max_ts        INTEGER NOT NULL,
    first_row     INTEGER NOT NULL,
    last_row      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Lines of kinds that this version does not know, in their order.
CREATE TABLE facts (
    number INTEGER PRIMARY KEY,
    line   BLOB NOT NULL
) STRICT;

-- Streams that have an end or producers and no configuration: it comes in a later generation, or never.
CREATE TABLE orphans (
    stream INTEGER PRIMARY KEY
) STRICT;

-- What is indexed; as in the node's own database.
CREATE TABLE index_plans (
    stream     INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL,
    configs    TEXT NOT NULL,                  -- JSON, as in the record
    since_us   INTEGER NOT NULL,
    kept       TEXT NOT NULL                   -- JSON, as in the record
) STRICT;

CREATE TABLE index_objects (
    made          TEXT PRIMARY KEY,
    family        TEXT NOT NULL,
    level         INTEGER NOT NULL,
    bytes         INTEGER NOT NULL,
    sum           TEXT NOT NULL,
    rows          INTEGER NOT NULL,
    filter_bytes  INTEGER NOT NULL,
    filter_sum    TEXT NOT NULL,
    sections      TEXT NOT NULL,
    payload_bytes INTEGER NOT NULL,
    made_us       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE index_covers (
    stream        INTEGER NOT NULL,
    family        TEXT NOT NULL,
    config        TEXT NOT NULL,
    first_seq     INTEGER NOT NULL,
    end_seq       INTEGER NOT NULL,
    ordinal       INTEGER NOT NULL,
    entries       INTEGER NOT NULL,
    payload_bytes INTEGER NOT NULL,
    min_ts        INTEGER NOT NULL,
    max_ts        INTEGER NOT NULL,
    skipped       INTEGER NOT NULL,
    made          TEXT NOT NULL,
    PRIMARY KEY (stream, family, config, first_seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX index_covers_of_object ON index_covers (made);

CREATE TRIGGER index_object_leaves AFTER DELETE ON index_objects BEGIN
    DELETE FROM index_covers WHERE made = old.made;
END;

CREATE TRIGGER stream_leaves AFTER DELETE ON streams BEGIN
    DELETE FROM index_plans WHERE stream = old.id;
    DELETE FROM index_covers WHERE stream = old.id;
    DELETE FROM ends WHERE stream = old.id;
    DELETE FROM producers WHERE stream = old.id;
    DELETE FROM schemas WHERE stream = old.id;
END;

-- name: read_state
-- What the mirror stands for.
SELECT name, value FROM state;

-- name: write_state
-- Moves it.
INSERT OR REPLACE INTO state (name, value) VALUES (?, ?);

-- name: put_bucket
-- A bucket as it is now.
INSERT OR REPLACE INTO buckets (id, name, created_us, alive) VALUES (?, ?, ?, ?);

-- name: make_room
-- Takes out the stream that had a name, unless it is the same one.
DELETE FROM streams WHERE bucket = ? AND name = ? AND id <> ?;

-- name: lift_tombstone
-- The name lives again.
DELETE FROM tombstones WHERE bucket = ? AND name = ?;

-- name: put_stream
-- A stream as it is now; its end stays.
INSERT INTO streams (id, bucket, name, content_type, created_us, ttl_s, expires_us, first_epoch, epochs, profile, soft_deleted,
                     source, fork_seq, fork_sub, earliest_seq, ts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET bucket = excluded.bucket, name = excluded.name, content_type = excluded.content_type,
        created_us = excluded.created_us, ttl_s = excluded.ttl_s, expires_us = excluded.expires_us,
        first_epoch = excluded.first_epoch, epochs = excluded.epochs, profile = excluded.profile,
        soft_deleted = excluded.soft_deleted, source = excluded.source, fork_seq = excluded.fork_seq,
        fork_sub = excluded.fork_sub, earliest_seq = excluded.earliest_seq, ts = coalesce(excluded.ts, ts);

-- name: drop_name
-- A name that died.
DELETE FROM streams WHERE bucket = ? AND name = ?;

-- name: put_tombstone
-- What is remembered of it.
INSERT OR REPLACE INTO tombstones (bucket, name, epoch, stream, deleted_us) VALUES (?, ?, ?, ?, ?);

-- name: put_schema
-- What is declared of a stream that is there.
INSERT INTO schemas (stream, registry, config) SELECT id, ?, ? FROM streams WHERE id = ?
    ON CONFLICT (stream) DO UPDATE SET registry = excluded.registry, config = excluded.config;

-- name: put_index_plan
-- How a stream that is there is to be indexed.
INSERT INTO index_plans (stream, generation, configs, since_us, kept) SELECT id, ?, ?, ?, ? FROM streams WHERE id = ?
    ON CONFLICT (stream) DO UPDATE SET generation = excluded.generation, configs = excluded.configs,
        since_us = excluded.since_us, kept = excluded.kept;

-- name: retire_covers
-- What covers it under other configurations is not used any more.
DELETE FROM index_covers
 WHERE stream = :stream AND family || '/' || config NOT IN (SELECT used.value FROM json_each(:used) AS used);

-- name: put_index_object
-- An object of an index.
INSERT OR REPLACE INTO index_objects (made, family, level, bytes, sum, rows, filter_bytes, filter_sum, sections, payload_bytes,
                                      made_us)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: drop_index_object
-- One that is not used any more, and its covers.
DELETE FROM index_objects WHERE made = ?;

-- name: put_cover
-- Entries that it covers, of a stream that is there.
INSERT OR REPLACE INTO index_covers (config, first_seq, end_seq, ordinal, entries, payload_bytes, min_ts, max_ts, skipped,
                                     family, made, stream)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, o.family, o.made, s.id
  FROM index_objects AS o JOIN streams AS s WHERE o.made = ?10 AND s.id = ?11;

-- name: put_end
-- How far a stream goes; NULL in the fields from `closed` on leaves them as they are.
INSERT INTO ends (stream, next_seq, ordinal, position, ts, schema_version, closed, closed_by, closed_epoch, closed_seq,
                  stream_seq)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, coalesce(?7, 0), ?8, ?9, ?10, ?11)
    ON CONFLICT (stream) DO UPDATE SET next_seq = ?2, ordinal = ?3, position = ?4, ts = ?5, schema_version = ?6,
        closed = coalesce(?7, closed), closed_by = coalesce(?8, closed_by), closed_epoch = coalesce(?9, closed_epoch),
        closed_seq = coalesce(?10, closed_seq), stream_seq = coalesce(?11, stream_seq);

-- name: put_producer
-- The newest request of a producer.
INSERT OR REPLACE INTO producers (stream, producer, epoch, seq, next_seq) VALUES (?, ?, ?, ?, ?);

-- name: put_object
-- An object that holds entries.
INSERT OR REPLACE INTO objects (made, kind, level, stream, first_seq, end_seq, min_stream, max_stream, streams, entries, bytes,
                                sha256, payload_bytes, min_ts, max_ts, first_row, last_row)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: drop_object
-- One that does not any more.
DELETE FROM objects WHERE made = ?;

-- name: put_fact
-- A line that nobody here understands.
INSERT INTO facts (line) VALUES (?);

-- name: mark_orphan
-- A stream that an end or a producer names, if there is no such stream.
INSERT OR IGNORE INTO orphans (stream) SELECT :stream WHERE NOT EXISTS (SELECT 1 FROM streams WHERE id = :stream);

-- name: mark_orphans
-- All of them, after a snapshot.
INSERT OR IGNORE INTO orphans (stream)
SELECT stream FROM (SELECT stream FROM ends UNION SELECT stream FROM producers)
 WHERE stream NOT IN (SELECT id FROM streams);

-- name: forget_orphan_ends
-- Streams that never got a configuration were deleted before anybody told the catalogue.
DELETE FROM ends WHERE stream IN (SELECT o.stream FROM orphans AS o WHERE NOT EXISTS (
    SELECT 1 FROM streams AS s WHERE s.id = o.stream));

-- name: forget_orphan_producers
-- The same for their producers.
DELETE FROM producers WHERE stream IN (SELECT o.stream FROM orphans AS o WHERE NOT EXISTS (
    SELECT 1 FROM streams AS s WHERE s.id = o.stream));

-- name: forget_orphans
-- Nothing is waited for any more.
DELETE FROM orphans;

-- name: all_buckets
-- For a snapshot.
SELECT id, name, created_us, alive FROM buckets ORDER BY id;

-- name: all_facts
-- For a snapshot.
SELECT line FROM facts ORDER BY number;

-- name: all_tombstones
-- For a snapshot.
SELECT bucket, name, epoch, stream, deleted_us FROM tombstones ORDER BY bucket, name;

-- name: all_streams
-- For a snapshot.
SELECT id, bucket, name, content_type, created_us, ttl_s, expires_us, first_epoch, epochs, profile, soft_deleted, source, fork_seq,
       fork_sub, earliest_seq, ts
  FROM streams ORDER BY id;

-- name: all_schemas
-- For a snapshot.
SELECT stream, registry, config FROM schemas ORDER BY stream;

-- name: all_index_plans
-- For a snapshot.
SELECT stream, generation, configs, since_us, kept FROM index_plans ORDER BY stream;

-- name: all_index_objects
-- For a snapshot.
SELECT made, family, level, bytes, sum, rows, filter_bytes, filter_sum, sections, payload_bytes, made_us
  FROM index_objects ORDER BY made;

-- name: all_covers
-- For a snapshot.
SELECT made, stream, first_seq, end_seq, config, ordinal, entries, payload_bytes, min_ts, max_ts, skipped
  FROM index_covers ORDER BY made, stream, family, config, first_seq;

-- name: all_ends
-- For a snapshot.
SELECT stream, next_seq, ordinal, position, ts, schema_version, closed, closed_by, closed_epoch, closed_seq, stream_seq
  FROM ends ORDER BY stream;

-- name: all_producers
-- For a snapshot.
SELECT stream, producer, epoch, seq, next_seq FROM producers ORDER BY stream, producer;

-- name: all_objects
-- For a snapshot.
SELECT made, kind, level, stream, first_seq, end_seq, min_stream, max_stream, streams, entries, bytes, sha256, payload_bytes, min_ts,
       max_ts, first_row, last_row
  FROM objects ORDER BY made;

-- name: attach_mirror
-- Beside the database that is being restored; the statements below copy from one to the other.
ATTACH DATABASE ? AS mirror;

-- name: detach_mirror
-- It is not needed any more.
DETACH DATABASE mirror;

-- name: homeless_streams
-- Streams of a bucket that nobody knows.
SELECT s.id, s.bucket, s.name FROM mirror.streams AS s WHERE s.bucket NOT IN (SELECT id FROM mirror.buckets) ORDER BY s.id LIMIT 100;

-- name: restore_buckets
-- Buckets, with the number of their streams.
INSERT INTO main.buckets (id, name, created_us, alive, streams)
SELECT b.id, b.name, b.created_us, b.alive, (SELECT count(*) FROM mirror.streams AS s WHERE s.bucket = b.id) FROM mirror.buckets AS b;

-- name: restore_streams
-- Streams; the window of a sliding one begins anew, as nobody knows who read it last.
INSERT INTO main.streams (bucket, name, id, content_type, created_us, ttl_s, expires_us, dies_us, first_epoch, epoch_count, profile,
                          soft_deleted, source, fork_seq, fork_sub, earliest_seq, recovered, meaning)
SELECT s.bucket, s.name, s.id, s.content_type, s.created_us, s.ttl_s, s.expires_us,
       CASE WHEN s.soft_deleted = 1 THEN NULL
            WHEN s.ttl_s IS NULL THEN s.expires_us
            ELSE :now_us + s.ttl_s * 1000000 + max(1000000, s.ttl_s * 1000000 / 10) END,
       s.first_epoch, 1 + json_array_length(s.epochs), s.profile, s.soft_deleted, s.source, s.fork_seq, s.fork_sub, s.earliest_seq, 1,
       EXISTS (SELECT 1 FROM mirror.schemas AS m WHERE m.stream = s.id)
  FROM mirror.streams AS s WHERE s.bucket IN (SELECT id FROM mirror.buckets) ORDER BY s.bucket, s.name;

-- name: restore_heads
-- Their ends, as published: there is no log row left of any.
INSERT INTO main.heads (stream, next_seq, last_row, ordinal, position, ts, anchor_1, anchor_2, anchor_3, anchor_4, closed,
                        schema_version, producers, stream_seq, closed_by, closed_epoch, closed_seq)
SELECT s.id, coalesce(e.next_seq, s.fork_seq, 0), 0, coalesce(e.ordinal, 0), coalesce(e.position, 0), coalesce(e.ts, s.ts, s.created_us), 0, 0, 0, 0,
       coalesce(e.closed, 0), coalesce(e.schema_version, 0),
       (SELECT count(*) FROM mirror.producers AS p WHERE p.stream = s.id),
       e.stream_seq, e.closed_by, e.closed_epoch, e.closed_seq
  FROM mirror.streams AS s LEFT JOIN mirror.ends AS e ON e.stream = s.id
 WHERE s.bucket IN (SELECT id FROM mirror.buckets) ORDER BY s.id;

-- name: restore_fork_points
-- A fork that was published before all of what it shares: the rest is lost with its source's end. Only those that wrote
-- nothing themselves: what came later in the log was published later.
UPDATE main.streams SET fork_seq = h.next_seq
  FROM main.heads AS h
 WHERE main.streams.source IS NOT NULL AND h.stream = main.streams.source AND main.streams.fork_seq > h.next_seq
   AND (SELECT own.ordinal FROM main.heads AS own WHERE own.stream = main.streams.id) = 0;

-- name: restore_fork_ends
-- They end there; and so do forks of them, which is asked again until nothing moves.
UPDATE main.heads SET next_seq = s.fork_seq
  FROM main.streams AS s
 WHERE s.id = main.heads.stream AND s.source IS NOT NULL AND main.heads.ordinal = 0 AND main.heads.next_seq > s.fork_seq;

-- name: restore_fork_epochs
-- An epoch of their own begins there, too: no offset of what was lost means anything else later.
UPDATE main.epochs SET first_seq = s.fork_seq
  FROM main.streams AS s
 WHERE s.id = main.epochs.stream AND s.source IS NOT NULL AND main.epochs.first_seq > s.fork_seq
   AND (SELECT own.ordinal FROM main.heads AS own WHERE own.stream = s.id) = 0;

-- name: restore_fork_counts
-- How many forks each source is kept for.
UPDATE main.streams SET forks = c.forks
  FROM (SELECT f.source AS source, count(*) AS forks FROM main.streams AS f WHERE f.source IS NOT NULL GROUP BY f.source) AS c
 WHERE main.streams.id = c.source;

-- name: restore_schemas
-- What was declared of them.
INSERT INTO main.schemas (stream, registry, config)
SELECT m.stream, m.registry, m.config FROM mirror.schemas AS m WHERE m.stream IN (SELECT stream FROM main.heads) ORDER BY m.stream;

-- name: restore_boundaries
-- A version that began behind the published end begins there now: the entries before it are lost.
UPDATE main.schemas SET registry = json_set(registry, '$.boundaries', json((
    SELECT json_group_array(json_object('offset', min(b.value ->> 'offset', h.next_seq), 'version', b.value ->> 'version'))
      FROM json_each(main.schemas.registry, '$.boundaries') AS b)))
  FROM main.heads AS h
 WHERE h.stream = main.schemas.stream AND h.next_seq < (main.schemas.registry ->> '$.boundaries[#-1].offset');

-- name: restore_index_plans
-- How they are to be indexed.
INSERT INTO main.index_plans (stream, generation, configs, since_us)
SELECT p.stream, p.generation, p.configs, p.since_us FROM mirror.index_plans AS p
 WHERE p.stream IN (SELECT stream FROM main.heads) ORDER BY p.stream;

-- name: restore_index_objects
-- The objects of their indexes.
INSERT INTO main.index_objects (made, family, level, bytes, sum, rows, filter_bytes, filter_sum, sections, payload_bytes, made_us)
SELECT made, family, level, bytes, sum, rows, filter_bytes, filter_sum, sections, payload_bytes, made_us
  FROM mirror.index_objects ORDER BY made_us, made;

-- name: restore_covers
-- What those cover. Entries behind a stream's end are lost, and their sequences will be those of others.
INSERT INTO main.index_covers (stream, family, config, first_seq, end_seq, object, ordinal, entries, payload_bytes, min_ts, max_ts,
                               skipped)
SELECT c.stream, c.family, c.config, c.first_seq, c.end_seq, o.id, c.ordinal, c.entries, c.payload_bytes, c.min_ts, c.max_ts, c.skipped
  FROM mirror.index_covers AS c
  JOIN mirror.streams AS s ON s.id = c.stream
  JOIN main.heads AS h ON h.stream = c.stream AND c.end_seq <= h.next_seq
  JOIN main.index_objects AS o ON o.made = c.made
 WHERE c.end_seq > s.earliest_seq;

-- name: restored_indexes_told
-- The triggers took them for new, too.
DELETE FROM main.index_untold;

-- name: restore_epochs
-- Their later epochs.
INSERT INTO main.epochs (stream, epoch, first_seq)
SELECT s.id, e.value ->> 0, e.value ->> 1 FROM mirror.streams AS s, json_each(s.epochs) AS e
 WHERE s.epochs <> '[]' AND s.bucket IN (SELECT id FROM mirror.buckets);

-- name: restore_producers
-- Their producers.
INSERT INTO main.producers (stream, producer, epoch, seq, next_seq)
SELECT p.stream, p.producer, p.epoch, p.seq, p.next_seq FROM mirror.producers AS p
 WHERE p.stream IN (SELECT stream FROM main.heads) ORDER BY p.stream, p.producer;

-- name: restore_tombstones
-- Names that died.
INSERT INTO main.tombstones (bucket, name, epoch, stream, deleted_us)
SELECT bucket, name, epoch, stream, deleted_us FROM mirror.tombstones ORDER BY bucket, name;

-- name: restore_objects
-- The objects that hold the entries.
INSERT INTO main.objects (made, kind, level, stream, first_seq, end_seq, min_stream, max_stream, streams, entries, bytes, sha256,
                          payload_bytes, min_ts, max_ts, first_row, last_row)
SELECT made, kind, level, stream, first_seq, end_seq, min_stream, max_stream, streams, entries, bytes, sha256, payload_bytes, min_ts,
       max_ts, first_row, last_row
  FROM mirror.objects ORDER BY first_row, made;

-- name: restored_told
-- The triggers took everything for new; the catalogue is where it came from.
DELETE FROM main.unpublished;

-- name: restored_counts
-- What there is now, for people.
SELECT (SELECT count(*) FROM main.buckets WHERE alive = 1), (SELECT count(*) FROM main.streams), (SELECT count(*) FROM main.objects),
       (SELECT coalesce(sum(next_seq), 0) FROM main.heads);

-- name: restored_newest
-- The highest ids and epochs that anything names, whatever the header says.
SELECT max(coalesce((SELECT max(id) FROM mirror.streams), 0), coalesce((SELECT max(stream) FROM mirror.tombstones), 0),
           coalesce((SELECT max(stream) FROM mirror.ends), 0), coalesce((SELECT max(max_stream) FROM mirror.objects), 0)),
       coalesce((SELECT max(id) FROM mirror.buckets), 0),
       max(coalesce((SELECT max(epoch) FROM mirror.tombstones), 0), coalesce((SELECT max(first_epoch) FROM mirror.streams), 0),
           coalesce((SELECT max(epoch) FROM main.epochs), 0)),
       coalesce((SELECT max(last_row) FROM mirror.objects), 0);

-- name: mirror_counts
-- What there is, for people.
SELECT (SELECT count(*) FROM buckets WHERE alive), (SELECT count(*) FROM streams), (SELECT count(*) FROM tombstones),
       (SELECT count(*) FROM producers), (SELECT coalesce(sum(e.next_seq), 0) FROM streams AS s JOIN ends AS e ON e.stream = s.id),
       (SELECT count(*) FROM facts);

-- name: objects_by_kind
-- Objects by kind and level.
SELECT kind, level, count(*), sum(entries), sum(bytes), sum(payload_bytes) FROM objects GROUP BY kind, level ORDER BY kind, level;

-- name: indexes_by_family
-- Objects of indexes by family and level.
SELECT o.family, o.level, count(*), sum((SELECT coalesce(sum(c.entries), 0) FROM index_covers AS c WHERE c.made = o.made)),
       sum(o.bytes + o.filter_bytes), sum(o.payload_bytes)
  FROM index_objects AS o GROUP BY o.family, o.level ORDER BY o.family, o.level;

-- name: streams_like
-- Streams by bucket and name, with their ends.
SELECT b.name AS bucket, s.name AS name, s.id AS id, s.content_type AS content_type, s.created_us AS created_us,
       coalesce(e.next_seq, 0) AS entries, coalesce(e.position, 0) AS bytes, e.ts AS newest_us, coalesce(e.closed, 0) AS closed,
       s.first_epoch AS first_epoch, s.epochs AS epochs
  FROM streams AS s JOIN buckets AS b ON b.id = s.bucket LEFT JOIN ends AS e ON e.stream = s.id
 WHERE b.name || '/' || s.name GLOB ? ORDER BY b.name, s.name;

-- name: make_covered
-- Which entries of which streams objects hold, while somebody looks.
CREATE TEMP TABLE IF NOT EXISTS covered (stream INTEGER NOT NULL, first_seq INTEGER NOT NULL, end_seq INTEGER NOT NULL);

-- name: put_covered
-- A stretch of them.
INSERT INTO covered (stream, first_seq, end_seq) VALUES (?, ?, ?);

-- name: covered_badly
-- Streams whose entries, from the earliest that is kept to the end, are not in exactly one object each.
WITH own AS (
    SELECT s.id, b.name || '/' || s.name AS name, max(coalesce(s.fork_seq, 0), s.earliest_seq) AS start,
           coalesce(e.next_seq, 0) AS next_seq
      FROM streams AS s LEFT JOIN buckets AS b ON b.id = s.bucket LEFT JOIN ends AS e ON e.stream = s.id
), spans AS (
    SELECT stream, first_seq, end_seq, lag(end_seq) OVER (PARTITION BY stream ORDER BY first_seq, end_seq) AS before
      FROM covered WHERE end_seq > first_seq
), bounds AS (
    SELECT stream, min(first_seq) AS first_seq, max(end_seq) AS end_seq FROM covered WHERE end_seq > first_seq GROUP BY stream
)
SELECT own.id, own.name, CASE WHEN spans.first_seq > spans.before THEN 'gap' ELSE 'overlap' END,
       min(spans.before, spans.first_seq), max(spans.before, spans.first_seq)
  FROM spans JOIN own ON own.id = spans.stream
 WHERE spans.before <> spans.first_seq AND max(spans.before, spans.first_seq) > own.start
UNION ALL
SELECT own.id, own.name, 'gap', own.start, coalesce(bounds.first_seq, own.next_seq)
  FROM own LEFT JOIN bounds ON bounds.stream = own.id
 WHERE own.next_seq > own.start AND coalesce(bounds.first_seq, own.next_seq) > own.start
UNION ALL
SELECT own.id, own.name, CASE WHEN bounds.end_seq < own.next_seq THEN 'gap' ELSE 'beyond the end' END,
       min(bounds.end_seq, own.next_seq), max(bounds.end_seq, own.next_seq)
  FROM own JOIN bounds ON bounds.stream = own.id
 WHERE bounds.end_seq <> own.next_seq AND max(bounds.end_seq, own.next_seq) > own.start
 ORDER BY 1, 4;

-- name: readable_streams
-- Living streams by bucket and name, as whoever reads the bucket without a node needs them.
SELECT s.id, b.name, s.name, s.content_type, s.first_epoch, s.epochs, s.source, s.fork_seq, s.earliest_seq,
       CASE WHEN s.ttl_s IS NULL THEN s.expires_us END, coalesce(e.next_seq, 0)
  FROM streams AS s JOIN buckets AS b ON b.id = s.bucket LEFT JOIN ends AS e ON e.stream = s.id
 WHERE b.alive = 1 AND s.soft_deleted = 0 AND b.name || '/' || s.name GLOB ? ORDER BY s.id;

-- name: fork_point
-- Where a stream was forked from, also of one that only its forks keep.
SELECT source, fork_seq FROM streams WHERE id = ?;
