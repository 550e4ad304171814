-- shared is what the files of the general path have in common (general.lua).

local G = {}

local call, try, pack, unpack_at = redis.call, redis.pcall, struct.pack, struct.unpack
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

local looking = false -- if so, nothing is written

-- whole reports whether a number may be one of ours.
local function whole(v) return v >= 0 and v <= MAX_UNITS and v % 1 == 0 end

-- bounded is a number as a reply may hold it; only a damaged state has others.
local function bounded(v, least)
  if v >= least and v <= MAX_UNITS then return v end
  return v > MAX_UNITS and MAX_UNITS or max(0, least)
end
G.bounded = bounded

-- look says whether the script only looks from now on.
function G.look(on) looking = on end

-- ttl turns a duration from now into milliseconds, with a second to spare.
local function ttl(micros)
  return ceil(micros / 1000) + 1000
end
G.ttl = ttl

-- discard removes a key that holds something that is not ours.
local function discard(key)
  if not looking then call('DEL', key) end
end
G.discard = discard

-- announce publishes on the channel <prefix>:room that the subject of a key may have room again: a
-- mark, then the subject as keys write it. Without the permission to publish it does nothing.
function G.announce(key, mark)
  local prefix, subject = key:match('^(.-){(.-)}')
  try('PUBLISH', prefix .. 'room', mark .. subject)
end
