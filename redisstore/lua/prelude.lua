-- What every script shares. Numbers travel packed and big-endian, so that no
-- digit of a microsecond is lost on the way; times are microseconds.
--
-- Redis makes every function of a script anew at each call. What most calls do
-- not need therefore stands inside a function that makes it on first use.

local call, try = redis.call, redis.pcall
local pack, unpack_at = struct.pack, struct.unpack
local sub, rep = string.sub, string.rep
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

local NEVER = -1          -- stint.Never
local UNITS = 2 ^ 53      -- stint.MaxUnits
local SECOND = 1000000

-- The instant of this call, and whether it only looks: then nothing is written.
local now, looking

-- read_clock sets the instant: a clock of 0 stands for the server's own, any
-- other is a test's.
local function read_clock(clock)
  if clock ~= 0 then
    now = clock
    return
  end
  local t = call('TIME')
  now = t[1] * SECOND + t[2]
end

-- ttl turns a duration from now into milliseconds, with a second to spare.
local function ttl(micros)
  return ceil((micros + SECOND) / 1000)
end

-- discard heals a key that holds something that is not ours.
local function discard(key)
  if not looking then call('DEL', key) end
end
