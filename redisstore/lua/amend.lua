-- amend changes what an earlier decision charged.
--
-- KEYS     per claim its settled charges, and the state or the holders of each part; with a
--          request id the ids of the first claim
-- ARGV[1]  see start.lua; kind (1 byte), true cost, largest debt (0: one capacity), charge id (8 bytes), life of the request id,
--          not-after (0: none), claims that may take places back (2 bytes, the lowest bit for the first), number of claims
--          (1); per claim its cost, the time of its charge and number of parts (1); per part its set (1; 0: holders) and generation
--          (4 bytes), or of holders their window
-- ARGV[2]  request id, if there is one
-- Reply    call id, now, 1 if it came too late (1 byte), to which claims it applied (2 bytes, as above): an extension, if all of
--          the claim's places are held

local SETTLE, EXTEND = 0, 1 -- stint.AmendmentKind, else Release
local UNDO, APART = 100, 101 -- see split.go, apart.go: settles, unless that may have been done; settles, and neither looks nor remembers
local SETTLED = 1000         -- stint.MaxSettled

local ceil, max = math.ceil, math.max
local G = general(now, generation, sets)
local kind, cost, debt, id, life, late, retake, claims
kind, cost, debt, id, life, late, retake, claims, pos = unpack_at('<Bddc8ddI2B', args, pos)
if late > 0 and now > late then return pack('<c8dBI2', args, now, 1, 0) end

local settles = kind == SETTLE or kind == UNDO or kind == APART

-- settled says whether the charge is known to be settled, or to undo it, whether it may have been and is forgotten.
local function settled(key, at)
  local known = try('ZSCORE', key, id)
  if type(known) == 'table' then
    G.discard(key)
    return false
  end
  if known or kind ~= UNDO or call('ZCARD', key) < SETTLED then return known end
  return at <= tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
end

-- remember keeps a settled charge for as long as one of its limits could know it.
local function remember(key, at, horizon)
  call('ZADD', key, at, id)
  if call('ZCARD', key) > SETTLED then call('ZREMRANGEBYRANK', key, 0, 0) end
  call('PEXPIRE', key, max(call('PTTL', key), G.ttl(max(0, at - now) + horizon)))
end

-- amend_holders applies the amendment to a place.
local function amend_holders(key, window, claim)
  local l = G.open_holders(key, 0, window, 0)
  if kind == EXTEND then
    return l.of.extend(l, id, function()
      local limit = key:sub(#claim.settled - #'settled' + 1)
      return claim.retake and not settled(claim.settled, claim.at) and not G.was_reset(claim.settled, limit, window, claim.at)
    end)
  end
  return (not settles or cost == 0) and l.of.release(l, id)
end

-- amend_state settles all limits of a state. It returns whether that applied, for how long after its time the charge can
-- be settled, and whether somebody may remember a denial that this ends: those with a cost above half of a limit do not,
-- see resilience.DenyCache, so the limit was more than half used.
local function amend_state(key, set, charged, at, of)
  local st, asked = G.open_state(key, set, charged)
  local applied, horizon, tight = false, 0, false
  if st.generation ~= of then return false, 0, false end
  for _, l in ipairs(asked) do
    local crowded = #l.booked > 0 or 2 * G.L.used(l) > l.cap
    if G.L.settle(l, at, cost, debt) then applied, tight = true, tight or crowded end
    horizon = max(horizon, l.width > 0 and l.span + l.slice or l.unit and (ceil(l.cap * l.unit / l.rate) + 1) * l.tick or 0)
  end
  if applied then G.save(st) end
  return applied, horizon, tight
end

-- Read it all first: two claims may share a subject.
local todo, keys = {}, 0
for c = 1, claims do
  local charged, at, parts
  charged, at, parts, pos = unpack_at('<ddB', args, pos)
  local claim = { settled = KEYS[keys + 1], charged = charged, at = at, retake = floor(retake / 2 ^ (c - 1)) % 2 == 1 }
  keys = keys + 1
  for p = 1, parts do
    local which, of
    which, pos = unpack_at('B', args, pos)
    if which == 0 then of, pos = unpack_at('<d', args, pos) else of, pos = unpack_at('<I4', args, pos) end
    keys = keys + 1
    claim[p] = { key = KEYS[keys], set = sets[which], of = of }
  end
  claim.open = charged > 0 and not ((kind == SETTLE or kind == UNDO) and settled(claim.settled, at))
  todo[c] = claim
end
local id_key = KEYS[keys + 1]
local changed = 0

-- A request that was repeated has been used more than once: it is not given back.
if kind == SETTLE and cost == 0 and id_key then
  local _, repeats = G.id_open(id_key, ARGV[2], life)
  if repeats and repeats > 0 then return pack('<c8dBI2', args, now, 0, 0) end
end

for c, claim in ipairs(todo) do
  local applied, missed, room, horizon = false, false, false, 0
  for _, part in ipairs(claim.open and claim or {}) do
    if not part.set then
      if amend_holders(part.key, part.of, claim) then applied, horizon = true, max(horizon, part.of) else missed = true end
    elseif settles then
      local yes, reach, tight = amend_state(part.key, part.set, claim.charged, claim.at, part.of)
      applied, room, horizon = applied or yes, room or tight, max(horizon, reach)
    end
  end
  if applied and not (kind == EXTEND and missed) then
    changed = changed + 2 ^ (c - 1)
    if kind == SETTLE or kind == UNDO then remember(claim.settled, claim.at, horizon) end
    -- Places come and go all the time, and nobody remembers that there was none.
    if room and cost < claim.charged then G.announce(claim.settled, '+') end
  end
end
if changed > 0 and kind == SETTLE and cost == 0 and id_key then try('ZREM', id_key, ARGV[2]) end
return pack('<c8dBI2', args, now, 0, changed)
