-- The list of all streams, by bucket and name, cut into stretches, so that a page by offset need not walk to its offset.

-- A stretch begins at a bucket's name and a stream's, and goes on to where the next one begins. The first one begins
-- before every name and is always there. wal/stretches.py cuts long ones and joins short ones.
CREATE TABLE stretches (
    bucket  TEXT NOT NULL,
    name    TEXT NOT NULL,
    streams INTEGER NOT NULL,                  -- how many streams of the listing lie in it
    PRIMARY KEY (bucket, name)
) STRICT, WITHOUT ROWID;

INSERT INTO stretches (bucket, name, streams) SELECT '', '', count(*) FROM streams WHERE soft_deleted = 0;

-- Triggers, so that whoever writes `streams` keeps the counts in the same transaction. REPLACE would not run the second.
CREATE TRIGGER stretch_gains AFTER INSERT ON streams WHEN NEW.soft_deleted = 0 BEGIN
    UPDATE stretches SET streams = streams + 1
     WHERE (bucket, name) = (
         SELECT t.bucket, t.name FROM stretches AS t
          WHERE (t.bucket, t.name) <= ((SELECT b.name FROM buckets AS b WHERE b.id = NEW.bucket), NEW.name)
          ORDER BY t.bucket DESC, t.name DESC LIMIT 1);
END;

CREATE TRIGGER stretch_loses AFTER DELETE ON streams WHEN OLD.soft_deleted = 0 BEGIN
    UPDATE stretches SET streams = streams - 1
     WHERE (bucket, name) = (
         SELECT t.bucket, t.name FROM stretches AS t
          WHERE (t.bucket, t.name) <= ((SELECT b.name FROM buckets AS b WHERE b.id = OLD.bucket), OLD.name)
          ORDER BY t.bucket DESC, t.name DESC LIMIT 1);
END;

CREATE TRIGGER stretch_hides AFTER UPDATE OF soft_deleted ON streams WHEN NEW.soft_deleted <> OLD.soft_deleted BEGIN
    UPDATE stretches SET streams = streams + OLD.soft_deleted - NEW.soft_deleted
     WHERE (bucket, name) = (
         SELECT t.bucket, t.name FROM stretches AS t
          WHERE (t.bucket, t.name) <= ((SELECT b.name FROM buckets AS b WHERE b.id = OLD.bucket), OLD.name)
          ORDER BY t.bucket DESC, t.name DESC LIMIT 1);
END;

-- Buckets with streams, in the order of the listing: it does not look at empty and deleted ones. UNIQUE, as names are;
-- knowing that, SQLite reads their streams in order instead of sorting them.
CREATE UNIQUE INDEX buckets_in_use ON buckets (name) WHERE streams > 0;
