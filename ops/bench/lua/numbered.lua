-- args: method, URL path prefix, number of streams, order, first state, content type, body file
-- Walks the streams `prefix0000000`, `prefix0000001`, ... either in order, or in the fixed pseudo-random order of
-- million.py, which repeats the same arithmetic to know which streams were asked for.
dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "result.lua")

local MULTIPLIER, INCREMENT, MODULUS = 1664525, 1013904223, 1048576

local head, tail, streams, state, random
local asked = false

function init(args)
  local method, prefix = args[1], args[2]
  streams, random, state = tonumber(args[3]), args[4] == "random", tonumber(args[5])
  wrk.headers["Content-Type"] = args[6]
  local file = assert(io.open(args[7], "rb"))
  local whole = wrk.format(method, prefix .. "@", nil, file:read("*a"))
  file:close()
  local mark = whole:find("@", 1, true)
  head, tail = whole:sub(1, mark - 1), whole:sub(mark + 1)
end

local function next_index()
  if not random then
    state = state + 1
    return (state - 1) % streams
  end
  repeat state = (MULTIPLIER * state + INCREMENT) % MODULUS until state < streams
  return state
end

function request()
  if not asked then -- wrk asks once before the start, to count pipelined requests, and sends nothing
    asked = true
    return head .. "0000000" .. tail
  end
  return head .. string.format("%07d", next_index()) .. tail
end
