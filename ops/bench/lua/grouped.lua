-- args: URL path prefix, number of streams, number of groups, first state, content type, body file
-- Appends to the streams `prefix000/m0000000`, `prefix001/m0000001`, ... in the fixed pseudo-random order of million.py.
dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "result.lua")

local MULTIPLIER, INCREMENT, MODULUS = 1664525, 1013904223, 1048576

local head, tail, streams, groups, state
local asked = false

function init(args)
  streams, groups, state = tonumber(args[2]), tonumber(args[3]), tonumber(args[4])
  wrk.headers["Content-Type"] = args[5]
  local file = assert(io.open(args[6], "rb"))
  local whole = wrk.format("POST", args[1] .. "@", nil, file:read("*a"))
  file:close()
  local mark = whole:find("@", 1, true)
  head, tail = whole:sub(1, mark - 1), whole:sub(mark + 1)
end

function request()
  if not asked then -- wrk asks once before the start, to count pipelined requests, and sends nothing
    asked = true
    return head .. "000/m0000000" .. tail
  end
  repeat state = (MULTIPLIER * state + INCREMENT) % MODULUS until state < streams
  return head .. string.format("%03d/m%07d", state % groups, state) .. tail
end
