-- bans keeps the bans of subjects. See docs/rules.md. A ban is one string: BAN_MARK (1 byte), its
-- end, the time of its last write, forgive (7 each), level (1). As a table, a ban has the fields
-- til, forgive and level. The field changed is true if the ban must be written.

local bans = { read = nil, save = nil, open = nil, heal = nil, strike = nil } -- preallocate the fields

-- read returns a ban. If the clock stepped back, the times of the ban move back with it. If the key
-- has no TTL, read marks the ban as changed, so that it is written with a TTL. Unless `looking` is
-- set, read removes a ban that has been forgiven, and a value that is not a ban.
function bans.read(key, looking)
  local s = redis.pcall('GET', key)
  if not s then return end
  if type(s) == 'string' and #s == BAN_SIZE and s:byte() == BAN_MARK then
    local _, til, at, forgive, level = struct.unpack('>BI7I7I7B', s)
    local ban = { til = til, forgive = forgive, level = level }
    if now < at then ban.til, ban.changed = math.max(0, til - (at - now)), true end
    if now - ban.til < forgive then
      if redis.call('PTTL', key) == -1 then ban.changed = true end
      return ban
    end
  end
  if not looking then redis.call('DEL', key) end
end

function bans.save(key, ban)
  local s = struct.pack('>BI7I7I7B', BAN_MARK, ban.til, now, ban.forgive, ban.level)
  redis.call('SET', key, s, 'PX', ttl(math.max(ban.til - now, 0) + ban.forgive))
end

-- open reads the bans of a request's subjects into r.bans, by claim: false if there is no ban, nil
-- if the claim is shared. Claims with the same subject share one table. open returns the first
-- claim whose subject is banned, or nil.
function bans.open(r)
  local shared, known, banned = r.options[SHARED], {}, nil
  r.bans = {}
  for claim = 1, r.options[CLAIMS] do
    if shared % 2 == 0 then
      local key = KEYS[r.base + claim]
      if known[key] == nil then known[key] = bans.read(key, r.options[MODE] == PEEK) or false end
      local ban = known[key]
      r.bans[claim] = ban
      if ban and ban.til > now and not banned then banned = claim end
    end
    shared = math.floor(shared / 2)
  end
  return banned
end

-- heal writes the changed bans of claims that cost something.
function bans.heal(r)
  for _, part in ipairs(r) do
    local ban = r.bans[part.claim]
    if ban and ban.changed and part.cost > 0 then
      bans.save(KEYS[r.base + part.claim], ban)
      ban.changed = false
    end
  end
end

-- strike counts a denial of a claim. If the denial leads to a ban, strike returns that ban: a new
-- one or, if the subject already has one, the subject's ban with new times.
function bans.strike(r, claim)
  local key, ban = KEYS[r.base + r.options[CLAIMS] + claim], r.bans[claim]
  local st, c = r.whole.strikes(key, r.options[WITHIN])
  if st[st[SET][c.at + LOG] + SUM] + 1 < r.options[AFTER] then
    c.changed = true
    add(st, c.at, now, 1)
    return r.whole.save(st)
  end
  redis.call('DEL', key)
  local level = 1
  if ban and now - ban.til < r.options[FORGIVE] then level = math.min(ban.level + 1, 255) end
  ban = ban or {}
  local step = math.min(level, r.options[STEPS])
  ban.til = now + struct.unpack('<d', args, r.options[DURATIONS] + 8 * (step - 1))
  ban.forgive, ban.level, ban.changed = r.options[FORGIVE], level, true
  return ban
end
