-- shared is the beginning of the general path: what its files have in common.
--
-- Redis makes every function of a script anew at each call, and that costs time. So those of the
-- general path are in one, general(now, generation, sets), which makes them and returns them in the table G. The files
-- from this one to decide.lua are its body.

local G = {}

local call, try, pack, unpack_at = redis.call, redis.pcall, struct.pack, struct.unpack
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

local NEVER = -1          -- stint.Never
local UNITS = 2 ^ 53      -- stint.MaxUnits

local looking = false -- if so, nothing is written

-- whole reports whether a number may be one of ours.
local function whole(v) return v >= 0 and v <= UNITS and v % 1 == 0 end

-- told is a number as a reply may hold it; only a damaged state has others.
local function told(v, least)
  if v >= least and v <= UNITS then return v end
  return v > UNITS and UNITS or max(0, least)
end
G.told = told

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

-- announce tells those who listen that the subject of the key may have room again: a
-- mark, then the subject as keys write it, on the channel <prefix>:room. Without the permission to
-- publish it does nothing.
function G.announce(key, mark)
  local prefix, subject = key:match('^(.-){(.-)}')
  try('PUBLISH', prefix .. 'room', mark .. subject)
end
