-- start is how scripts that know limits begin. Numbers are little-endian doubles unless a size is
-- given: whole, and at most 2^53. Times and durations are microseconds.
--
-- ARGV[1]  call id (8 bytes)
--          clock (0: the server's own; any other is a test's)
--          generation of states that the call creates (4)
--          sets of limits (sets.lua)
--          what the script itself reads
-- @include numbers
-- @include general

local call, try, pack, unpack_at = redis.call, redis.pcall, struct.pack, struct.unpack
local floor = math.floor
local args = ARGV[1]
local now, generation, pos = unpack_at('<dI4', args, 9)
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
-- @include sets
