-- Bans, per subject, see docs/rules.md. A ban is one string: 'N' (1 byte), until,
-- at, forgive (7 each), level (1).

local BAN, BAN_FORMAT = 78, '>BI7I7I7B'

-- ban_open returns the subject's record, or nil. If the clock stepped back, the
-- record is moved with it.
local function ban_open(key)
  local s = try('GET', key)
  if not s then return end
  if type(s) == 'table' or #s ~= 23 or s:byte() ~= BAN then return discard(key) end
  local _, til, at, forgive, level = unpack_at(BAN_FORMAT, s)
  local ban = { til = til, forgive = forgive, level = level }
  if now < at then ban.til, ban.moved = max(0, til - (at - now)), true end
  return ban
end

local function ban_save(key, ban)
  local s = pack(BAN_FORMAT, BAN, ban.til, now, ban.forgive, ban.level)
  call('SET', key, s, 'PX', ttl(max(ban.til - now, 0) + ban.forgive))
end

-- strike counts a denial in a log of its own, and returns the ban that it led to,
-- if any.
local function strike(key, ban, policy)
  local l = { key = key, cost = 1, cap = policy.after, window = policy.within, times = 1 }
  log_limit(l)
  l.of.open(l)
  if l.of.used(l) + 1 < policy.after then
    l.of.charge(l)
    return
  end
  call('DEL', key)
  local level = 1
  if ban and now - ban.til < policy.forgive then level = min(ban.level + 1, 255) end
  return {
    til = now + policy.durations[min(level, #policy.durations)],
    forgive = policy.forgive,
    level = level,
  }
end
