-- Bans, per subject, see docs/rules.md. A ban is one string: 'N' (1 byte), until,
-- at, forgive (7 each), level (1).

local BAN_FORMAT = '>BI7I7I7B'

-- ban_open reads the subject's record from s, what its key holds, or nil. If the
-- clock stepped back, the record is moved with it. One that says nothing any more,
-- or lost its TTL, heals.
function R.ban_open(key, s)
  if not s then return end
  if type(s) == 'table' or #s ~= 23 or s:byte() ~= 78 then return discard(key) end
  local _, til, at, forgive, level = unpack_at(BAN_FORMAT, s)
  local ban = { til = til, forgive = forgive, level = level }
  if now < at then ban.til, ban.changed = max(0, til - (at - now)), true end
  if now - ban.til >= forgive then return discard(key) end
  if call('PTTL', key) == -1 then ban.changed = true end
  return ban
end

function R.ban_save(key, ban)
  local s = pack(BAN_FORMAT, 78, ban.til, now, ban.forgive, ban.level)
  call('SET', key, s, 'PX', ttl(max(ban.til - now, 0) + ban.forgive))
end

-- bans_open reads the bans of all claims, whose keys come after so many others, but for
-- those that are shared, a bit each with the lowest for the first claim. It returns them
-- with the first claim whose subject is banned. A claim has false for no ban, and nil if it
-- is shared. Claims of one subject have the same table.
function R.bans_open(before, claims, shared)
  local bans, banned, known = {}, nil, {}
  for c = 1, claims do
    if shared % 2 == 0 then
      local key = KEYS[before + c]
      if known[key] == nil then known[key] = R.ban_open(key, try('GET', key)) or false end
      bans[c] = known[key]
      if bans[c] and bans[c].til > now and not banned then banned = c end
    end
    shared = floor(shared / 2)
  end
  return bans, banned
end

-- bans_heal writes the records that changed, of the claims that cost something.
function R.bans_heal(bans, before, limits)
  for _, l in ipairs(limits) do
    local c, cost = l.claim or l[1], l.cost or l[4]
    if bans[c] and bans[c].changed and cost > 0 then
      R.ban_save(KEYS[before + c], bans[c])
      bans[c].changed = false
    end
  end
end

-- strike counts a denial in a log of its own, and returns the ban that it led to,
-- if any: the subject's last one anew, if it had one.
function R.strike(key, ban, policy)
  local l = { key = key, cost = 1, cap = policy.after, window = policy.within, times = 1 }
  W.open(l)
  if W.used(l) + 1 < policy.after then return W.charge(l, now) end
  call('DEL', key)
  local level = 1
  if ban and now - ban.til < policy.forgive then level = min(ban.level + 1, 255) end
  ban = ban or {}
  ban.til = now + policy.durations[min(level, #policy.durations)]
  ban.forgive, ban.level, ban.changed = policy.forgive, level, true
  return ban
end
