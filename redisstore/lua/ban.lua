-- ban: that of a subject, see docs/rules.md. It is one string: BAN_MARK (1 byte), until, the clock
-- at the last write, forgive (7 each), level (1).

local BAN_FORMAT = '>BI7I7I7B'

-- ban_open reads a ban from s, the value of its key, or nil. If the clock stepped back, so do its
-- times. One that is over is removed; one that lost its TTL gets another.
function G.ban_open(key, s)
  if not s then return end
  if type(s) == 'table' or #s ~= BAN_SIZE or s:byte() ~= BAN_MARK then return discard(key) end
  local _, til, at, forgive, level = unpack_at(BAN_FORMAT, s)
  local ban = { til = til, forgive = forgive, level = level }
  if now < at then ban.til, ban.changed = max(0, til - (at - now)), true end
  if now - ban.til >= forgive then return discard(key) end
  if call('PTTL', key) == -1 then ban.changed = true end
  return ban
end

function G.ban_save(key, ban)
  local s = pack(BAN_FORMAT, BAN_MARK, ban.til, now, ban.forgive, ban.level)
  call('SET', key, s, 'PX', ttl(max(ban.til - now, 0) + ban.forgive))
end

-- bans_open reads the bans of all claims except the shared ones (a bit each, the lowest for the
-- first claim). Their keys come after so many others. It returns the bans, and the first claim
-- whose subject is banned. A claim has false for no ban, and nil if it is shared. Claims of one
-- subject have the same table.
function G.bans_open(before, claims, shared)
  local bans, banned, known = {}, nil, {}
  for c = 1, claims do
    if shared % 2 == 0 then
      local key = KEYS[before + c]
      if known[key] == nil then known[key] = G.ban_open(key, try('GET', key)) or false end
      bans[c] = known[key]
      if bans[c] and bans[c].til > now and not banned then banned = c end
    end
    shared = floor(shared / 2)
  end
  return bans, banned
end

-- bans_heal writes the records that changed, of the claims that cost something.
function G.bans_heal(bans, before, limits)
  for _, l in ipairs(limits) do
    local ban = bans[l.claim]
    if ban and ban.changed and l.cost > 0 then
      G.ban_save(KEYS[before + l.claim], ban)
      ban.changed = false
    end
  end
end

-- open_strikes returns the state and the log of the strikes within so many microseconds, or within
-- as many as when the last one was counted.
function G.open_strikes(key, within)
  local st = read_state(key)
  local l = st.limits[1]
  if not l or l.width ~= 8 or l.algorithm ~= SLIDING then
    l = { algorithm = SLIDING, booked = '', booked_sum = 0, width = 8, format = FORMATS[8], sum = 0, entries = '' }
  end
  st.limits, within = { l }, within or l.window or 0
  l.window, l.span, l.slice, l.cap, l.cost = within, within, 0, RESOLUTION, 1
  open(l)
  return st, l
end

-- strike counts a denial. It returns the ban that this leads to, if any: the subject's last one,
-- renewed, if it had one.
function G.strike(key, ban, policy)
  local st, l = G.open_strikes(key, policy.within)
  if l.sum + 1 < policy.after then
    append(l, now, 1)
    return save(st)
  end
  call('DEL', key)
  local level = 1
  if ban and now - ban.til < policy.forgive then level = min(ban.level + 1, 255) end
  ban = ban or {}
  ban.til = now + policy.durations[min(level, #policy.durations)]
  ban.forgive, ban.level, ban.changed = policy.forgive, level, true
  return ban
end
