-- Bans, per subject, see docs/rules.md. A ban is one string: 'N' (1 byte), until,
-- at, forgive (7 each), level (1).

local BAN_FORMAT = '>BI7I7I7B'

-- ban_open reads the subject's record from s, what its key holds, or nil. If the
-- clock stepped back, the record is moved with it. One that says nothing any more,
-- or lost its TTL, heals.
function R.ban_open(key, s)
  if not s then return end
  if type(s) == 'table' or #s ~= 23 or s:byte() ~= 78 then return R.discard(key) end
  local _, til, at, forgive, level = unpack_at(BAN_FORMAT, s)
  local ban = { til = til, forgive = forgive, level = level }
  if now < at then ban.til, ban.moved = max(0, til - (at - now)), true end
  if now - ban.til >= forgive then return R.discard(key) end
  if call('PTTL', key) == -1 then ban.moved = true end
  return ban
end

function R.ban_save(key, ban)
  local s = pack(BAN_FORMAT, 78, ban.til, now, ban.forgive, ban.level)
  call('SET', key, s, 'PX', ttl(max(ban.til - now, 0) + ban.forgive))
end

-- strike counts a denial in a log of its own, and returns the ban that it led to,
-- if any.
function R.strike(key, ban, policy)
  local l = log_open(key, 1, policy.after, policy.within, 1)
  if R.used(l) + 1 < policy.after then
    log_charge(l)
    return
  end
  call('DEL', key)
  local level = 1
  if ban and now - ban.til < policy.forgive then level = min(ban.level + 1, 255) end
  return {
    til = now + policy.durations[min(level, #policy.durations)],
    forgive = policy.forgive,
    level = level,
    moved = true,
  }
end
