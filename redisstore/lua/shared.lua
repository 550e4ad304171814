-- What the rest shares. From here on everything is made on first use, see
-- prelude.lua.

local sub, rep, concat, remove = string.sub, string.rep, table.concat, table.remove
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

local NEVER = -1          -- stint.Never
local UNITS = 2 ^ 53      -- stint.MaxUnits

-- read_clock sets the instant of the call: a clock of 0 stands for the server's own,
-- any other is a test's.
function R.read_clock(clock)
  now = clock
  if clock == 0 then
    local t = call('TIME')
    now = t[1] * 1000000 + t[2]
  end
end

-- ttl turns a duration from now into milliseconds, with a second to spare.
local function ttl(micros)
  return ceil(micros / 1000) + 1000
end

R.ttl = ttl

-- discard heals a key that holds something that is not ours.
function R.discard(key)
  if not looking then call('DEL', key) end
end
