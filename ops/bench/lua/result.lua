-- Loaded by the load scripts at their top: wrk calls `done` in an interpreter of its own, in which `init` never ran.
-- Prints one line that load.py parses. wrk counts answers above 399 as `errors.status`;
-- an append is answered 2xx or refused, so the rest are the acknowledged ones.
function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    'BENCH {"requests":%d,"refused":%d,"socket_errors":%d,"seconds":%.6f,"p50_ms":%.4f,"p99_ms":%.4f}\n',
    summary.requests, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
    summary.duration / 1e6, latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
