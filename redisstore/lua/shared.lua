local call, try, pack, unpack_at = redis.call, redis.pcall, struct.pack, struct.unpack
local rep, concat, insert, remove = string.rep, table.concat, table.insert, table.remove
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

local NEVER = -1          -- stint.Never
local UNITS = 2 ^ 53      -- stint.MaxUnits

-- ttl turns a duration from now into milliseconds, with a second to spare.
local function ttl(micros)
  return ceil(micros / 1000) + 1000
end
R.ttl = ttl

-- discard heals a key that holds something that is not ours.
local function discard(key)
  if not looking then call('DEL', key) end
end
R.discard = discard


-- announce tells those who listen that the subject of the key may have room again: a
-- mark, then the subject as keys write it, on the channel <prefix>:room. Who may not publish
-- does not.
function R.announce(key, mark)
  local prefix, subject = key:match('^(.-){(.-)}')
  try('PUBLISH', prefix .. 'room', mark .. subject)
end
