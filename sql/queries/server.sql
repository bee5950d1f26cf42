-- name: stuck
-- How many streams cannot be sealed.
SELECT count(*) FROM stuck;

-- name: largest_in_log
-- Of the newest rows of the log: the streams that take most of it. The sizes do not read the entries.
SELECT stream, sum(length(payload)), sum(count)
  FROM log WHERE row_id > (SELECT max(row_id) FROM log) - :rows
 GROUP BY stream ORDER BY 2 DESC, stream LIMIT :limit;
