-- What is indexed of which stream, in which objects, and how that should be.

INSERT INTO node (name, value) VALUES
    ('index_fence', 0),        -- the number of the newest claim of work
    ('index_change', 0);       -- counts the changes of plans

-- Streams of which something is declared, by their incarnation; the others are found by their names only.
CREATE UNIQUE INDEX streams_declared ON streams (id) WHERE meaning > 0;

-- Which families a stream has, and under which configuration. One row for each stream of which something is declared.
CREATE TABLE index_plans (
    stream     INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL,               -- counts its changes; 0 as long as there is no family
    configs    TEXT NOT NULL,                  -- JSON: family -> hash of its configuration
    since_us   INTEGER NOT NULL,               -- when the newest generation began
    change     INTEGER NOT NULL DEFAULT 0,     -- `index_change` as of the last change: who follows begins behind it
    moves      INTEGER NOT NULL DEFAULT 0      -- counts the changes of what is covered
) STRICT;

CREATE INDEX index_plans_by_change ON index_plans (change);

-- Immutable objects under `index/`. Dead ones wait for the catalogue to be told, and then for the collector.
CREATE TABLE index_objects (
    id            INTEGER PRIMARY KEY,
    made          TEXT NOT NULL UNIQUE,        -- the unique end of its key
    family        TEXT NOT NULL,
    level         INTEGER NOT NULL,            -- how often its rows were merged
    bytes         INTEGER NOT NULL,
    sum           TEXT NOT NULL,               -- xxh3_128 of the whole object
    rows          INTEGER NOT NULL,
    filter_bytes  INTEGER NOT NULL DEFAULT 0,  -- of the filter beside an exact run
    filter_sum    TEXT NOT NULL DEFAULT '',
    sections      TEXT NOT NULL DEFAULT '{}',  -- JSON: bytes by what they are for, where the object says so
    payload_bytes INTEGER NOT NULL,            -- of the entries that it covered as it was made, to share its size by
    made_us       INTEGER NOT NULL,
    covers        INTEGER NOT NULL DEFAULT 0,  -- living rows of `index_covers`, kept by the triggers below
    dead_us       INTEGER                      -- when the last of them went
) STRICT;

CREATE INDEX index_objects_living ON index_objects (family, level, id) WHERE dead_us IS NULL;
CREATE INDEX index_objects_idle ON index_objects (id) WHERE covers = 0 AND dead_us IS NULL;
CREATE INDEX index_objects_dead ON index_objects (dead_us) WHERE dead_us IS NOT NULL;

-- Entries [first_seq, end_seq) of a stream that an index object covers, under a configuration. Those of one stream,
-- family and configuration never overlap.
CREATE TABLE index_covers (
    stream        INTEGER NOT NULL,
    family        TEXT NOT NULL,
    config        TEXT NOT NULL,
    first_seq     INTEGER NOT NULL,
    end_seq       INTEGER NOT NULL,
    object        INTEGER NOT NULL,
    ordinal       INTEGER NOT NULL,            -- of the source in the index object's own list
    entries       INTEGER NOT NULL,
    payload_bytes INTEGER NOT NULL,
    min_ts        INTEGER NOT NULL,
    max_ts        INTEGER NOT NULL,
    skipped       INTEGER NOT NULL DEFAULT 0,  -- entries that have no value: covered nevertheless
    PRIMARY KEY (stream, family, config, first_seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX index_covers_of_object ON index_covers (object);

CREATE TRIGGER index_cover_made AFTER INSERT ON index_covers BEGIN
    UPDATE index_objects SET covers = covers + 1 WHERE id = new.object;
END;
CREATE TRIGGER index_cover_gone AFTER DELETE ON index_covers BEGIN
    UPDATE index_objects SET covers = covers - 1 WHERE id = old.object;
END;

-- What the catalogue has not been told of: plans by their stream, objects by their id. `change` counts how often, so
-- that what happens while it is being told stays.
CREATE TABLE index_untold (
    kind   TEXT NOT NULL,                      -- 'plan' or 'object'
    id     INTEGER NOT NULL,
    change INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER index_plan_made AFTER INSERT ON index_plans BEGIN
    UPDATE node SET value = value + 1 WHERE name = 'index_change';
    UPDATE index_plans SET change = (SELECT value FROM node WHERE name = 'index_change') WHERE stream = new.stream;
    INSERT INTO index_untold (kind, id) SELECT 'plan', new.stream WHERE new.generation > 0
        ON CONFLICT (kind, id) DO UPDATE SET change = change + 1;
END;
CREATE TRIGGER index_plan_changed AFTER UPDATE OF configs ON index_plans BEGIN
    UPDATE node SET value = value + 1 WHERE name = 'index_change';
    UPDATE index_plans SET change = (SELECT value FROM node WHERE name = 'index_change') WHERE stream = new.stream;
    INSERT INTO index_untold (kind, id) VALUES ('plan', new.stream)
        ON CONFLICT (kind, id) DO UPDATE SET change = change + 1;
END;

-- Streams without a declaration have none of this.
CREATE TRIGGER index_ended AFTER DELETE ON streams WHEN old.meaning > 0 BEGIN
    DELETE FROM index_covers WHERE stream = old.id;
    DELETE FROM index_plans WHERE stream = old.id;
END;
CREATE TRIGGER index_trimmed AFTER UPDATE OF earliest_seq ON streams WHEN new.meaning > 0 BEGIN
    DELETE FROM index_covers WHERE stream = new.id AND end_seq <= new.earliest_seq;
END;
