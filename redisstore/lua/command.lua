-- command acts on one subject outside of any decision.
--
-- KEYS     reset: the states to forget; ban and unban: the ban, the strikes; give back:
--          one key per limit
-- ARGV[1]  call id, clock, kind, then of a ban its length, or of what is given back the
--          units and the spec of each limit (limit.lua)
-- Reply    call id

local BAN, GIVE_BACK = 1, 3 -- stint.CommandKind; else Reset or Unban

local kind, amount, pos = unpack_at('>Bi8', args, 17)
local R = rest(now, false)
local mark = '!' -- what to announce: a command, or that there is room again
if kind == BAN then
  local ban = R.ban_open(KEYS[1], try('GET', KEYS[1])) or { forgive = 0, level = 0 }
  ban.til = math.max(ban.til or 0, now + amount) -- one that ends later stays
  R.ban_save(KEYS[1], ban)
elseif kind == GIVE_BACK then
  mark = nil
  for i = 1, #KEYS do
    local l = R.open_limit(args, pos + (i - 1) * 33, KEYS[i], 0)
    if not l.places and l.of.give_back(l, amount) then mark = '+' end
  end
else
  call('DEL', unpack(KEYS))
end
if mark then R.announce(KEYS[1], mark) end
return pack('>c8', args)
