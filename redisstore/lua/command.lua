-- command acts on one subject outside of any decision.
--
-- KEYS     reset: the states to forget; ban and unban: the ban, the strikes
-- ARGV[1]  call id (8 bytes), clock (0: the server's), kind, length of the ban
-- Reply    call id

local call, pack, unpack_at = redis.call, struct.pack, struct.unpack
local id, clock, kind, length = unpack_at('>c8i8Bi8', ARGV[1])
local now = clock
if clock == 0 then -- else it is a test's
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
local R = rest(now, false)
if kind == 1 then -- stint.Ban; else Reset or Unban
  local ban = R.ban_open(KEYS[1], redis.pcall('GET', KEYS[1])) or { forgive = 0, level = 0 }
  ban.til = now + length
  R.ban_save(KEYS[1], ban)
else
  call('DEL', unpack(KEYS))
end
return pack('>c8', id)
