-- The tiers below the log: what is in the object store, and what the catalogue there has been told.

INSERT INTO node (name, value) VALUES
    ('node', ''),              -- this node's id, 32 hex digits; made with the first publish
    ('fence', 0),              -- number of its ownership of the bucket
    ('generation', 0),         -- the newest catalogue generation that this database knows
    ('generation_sum', ''),    -- and the SHA-256 of that object
    ('snapshot', 0),           -- the newest generation that has a snapshot
    ('released_through', 0),   -- log rows up to this one are in published objects
    ('epoch_base', 0),         -- new lives, and streams that were recovered, begin here
    ('epoch_newest', 0),       -- no stream of this node ever had a higher epoch
    ('epoch_told', 0),         -- the same, as the newest generation says
    ('stream_base', 0),        -- incarnations up to this one may have existed
    ('bucket_base', 0);        -- and buckets

-- A stream that came out of the bucket: its first new append opens an epoch.
ALTER TABLE streams ADD COLUMN recovered INTEGER NOT NULL DEFAULT 0;

-- Objects that a published generation names. Dead ones have been taken out of it and wait to be deleted.
CREATE TABLE objects (
    id            INTEGER PRIMARY KEY,
    made          TEXT NOT NULL UNIQUE,        -- the unique end of its key
    kind          TEXT NOT NULL,               -- 'pack': many streams, 'segment': one
    level         INTEGER NOT NULL,            -- how often its entries were merged
    stream        INTEGER,                     -- of a segment: the incarnation,
    first_seq     INTEGER NOT NULL,            -- its first entry,
    end_seq       INTEGER NOT NULL,            -- and the one after its last
    min_stream    INTEGER NOT NULL,
    max_stream    INTEGER NOT NULL,
    streams       INTEGER NOT NULL,
    entries       INTEGER NOT NULL,
    bytes         INTEGER NOT NULL,            -- of the object
    sha256        TEXT NOT NULL,
    payload_bytes INTEGER NOT NULL,            -- of its entries
    min_ts        INTEGER NOT NULL,
    max_ts        INTEGER NOT NULL,
    first_row     INTEGER NOT NULL,            -- the stretch of the log that it was made of
    last_row      INTEGER NOT NULL,
    dead_entries  INTEGER NOT NULL DEFAULT 0,  -- of streams that are gone, as of the last count
    dead_us       INTEGER                      -- when it left the catalogue
) STRICT;

CREATE INDEX objects_of_stream ON objects (stream, first_seq) WHERE stream IS NOT NULL AND dead_us IS NULL;
CREATE INDEX objects_packs ON objects (level, first_row) WHERE stream IS NULL AND dead_us IS NULL;
CREATE INDEX objects_dead ON objects (dead_us) WHERE dead_us IS NOT NULL;

-- Which entries of which streams a pack holds: a copy of what the pack itself says, made when it is first needed.
CREATE TABLE directories (
    object    INTEGER PRIMARY KEY,
    directory BLOB NOT NULL
) STRICT;

-- Streams whose log rows cannot be sealed: the rows stay, the others go on.
CREATE TABLE stuck (
    stream   INTEGER PRIMARY KEY,
    reason   TEXT NOT NULL,
    since_us INTEGER NOT NULL
) STRICT;

-- What changed since the newest generation: names to look at again. No name for a bucket itself.
CREATE TABLE unpublished (
    change INTEGER PRIMARY KEY,
    bucket INTEGER NOT NULL,
    name   TEXT
) STRICT;

CREATE TRIGGER stream_made AFTER INSERT ON streams BEGIN
    INSERT INTO unpublished (bucket, name) VALUES (new.bucket, new.name);
END;
CREATE TRIGGER stream_ended AFTER DELETE ON streams BEGIN
    INSERT INTO unpublished (bucket, name) VALUES (old.bucket, old.name);
END;
CREATE TRIGGER stream_changed
    AFTER UPDATE OF content_type, ttl_s, expires_us, epoch_count, profile, soft_deleted, earliest_seq ON streams BEGIN
    INSERT INTO unpublished (bucket, name) VALUES (new.bucket, new.name);
END;
CREATE TRIGGER bucket_made AFTER INSERT ON buckets BEGIN
    INSERT INTO unpublished (bucket, name) VALUES (new.id, NULL);
END;
CREATE TRIGGER bucket_changed AFTER UPDATE OF alive, created_us ON buckets BEGIN
    INSERT INTO unpublished (bucket, name) VALUES (new.id, NULL);
END;

-- What a folder of the first layout holds has never been published.
INSERT INTO unpublished (bucket, name) SELECT id, NULL FROM buckets;
INSERT INTO unpublished (bucket, name) SELECT bucket, name FROM streams;
INSERT INTO unpublished (bucket, name) SELECT bucket, name FROM tombstones;
UPDATE node SET value = max((SELECT coalesce(max(epoch), 0) FROM tombstones),
                            (SELECT coalesce(max(first_epoch + epoch_count - 1), 0) FROM streams))
 WHERE name IN ('epoch_newest', 'epoch_told');

-- Requests to the object store, since the folder began: what a bucket costs, and through whom. Stream 0 is the node.
CREATE TABLE store_requests (
    stream   INTEGER NOT NULL,
    artifact TEXT NOT NULL,
    op       TEXT NOT NULL,
    requests INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    bytes    INTEGER NOT NULL,
    PRIMARY KEY (stream, artifact, op)
) STRICT, WITHOUT ROWID;
