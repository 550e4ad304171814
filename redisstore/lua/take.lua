-- take decides one request: every limit of every claim is charged, or none.
--
-- KEYS     per claim: its subject's ban, then one key per limit;
--          with a ban policy: per claim its subject's strikes;
--          with a request id: the ids of the first claim
-- ARGV[1]  call id (8 bytes), clock (0: the server's), mode, longest wait (0: any),
--          life of the request id, claims, then the ban policy: after (0: none),
--          within, forgive, number of durations, durations
-- ARGV[2]  request id, empty for none
-- ARGV[3…] per claim: its spec (limit.lua)
-- Reply    call id, now, flags, deciding claim, retry-after, time of the charge (0:
--          none), number of limits; then for each used, reset-after, retry-after

local TAKE, PEEK, RESERVE = 0, 1, 2       -- stint.Mode
local ALLOWED, REPEAT, BANNED = 1, 2, 4
local BOOKINGS = 1000                     -- stint.MaxBookings

local id, clock, mode, longest, life, claims, after, within, forgive, steps, rest =
  unpack_at('>c8i8Bi8i8BBi8i8B', ARGV[1])
read_clock(clock)
looking = mode == PEEK

-- Open everything, in the order of the keys.
local limits, bans, ban_keys, keys, banned = {}, {}, {}, 0, nil
for c = 1, claims do
  local spec = ARGV[c + 2]
  local cost, n = unpack_at('>i8B', spec)
  keys = keys + 1
  ban_keys[c] = KEYS[keys]
  bans[c] = ban_open(KEYS[keys])
  if bans[c] and bans[c].til > now and not banned then banned = c end
  for i = 1, n do
    local l = open_limit(spec, i, KEYS[keys + i], cost)
    l.claim, limits[#limits + 1] = c, l
  end
  keys = keys + n
end
local strikes = keys
local id_key = KEYS[keys + (after > 0 and claims or 0) + 1]

-- The verdict.
local flags, decider, retry, at = 0, 1, 0, 0
local seen, repeats
if id_key and not banned and limits[1].cost > 0 then
  seen, repeats = id_open(id_key, ARGV[2], life)
end

-- fit returns the first instant from t on that suits all limits, or NEVER.
local function fit(t)
  local before
  repeat
    before = t
    for i = 1, #limits do
      local l = limits[i]
      t = max(t, l.of.earliest(l, t, l.cost))
    end
  until t == before
  return t
end

if seen and repeats < 8 then -- stint.MaxRepeats
  flags, retry = REPEAT, max(0, seen - now)
  if mode ~= TAKE or retry == 0 then
    flags = REPEAT + ALLOWED
    if not looking then call('ZINCRBY', id_key, 1, ARGV[2]) end
  end
else
  local t, queued = now, false
  for i = 1, #limits do
    local l = limits[i]
    local e = l.of.earliest(l, now, l.cost)
    l.retry = e == NEVER and NEVER or e - now
    if e == NEVER or t == NEVER then t = NEVER else t = max(t, e) end
    local queue = l.booked_at
    if mode == RESERVE and queue and queue[1] and t ~= NEVER then
      t, queued = max(t, queue[#queue]), queued or #queue >= BOOKINGS
    end
  end
  if t > now then t = fit(t) end
  retry = t == NEVER and NEVER or t - now
  local allowed = t == now
  if mode == RESERVE and t > now then
    allowed = not queued and (longest == 0 or retry <= longest)
  end

  if banned then
    flags, decider, retry = BANNED, banned, bans[banned].til - now
  elseif allowed then
    flags = ALLOWED
    for i = 1, looking and 0 or #limits do
      local l = limits[i]
      if l.cost > 0 then
        at = t
        if t == now then l.of.charge(l, id) else whole(l).reserve(l, t) end
      end
    end
    if at > 0 and id_key and limits[1].cost > 0 and not seen then
      id_record(id_key, ARGV[2], at, life)
    end
  else
    local l = limits[1]
    for i = #limits, 1, -1 do
      if limits[i].retry ~= 0 then l = limits[i] end
    end
    decider = l.claim
    if after > 0 and mode == TAKE and l.cost > 0 then
      local durations = {}
      for i = 1, steps do durations[i] = unpack_at('>i8', ARGV[1], rest + (i - 1) * 8) end
      local ban = strike(KEYS[strikes + decider], bans[decider],
        { after = after, within = within, forgive = forgive, durations = durations })
      if ban then
        flags, ban.moved, bans[decider] = BANNED, true, ban
        if retry ~= NEVER then retry = max(retry, ban.til - now) end
      end
    end
  end
end

-- Whatever the verdict, state that was ahead of the clock is brought back, and no
-- key that denied stays without a TTL.
if not looking then
  for c, ban in pairs(bans) do
    if ban.moved then ban_save(ban_keys[c], ban) end
  end
  for i = 1, #limits do
    local l = limits[i]
    if l.heal then
      whole(l).save(l)
    elseif at == 0 and l.retry ~= 0 and call('PTTL', l.key) == -1 then
      call('PEXPIRE', l.key, ttl(l.of.reset(l) + l.window * l.times))
    end
  end
end

local reply = { pack('>c8i8BBi8i8B', id, now, flags, decider - 1, retry, at, #limits) }
for i = 1, #limits do
  local l = limits[i]
  reply[i + 1] = pack('>i8i8i8', l.of.used(l), l.of.reset(l), l.retry or 0)
end
return table.concat(reply)
