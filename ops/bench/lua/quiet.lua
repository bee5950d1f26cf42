-- args: URL path prefix, digits of a stream's number, number of streams, milliseconds between two appends of a connection, body
-- Each append goes to another stream; the pauses make a load that is the same for every server, however quick it is.
dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "result.lua")

local prefix, digits, streams, pause, body
local turn = 0

function init(args)
  prefix, digits, streams, pause, body = args[1], args[2], tonumber(args[3]), tonumber(args[4]), args[5]
  wrk.headers["Content-Type"] = "text/plain"
end

function delay()
  return pause
end

function request()
  turn = turn + 1
  return wrk.format("POST", prefix .. string.format("%0" .. digits .. "d", turn * 7919 % streams), nil, body)
end
