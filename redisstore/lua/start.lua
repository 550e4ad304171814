-- start is how scripts that know limits begin. Numbers are little-endian doubles unless a size is
-- given: whole, and at most 2^53. Times and durations are microseconds.
--
-- ARGV[1]  call id (8 bytes)
--          clock (0: the server's own; any other is a test's)
--          generation of states that the call creates (4)
--          sets of limits (sets.lua)
--          what the script itself reads
--
-- Functions use as few locals of others as they can, and no table is made where there can be one
-- less: Redis creates functions, and cells for the locals that they use, again at every call.
-- Arguments of commands are strings: Redis formats numbers as floats.

local args = ARGV[1]
local now, generation, count, pos = struct.unpack('<dI4B', args, 9) -- the number of sets, too
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
