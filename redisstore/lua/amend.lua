-- amend changes what an earlier decision charged.
--
-- KEYS     per claim its settled charges, then the state or the holders of each of its parts;
--          with a request id, last, the request ids of the first claim
-- ARGV[1]  see start.lua; then
--            kind (1 byte)
--            true cost, units
--            largest debt, units (0: one capacity)
--            charge id (8 bytes)
--            life of the request id
--            not-after (0: none)
--            claims that may take places back or, of SETTLE_ONE_KEY, were not reset (2 bytes, the
--            lowest bit for the first)
--            number of claims (1), and per claim
--              its cost, units
--              the time of its charge
--              number of parts (1), and per part its set (1; 0: holders) and its generation (4) or,
--              of holders, their window
-- ARGV[2]  request id, if there is one
-- Reply    call id (8), now, 1 if it came too late (1), the claims to which it applied (2, as above;
--          an extension applies if all places of the claim are held), and the units that a
--          settlement left charged: the least of the limits to which it applied (0: none)
-- @include start

local ceil, max, min = math.ceil, math.max, math.min
local G = general(now, generation, sets)
local kind, cost, debt, id, life, late, retake, claims
kind, cost, debt, id, life, late, retake, claims, pos = unpack_at('<Bddc8ddI2B', args, pos)
if late > 0 and now > late then return pack('<c8dBI2d', args, now, 1, 0, 0) end

local least -- units that are charged after settling
local settles = kind == SETTLE or kind == UNDO or kind == SETTLE_ONE_KEY

-- settled reports whether the charge is known to be settled; for UNDO, also whether it may have
-- been and is forgotten.
local function settled(key, at)
  local known = try('ZSCORE', key, id)
  if type(known) == 'table' then
    G.discard(key)
    return false
  end
  if known or kind ~= UNDO or call('ZCARD', key) < MAX_SETTLED then return known end
  return at <= tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
end

-- remember keeps a settled charge for as long as one of its limits could know it, or raise it.
local function remember(key, at, horizon)
  call('ZADD', key, at, id)
  if call('ZCARD', key) > MAX_SETTLED then call('ZREMRANGEBYRANK', key, 0, 0) end
  call('PEXPIRE', key, max(call('PTTL', key), G.ttl(max(max(0, at - now) + horizon, at + LATE_SETTLE - now))))
end

-- amend_holders applies the amendment to the holders of a limit. It reports whether it did.
local function amend_holders(key, window, claim)
  local l = G.open_holders(key, 0, window, 0)
  if kind == EXTEND then
    return l.of.extend(l, id, function()
      local limit = key:sub(#claim.settled - #'settled' + 1)
      return claim.retake and not settled(claim.settled, claim.at)
        and not G.was_reset(claim.settled, limit, window, claim.at)
    end)
  end
  if settles and cost > 0 or not l.of.release(l, id) then return false end
  if settles then least = 0 end
  return true
end

-- may_raise reports whether what a claim really cost more is charged to a state that does not have
-- its charge: not if that was lost in a reset.
local function may_raise(key, claim)
  if cost <= claim.charged or now >= claim.at + LATE_SETTLE then return false end
  if kind == SETTLE_ONE_KEY then return claim.retake end
  return not G.was_reset(claim.settled, key:sub(#claim.settled - #'settled' + 1), LATE_SETTLE, claim.at)
end

-- amend_state settles all limits of a state. It returns whether that applied, for how long after
-- its time the charge can be settled, and whether somebody may remember a denial that this ends:
-- only if more than half of the limit was used, for denials of a cost above half of a limit are not
-- remembered (package resilience).
local function amend_state(key, set, claim, of)
  local st, asked = G.open_state(key, set, claim.charged)
  local applied, horizon, tight = false, 0, false
  local known, raises = st.generation == of, may_raise(key, claim)
  for _, l in ipairs((known or raises) and asked or {}) do
    local crowded = #l.booked > 0 or 2 * G.L.used(l) > l.cap
    local units = known and G.L.settle(l, claim.at, cost, debt)
    if not units and raises then units = G.L.raise(l, cost, debt) end
    if units then applied, tight, least = true, tight or crowded, min(least or units, units) end
    if l.width > 0 then
      horizon = max(horizon, l.span + l.slice)
    elseif l.unit then
      horizon = max(horizon, (ceil(l.cap * l.unit / l.rate) + 1) * l.tick)
    end
  end
  if applied then G.save(st) end
  return applied, horizon, tight
end

-- Read it all first: two claims may share a subject.
local todo, keys = {}, 0
for c = 1, claims do
  local charged, at, parts
  charged, at, parts, pos = unpack_at('<ddB', args, pos)
  local may_retake = floor(retake / 2 ^ (c - 1)) % 2 == 1
  local claim = { settled = KEYS[keys + 1], charged = charged, at = at, retake = may_retake }
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
  if repeats and repeats > 0 then return pack('<c8dBI2d', args, now, 0, 0, 0) end
end

for c, claim in ipairs(todo) do
  local applied, missed, room, horizon = false, false, false, 0
  for _, part in ipairs(claim.open and claim or {}) do
    if not part.set then
      if amend_holders(part.key, part.of, claim) then
        applied, horizon = true, max(horizon, part.of)
      else
        missed = true
      end
    elseif settles then
      local yes, reach, tight = amend_state(part.key, part.set, claim, part.of)
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
if changed > 0 and kind == SETTLE and cost == 0 and id_key then G.id_forget(id_key, ARGV[2]) end
return pack('<c8dBI2d', args, now, 0, changed, least or 0)
