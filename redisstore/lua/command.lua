-- command acts on one subject outside of any decision.
--
-- KEYS     reset: the states to forget; ban and unban: the ban, the strikes
-- ARGV[1]  call id (8 bytes), clock (0: the server's), kind, length of the ban
-- Reply    call id

local RESET, BAN_FOR, UNBAN = 0, 1, 2     -- stint.CommandKind

local id, clock, kind, length = unpack_at('>c8i8Bi8', ARGV[1])
read_clock(clock)
if kind == BAN_FOR then
  local ban = ban_open(KEYS[1]) or { forgive = 0, level = 0 }
  ban.til = now + length
  ban_save(KEYS[1], ban)
else
  call('DEL', unpack(KEYS))
end
return pack('>c8', id)
