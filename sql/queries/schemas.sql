-- name: load_schema
-- What was declared of one stream.
SELECT registry, config FROM schemas WHERE stream = ?;

-- name: put_schema
-- What is declared of a stream from now on.
INSERT INTO schemas (stream, registry, config) VALUES (?, ?, ?)
    ON CONFLICT (stream) DO UPDATE SET registry = excluded.registry, config = excluded.config;

-- name: count_meaning
-- Says so where the stream is, with its profile.
UPDATE streams SET meaning = ?, profile = ? WHERE bucket = ? AND name = ?;
