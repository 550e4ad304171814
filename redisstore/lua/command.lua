-- command acts on one subject outside of any decision.
--
-- KEYS     reset: the states to forget; ban and unban: the ban, the strikes
-- ARGV[1]  call id, clock, kind, length of the ban
-- Reply    call id

local kind, length = unpack_at('>Bi8', args, 17)
local R = rest(now, false)
if kind == 1 then -- stint.Ban; else Reset or Unban
  local ban = R.ban_open(KEYS[1], try('GET', KEYS[1])) or { forgive = 0, level = 0 }
  ban.til = math.max(ban.til or 0, now + length) -- one that ends later stays
  R.ban_save(KEYS[1], ban)
else
  call('DEL', unpack(KEYS))
end
R.announce(KEYS[1], '!')
return pack('>c8', args)
