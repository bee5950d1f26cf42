-- Requests that were made for streams that are gone are the node's: an account for each life would never leave.

CREATE TRIGGER account_closed AFTER DELETE ON heads
  WHEN EXISTS (SELECT 1 FROM store_requests WHERE stream = old.stream) BEGIN
    INSERT INTO store_requests (stream, artifact, op, requests, failures, bytes)
        SELECT 0, artifact, op, requests, failures, bytes FROM store_requests WHERE stream = old.stream
        ON CONFLICT (stream, artifact, op) DO UPDATE SET requests = requests + excluded.requests,
            failures = failures + excluded.failures, bytes = bytes + excluded.bytes;
    DELETE FROM store_requests WHERE stream = old.stream;
END;

INSERT INTO store_requests (stream, artifact, op, requests, failures, bytes)
    SELECT 0, artifact, op, sum(requests), sum(failures), sum(bytes) FROM store_requests
     WHERE stream <> 0 AND stream NOT IN (SELECT stream FROM heads) GROUP BY artifact, op
    ON CONFLICT (stream, artifact, op) DO UPDATE SET requests = requests + excluded.requests,
        failures = failures + excluded.failures, bytes = bytes + excluded.bytes;
DELETE FROM store_requests WHERE stream <> 0 AND stream NOT IN (SELECT stream FROM heads);
