-- name: node_values
-- What a node knows about itself.
SELECT name, value FROM node;

-- name: objects
-- Every object, and whether it has left the catalogue.
SELECT made, dead_us IS NOT NULL, level FROM objects;

-- name: unpublished
-- Names that the catalogue has not been told of.
SELECT count(*) FROM unpublished;

-- name: rows_above
-- Log rows that no generation covers.
SELECT count(*) FROM log WHERE row_id > ?;

-- name: tail
-- These rows, and whose they are.
SELECT row_id, stream FROM log WHERE row_id > (SELECT value FROM node WHERE name = 'released_through');

-- name: streams
-- The streams that are there: rows of a deleted one leave the log at any time.
SELECT id FROM streams;

-- name: mirrored_objects
-- The objects of a mirror.
SELECT made FROM objects;
