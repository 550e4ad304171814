-- amend changes what an earlier decision charged.
--
-- KEYS     per claim: its settled charges, then one key per limit;
--          with a request id: the ids of the first claim
-- ARGV[1]  call id, clock, kind, true cost, charge id
--          (8 bytes), time of the charge, claims; per claim its cost (8), number of
--          limits (1) and their specs (limit.lua)
-- ARGV[2]  request id, if there is one
-- Reply    call id, 1 if anything changed, else 0

local SETTLE, EXTEND = 0, 1               -- stint.AmendmentKind; else Release
local SETTLED = 1000                      -- stint.MaxSettled

local ceil, max = math.ceil, math.max
local kind, cost, id, at, claims, pos = unpack_at('>Bi8c8i8B', args, 17)
local R = rest(now, false)

-- settled says whether the charge is known to be settled, or too old to tell.
local function settled(key)
  local known = try('ZSCORE', key, id)
  if type(known) == 'table' then
    R.discard(key)
    return false
  end
  if known then return true end
  return call('ZCARD', key) >= SETTLED and at <= tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
end

-- remember keeps a settled charge for as long as one of its limits could know it.
local function remember(key, life)
  call('ZADD', key, at, id)
  if call('ZCARD', key) > SETTLED then call('ZREMRANGEBYRANK', key, 0, 0) end
  call('PEXPIRE', key, max(call('PTTL', key), R.ttl(max(0, at - now) + life)))
end

-- horizon is how long after its time a charge can still be settled.
local function horizon(l)
  if l.rate then return l.rate > 0 and ceil(l.cap * l.unit / l.rate) or 0 end
  return l.span and l.span + l.slice or l.window
end

-- amend_limit applies the amendment to one limit and reports whether it did.
local function amend_limit(l)
  if kind == SETTLE then return l.of.settle(l, at, cost - l.cost, id) end
  if not l.places then return false end
  if kind == EXTEND then return l.of.extend(l, id) end
  return l.of.release(l, id)
end

-- Which claims may be amended, before any of them is: two may share a subject.
local open, keys, at_claim = {}, 0, pos
for c = 1, claims do
  local charged, n, next_claim = unpack_at('>i8B', args, at_claim)
  open[c] = charged > 0 and not (kind == SETTLE and settled(KEYS[keys + 1]))
  keys, at_claim = keys + 1 + n, next_claim + n * 33
end

local changed = 0
keys = 0
for c = 1, claims do
  local charged, n
  charged, n, pos = unpack_at('>i8B', args, pos)
  if open[c] then
    local applied, room, life = false, false, 0
    for i = 1, n do
      local l = R.open_limit(args, pos + (i - 1) * 33, KEYS[keys + 1 + i], charged)
      life = max(life, horizon(l))
      if amend_limit(l) then applied, room = true, room or not l.places end
    end
    if applied then
      changed = 1
      if kind == SETTLE then remember(KEYS[keys + 1], life) end
      -- Places come and go all the time, and nobody remembers that there was none.
      if room and cost < charged then R.announce(KEYS[keys + 1], '+') end
    end
  end
  keys, pos = keys + 1 + n, pos + n * 33
end
if changed == 1 and kind == SETTLE and cost == 0 and KEYS[keys + 1] then
  try('ZREM', KEYS[keys + 1], ARGV[2])
end
return pack('>c8B', args, changed)
