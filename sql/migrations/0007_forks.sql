-- Forks: how many streams share the entries of another one, so that it is kept for them.

ALTER TABLE streams ADD COLUMN forks INTEGER NOT NULL DEFAULT 0;  -- of this incarnation, soft-deleted ones included

-- From a fork to its source, which is known by its incarnation only. Most streams have no forks, and no row here.
CREATE UNIQUE INDEX streams_forked ON streams (id) WHERE forks > 0;

-- Sources that were kept for forks which are gone by now: a start may find some between two steps of a deletion.
CREATE INDEX streams_orphaned ON streams (id) WHERE soft_deleted = 1 AND forks = 0;
