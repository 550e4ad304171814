return R
end -- of rest(), see prelude.lua

-- Every script is straight code from here on. Its arguments begin with the call id (8
-- bytes) and the clock: 0 for the server's own, any other is a test's.
local call, try, pack, unpack_at = redis.call, redis.pcall, struct.pack, struct.unpack
local args = ARGV[1]
local now = unpack_at('>i8', args, 9)
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
