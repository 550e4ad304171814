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
-- Reply    call id, now, flags (1 allowed, 2 repeat, 4 banned), deciding claim,
--          retry-after, time of the charge (0: none), number of limits; then for each
--          used, reset-after, retry-after

local id, clock, mode, longest, life, claims, after, within, forgive, steps, steps_at =
  unpack_at('>c8i8Bi8i8BBi8i8B', ARGV[1])
local TAKE, PEEK, RESERVE, NEVER = 0, 1, 2, -1 -- stint.Mode, stint.Never
if clock == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
else
  now = clock -- a test's
end
looking = mode == PEEK

-- Open everything, in the order of the keys.
local limits, count, bans, ban_keys, keys, banned = {}, 0, {}, {}, 0, nil
for c = 1, claims do
  local spec = ARGV[c + 2]
  local cost, n = unpack_at('>i8B', spec)
  local ban_key = KEYS[keys + 1]
  local s = try('GET', ban_key)
  if s then
    local ban = rest().ban_open(ban_key, s)
    bans[c] = ban
    if ban and ban.til > now and not banned then banned = c end
  end
  ban_keys[c] = ban_key
  for i = 1, n do
    local l = open_limit(spec, i, KEYS[keys + 1 + i], cost)
    count = count + 1
    l.claim, limits[count] = c, l
  end
  keys = keys + 1 + n
end
local id_key = KEYS[keys + (after > 0 and claims or 0) + 1]
local seen, repeats
if id_key and not banned and limits[1].cost > 0 then
  seen, repeats = rest().id_open(id_key, ARGV[2], life)
end

local flags, decider, retry, at = 0, 1, 0, 0
if seen and repeats < 8 then -- stint.MaxRepeats
  flags, retry = 2, seen > now and seen - now or 0
  if mode ~= TAKE or retry == 0 then
    flags = 3
    if not looking then call('ZINCRBY', id_key, 1, ARGV[2]) end
  end
else
  -- t is the first instant that suits all limits.
  local t, before, full = now, nil, false
  for i = 1, count do
    local l = limits[i]
    local e = (l.of and l.of.earliest or log_earliest)(l, now, l.cost)
    l.retry = e == NEVER and NEVER or e - now
    if e == NEVER then t = NEVER elseif t ~= NEVER and e > t then t = e end
    local queue = l.booked_at
    if mode == RESERVE and queue and queue[1] and t ~= NEVER then
      if queue[#queue] > t then t = queue[#queue] end -- first come, first served
      full = full or #queue >= 1000 -- stint.MaxBookings
    end
  end
  while t > now and t ~= before do
    before = t
    for i = 1, count do
      local l = limits[i]
      local e = (l.of and l.of.earliest or log_earliest)(l, t, l.cost)
      if e > t then t = e end
    end
  end
  retry = t == NEVER and NEVER or t - now
  local allowed = t == now
  if mode == RESERVE and t > now then
    allowed = not full and (longest == 0 or retry <= longest)
  end

  if banned then
    flags, decider, retry = 4, banned, bans[banned].til - now
  elseif allowed then
    flags = 1
    for i = 1, looking and 0 or count do
      local l = limits[i]
      if l.cost > 0 then
        at = t
        if t > now then
          rest().reserve(l, t)
        else
          (l.of and l.of.charge or log_charge)(l, id)
        end
      end
    end
    if at > 0 and id_key and limits[1].cost > 0 and not seen then
      rest().id_record(id_key, ARGV[2], at, life)
    end
  else
    local l = limits[1]
    for i = count, 1, -1 do
      if limits[i].retry ~= 0 then l = limits[i] end
    end
    decider = l.claim
    if after > 0 and mode == TAKE and l.cost > 0 then
      local policy = { after = after, within = within, forgive = forgive, durations = {} }
      for i = 1, steps do policy.durations[i] = unpack_at('>i8', ARGV[1], steps_at + (i - 1) * 8) end
      local ban = rest().strike(KEYS[keys + decider], bans[decider], policy)
      if ban then
        flags, bans[decider] = 4, ban
        if retry ~= NEVER and ban.til - now > retry then retry = ban.til - now end
      end
    end
  end
end

-- Whatever the verdict, state that was ahead of the clock is brought back, and no
-- key that denied stays without a TTL.
if not looking then
  for c, ban in pairs(bans) do
    if ban.moved then rest().ban_save(ban_keys[c], ban) end
  end
  for i = 1, count do
    local l = limits[i]
    if l.heal then
      rest().save(l)
    elseif at == 0 and l.retry ~= 0 and call('PTTL', l.key) == -1 then
      if not l.of and not l.at then rest().log.load(l) end
      call('PEXPIRE', l.key, rest().ttl(rest().reset(l)))
    end
  end
end

local reply = pack('>c8i8BBi8i8B', id, now, flags, decider - 1, retry, at, count)
for i = 1, count do
  local l = limits[i]
  local used, reset = l.sum, 0
  if l.of or l.at then
    used, reset = rest().used(l), rest().reset(l)
  elseif used > 0 then
    local back_at = l.moved and l.moved.back_at or HEAD + 1
    reset = unpack_at('>I7', l.s, back_at + (l.nb - 1) * (7 + l.width)) + l.span - now
  end
  reply = reply .. pack('>i8i8i8', used, reset, l.retry or 0)
end
return reply
