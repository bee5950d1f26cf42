-- What the entries of a stream mean: its registry of schemas, and the configuration of its profile.

-- 0: nothing was ever declared, so nobody looks. Otherwise it counts the changes of the row in `schemas`.
ALTER TABLE streams ADD COLUMN meaning INTEGER NOT NULL DEFAULT 0;

CREATE TABLE schemas (
    stream   INTEGER PRIMARY KEY,
    registry TEXT NOT NULL,                    -- JSON, as clients see it
    config   TEXT                              -- JSON of the profile, without its kind; NULL when it has none
) STRICT;

CREATE TRIGGER schema_ended AFTER DELETE ON streams WHEN old.meaning > 0 BEGIN
    DELETE FROM schemas WHERE stream = old.id;
END;
CREATE TRIGGER schema_changed AFTER UPDATE OF meaning ON streams BEGIN
    INSERT INTO unpublished (bucket, name) VALUES (new.bucket, new.name);
END;
