-- args: URL path prefix, number of streams, content type, body files...
-- Every request is built once at the start; a turn only picks the next one, so that the loader costs the same for
-- every server and every body. Streams and bodies go round together: stream `i % streams` gets body `i % bodies`.
dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "result.lua")

local requests, count, turn = {}, 0, 0

local function contents(path)
  local file = assert(io.open(path, "rb"))
  local bytes = file:read("*a")
  file:close()
  return bytes
end

function init(args)
  local prefix, streams = args[1], tonumber(args[2])
  wrk.headers["Content-Type"] = args[3]
  local bodies = {}
  for i = 4, #args do bodies[#bodies + 1] = contents(args[i]) end
  count = math.max(streams, #bodies)
  for i = 0, count - 1 do
    requests[i] = wrk.format("POST", prefix .. (i % streams), nil, bodies[i % #bodies + 1])
  end
end

function request()
  local picked = requests[turn]
  turn = (turn + 1) % count
  return picked
end
