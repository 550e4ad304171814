-- amend changes what earlier decisions charged, each on its own: if one fails, the others do not.
--
-- KEYS     per amendment, per claim its settled charges, then the state or the holders of each of
--          its parts; with a request id, last, the request ids of the first claim
-- ARGV[1]  see start.lua; then the number of amendments (2 bytes), and per amendment
--            kind (1)
--            true cost, units
--            largest debt, units (0: one capacity)
--            charge id (8)
--            life of the request id
--            not-after (0: none)
--            claims that may take places back (2, the lowest bit for the first)
--            1 if there is a request id (1)
--            number of claims (1), and per claim
--              its cost, units
--              the time of its charge
--              number of parts (1), and per part its set (1; 0: holders) and its generation (4) or,
--              of holders, their window
-- ARGV[2…] the request ids
-- Reply    call id (8), now; then per amendment FAILED (1), length of a message (2), message; or
--            1 if it came too late, else 0 (1)
--            the claims to which it applied (2, as above; an extension applies if all places of the
--            claim are held)
--            the units that a settlement left charged: the least of the limits to which it applied
--            (0: none)

local base, next_id = 0, 2 -- the keys before an amendment's own, and the next request id

-- read_amendment reads the amendment that begins at pos: an array of claims, which are arrays of
-- parts. The nil makes room for the first: to make it later costs as much as a command.
local function read_amendment()
  local kind, cost, debt, charge_id, life, late, retake, has_id, claims, at =
    struct.unpack('<Bddc8ddI2BB', args, pos)
  local a = { nil, kind = kind, cost = cost, debt = debt, charge_id = charge_id, life = life, late = late, id = false,
    id_key = false, settles = kind == SETTLE or kind == UNDO, whole = false, writing = false, least = false }
  for i = 1, claims do
    local claim_cost, charged_at, parts
    claim_cost, charged_at, parts, at = struct.unpack('<ddB', args, at)
    local claim = { nil, settled = KEYS[base + 1], retake = retake % 2 == 1, cost = claim_cost, at = charged_at,
      open = false, applied = false, tight = false, horizon = 0 }
    retake, base = math.floor(retake / 2), base + 1
    for p = 1, parts do
      local set, of = sets[args:byte(at)], nil
      of, at = struct.unpack(set and '<I4' or '<d', args, at + 1) -- generation or window
      claim[p] = { key = KEYS[base + p], set = set, of = of, st = false }
    end
    base, a[i] = base + parts, claim
  end
  if has_id == 1 then
    a.id, a.id_key, next_id, base = ARGV[next_id], KEYS[base + 1], next_id + 1, base + 1
  end
  pos = at
  return a
end

-- settled reports whether a charge is known to be settled; for UNDO, also whether it may have been
-- and is forgotten.
local function settled(a, claim)
  local key = claim.settled
  local known = redis.pcall('ZSCORE', key, a.charge_id)
  if type(known) == 'table' then
    redis.call('DEL', key) -- it is no sorted set
    return false
  end
  if known or a.kind ~= UNDO or redis.call('ZCARD', key) < MAX_SETTLED then return known end
  return claim.at <= tonumber(redis.call('ZRANGE', key, '0', '0', 'WITHSCORES')[2])
end

-- remember keeps a settled charge for as long as one of its limits could know it, or raise it.
local function remember(a, claim)
  local key, at = claim.settled, claim.at
  redis.call('ZADD', key, ('%d'):format(at), a.charge_id)
  if redis.call('ZCARD', key) > MAX_SETTLED then redis.call('ZREMRANGEBYRANK', key, '0', '0') end
  keep(key, math.max(math.max(0, at - now) + claim.horizon, at + LATE_SETTLE - now))
end

-- limit_of is how the key of a part ends: the limit, or the state.
local function limit_of(claim, part) return part.key:sub(#claim.settled - #'settled' + 1) end

-- amend_holders renews a place, or takes back one that was lost if that may be, or gives it up. It
-- reports whether it did.
local function amend_holders(a, claim, part)
  holders = holders or make_holders()
  local c = holders.open(part.key, 0, part.of)
  local score = redis.call('ZSCORE', part.key, a.charge_id)
  local held = score and tonumber(score) > now
  if a.kind == EXTEND then
    if not held and (not claim.retake or settled(a, claim)
      or was_reset(claim.settled, limit_of(claim, part), part.of, claim.at)) then return false end
    holders.hold(c, a.charge_id)
    return true
  end
  if not held or a.settles and a.cost > 0 then return false end
  holders.heal(c)
  redis.call('ZREM', part.key, a.charge_id)
  if a.settles then a.least = 0 end
  return true
end

-- may_raise reports whether what a claim really cost more is charged to a state that does not have
-- its charge: not if that was lost in a reset.
local function may_raise(a, claim, part)
  return a.cost > claim.cost and now < claim.at + LATE_SETTLE
    and not was_reset(claim.settled, limit_of(claim, part), LATE_SETTLE, claim.at)
end

-- settle_part settles all limits of a state, which is yet to be written. It notes for how long
-- after its time the charge can be settled, and whether somebody may remember a denial that this
-- ends: only if more than half of the limit was used, for denials of a cost above half of a limit
-- are not remembered (package resilience).
local function settle_part(a, claim, part)
  local whole, st, least, horizon, tight = a.whole, nil, nil, 0, false
  if whole then
    local counts
    local raises = may_raise(a, claim, part)
    st, counts = whole.open(part.key, part.set, a.states[part.key])
    if st[GENERATION] == part.of or raises then
      least, horizon, tight = whole.settle(counts, a, claim, st[GENERATION] == part.of, raises)
    end
  else
    if a.states and a.states[part.key] then error('rare') end
    st = read_state(part.key, part.set, 0, 1, now, generation)
    if st[VALUE] ~= '' and st[GENERATION] == part.of then
      least, horizon, tight, part.need = settle(st, a, claim)
    elseif a.cost > claim.cost then
      error('rare') -- it may be raised
    end
  end
  claim.horizon = math.max(claim.horizon, horizon)
  if least then
    if a.states then a.states[part.key] = st end
    part.st, claim.applied = st, true
    claim.tight, a.least = claim.tight or tight, math.min(a.least or least, least)
  end
end

-- write_part writes a state that was settled.
local function write_part(a, part)
  if a.whole then
    a.whole.save_once(part.st)
  elseif part.need then
    write(part.st, part.need, now)
  else
    redis.call('DEL', part.key)
  end
end

-- finish amends the places of a claim, and notes that it is settled. It reports whether anything
-- applied.
local function finish(a, claim)
  local missed = false
  for _, part in ipairs(claim) do
    if not part.set then
      if amend_holders(a, claim, part) then
        claim.applied, claim.horizon = true, math.max(claim.horizon, part.of)
      else
        missed = true
      end
    end
  end
  if not claim.applied or a.kind == EXTEND and missed then return false end
  if a.settles then remember(a, claim) end
  -- Places come and go all the time, and nobody remembers that there was none.
  if claim.tight and a.cost < claim.cost then announce(claim.settled, '+') end
  return true
end

-- amend carries out an amendment. Nothing is written before all states are settled.
local function amend(a)
  if a.late > 0 and now > a.late then return struct.pack('<BI2d', 1, 0, 0) end
  a.states, a.least = (a.whole or #a > 1) and {}, false -- by key: two claims may share one
  for i = 1, #a do -- all of them first: two claims may share a subject
    local claim = a[i]
    claim.open = claim.cost > 0 and not (a.settles and settled(a, claim))
    claim.applied, claim.tight, claim.horizon = false, false, 0
  end
  -- A request that was repeated has been used more than once: it is not given back.
  local forgets = a.id_key and a.kind == SETTLE and a.cost == 0
  if forgets then
    ids = ids or make_ids()
    local _, repeats = ids.open(a.id_key, a.id, a.life)
    if repeats and repeats > 0 then return struct.pack('<BI2d', 0, 0, 0) end
  end
  for i = 1, #a do
    local claim = a[i]
    for p = 1, #claim do
      claim[p].st = false
      if claim.open and a.settles and claim[p].set then settle_part(a, claim, claim[p]) end
    end
  end
  a.writing = true
  local applied = 0
  for i = 1, #a do
    for p = 1, #a[i] do
      if a[i][p].st then write_part(a, a[i][p]) end
    end
  end
  for i = 1, #a do
    if a[i].open and finish(a, a[i]) then applied = applied + 2 ^ (i - 1) end
  end
  if forgets and applied > 0 then ids.forget(a.id_key, a.id) end
  return struct.pack('<BI2d', 0, applied, a.least or 0)
end

local out, amendments = { struct.pack('<c8d', args, now) }, nil
amendments, pos = struct.unpack('<I2', args, pos)
for _ = 1, amendments do
  local a = read_amendment()
  local ok, reply = pcall(amend, a)
  if not ok and not a.writing then -- it is rare, or a state is damaged
    whole = whole or make_whole()
    a.whole = whole
    ok, reply = pcall(amend, a)
  end
  if not ok then
    local message = type(reply) == 'table' and reply.err or reply
    reply = struct.pack('<BI2', FAILED, #message) .. message
  end
  out[#out + 1] = reply
end
return table.concat(out)
