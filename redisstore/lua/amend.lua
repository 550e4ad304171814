-- amend changes what earlier decisions charged, each on its own: if one fails, the others do not.
--
-- KEYS     per amendment, per claim its settled charges, then the state or the holders of each of
--          its parts, of a state with its holds if the charge has some; with a request id, last, the
--          request ids of the first claim
-- ARGV[1]  see start.lua; then per amendment
--            kind (1 byte)
--            1 if all is given back (1)
--            1 if parts have true costs of their own (1)
--            life of its holds (0: it has none)
--            largest debt, units (0: one capacity)
--            charge id (8)
--            life of the request id
--            not-after (0: none)
--            claims that may take places back (2, the lowest bit for the first)
--            1 if there is a request id (1)
--            number of claims (1), and per claim
--              the time of its charge
--              number of parts (1), and per part its set (1; 0: holders), cost, true cost (-1: it
--              stays as it is), and its generation (4) or, of holders, their window
-- ARGV[2…] the request ids
-- Reply    call id (8), now; then per amendment FAILED (1), length of a message (2), message; or
--            1 if it came too late, else 0 (1)
--            the claims to which it applied (2, as above; an extension applies if all places of the
--            claim are held or, if it has none, all of its holds are open)
--            the true cost of a settlement where it applied, that of all names together if parts
--            have their own
--            units of it that were not charged: the most of any limit

local base, next_id = 0, 2 -- the keys before an amendment's own, and the next request id

-- read_amendment reads the amendment that begins at pos: an array of claims, which are arrays of
-- parts. The nil makes room for the first: to make it later costs as much as a command.
local function read_amendment()
  local kind, refund, several, life, debt, charge_id, id_life, not_after, retake, has_id, claims, at =
    struct.unpack('<BBBddc8ddI2BB', args, pos)
  local a = { nil, kind = kind, refund = refund == 1, several = several == 1, life = life > 0 and life, debt = debt,
    charge_id = charge_id,
    id_life = id_life, not_after = not_after, id = false, id_key = false, settles = kind == SETTLE or kind == UNDO,
    whole = false, writing = false, dropped = 0, total = 0, named = false, found = false }
  for i = 1, claims do
    local charged_at, parts
    charged_at, parts, at = struct.unpack('<dB', args, at)
    local claim = { nil, settled = KEYS[base + 1], retake = retake % 2 == 1, at = charged_at, open = false,
      applied = false, tight = false, lowers = false, horizon = 0 }
    retake, base = math.floor(retake / 2), base + 1
    for p = 1, parts do
      local which, cost, total, of
      which, cost, total, at = struct.unpack('<Bdd', args, at)
      of, at = struct.unpack(which > 0 and '<I4' or '<d', args, at) -- generation or window
      base = base + 1
      claim[p] = { key = KEYS[base], set = sets[which], of = of, cost = cost, total = total, at = charged_at,
        st = false, holds = false, put = false, extended = false }
      if life > 0 and which > 0 then
        base = base + 1
        claim[p].holds = KEYS[base]
      end
      claim.lowers = claim.lowers or total >= 0 and total < cost
    end
    a[i] = claim
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

-- remember keeps a settled charge for as long as one of its limits could know it.
local function remember(a, claim)
  local key, at = claim.settled, claim.at
  redis.call('ZADD', key, ('%d'):format(at), a.charge_id)
  if redis.call('ZCARD', key) > MAX_SETTLED then redis.call('ZREMRANGEBYRANK', key, '0', '0') end
  keep(key, math.max(0, at - now) + claim.horizon)
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
  if not held or a.settles and part.total ~= 0 then return false end
  holders.heal(c)
  redis.call('ZREM', part.key, a.charge_id)
  return true
end

-- open_part returns the state of a part, and its counts if it is read as a whole.
local function open_part(a, part)
  if a.whole then return a.whole.open(part.key, part.set, a.states[part.key]) end
  if a.states and a.states[part.key] then error('rare') end
  return (read_state(part.key, part.set, 0, 1, now, generation))
end

-- settled_to notes the true cost of a part. If parts have their own, that of each name counts once.
local function settled_to(a, claim, part, total)
  if not a.several then
    a.total = math.max(a.total, total)
    return
  end
  local name = limit_of(claim, part)
  local before = a.named[name] or 0
  a.named[name] = math.max(before, total)
  a.total = a.total + a.named[name] - before
end

-- settle_part settles all limits of a state, which is yet to be written. It notes for how long
-- after its time the charge can be settled, and whether somebody may remember a denial that this
-- ends: only if more than half of the limit was used, for denials of a cost above half of a limit
-- are not remembered (package resilience).
local function settle_part(a, claim, part)
  local st, counts = open_part(a, part)
  local dropped, horizon, tight = nil, 0, false
  if st[VALUE] ~= '' and st[GENERATION] == part.of then
    if counts then
      dropped, horizon, tight = a.whole.settle(counts, a, part)
    else
      dropped, horizon, tight, part.need = settle(st, a, part)
    end
  end
  claim.horizon = math.max(claim.horizon, horizon)
  if dropped then
    if a.states then a.states[part.key] = st end
    part.st, claim.applied = st, true
    settled_to(a, claim, part, part.total)
    claim.tight, a.dropped = claim.tight or tight, math.max(a.dropped, dropped)
  end
end

-- amend_hold settles or extends the hold of a state, which is yet to be written.
local function amend_hold(a, claim, part)
  local expires, _, reported = get_hold(part.holds, a.charge_id)
  if not expires or a.settles and part.total < 0 then return end
  local st, counts = open_part(a, part)
  local known = st[VALUE] ~= '' and st[GENERATION] == part.of
  local h = { cost = part.cost, at = part.at, total = math.max(part.total, reported), expires = expires,
    reported = reported, open = expires > now, known = known, debt = a.debt,
    til = a.kind == EXTEND and expiry(now, a.life) }
  local dropped, tight
  if counts then
    dropped, tight = a.whole.amend_holds(counts, h)
  else
    dropped, tight, part.need = amend_holds(st, h)
  end
  if a.states then a.states[part.key] = st end
  if a.kind == EXTEND then
    part.put = { h.open and h.til or expires, h.til + a.life, h.total }
    claim.expired = claim.expired or not h.open
  else
    part.put = true
    settled_to(a, claim, part, h.total)
  end
  part.st, part.extended, claim.applied, claim.tight, a.found = st, true, true, claim.tight or tight, true
  a.dropped = math.max(a.dropped, dropped)
end

-- put_holds writes what has become of the holds of a claim.
local function put_holds(a, claim)
  for _, part in ipairs(claim) do
    local put = part.put
    if put == true then
      redis.call('HDEL', part.holds, a.charge_id)
    elseif put then
      put_hold(part.holds, a.charge_id, put[1], put[2], put[3])
    end
  end
end

-- write_part writes a state that was settled.
local function write_part(a, part)
  if a.whole then
    a.whole.save_once(part.st)
  else
    write(part.st, part.need, now)
  end
end

-- finish amends the places of a claim and its holds, and notes that it is settled. It reports
-- whether anything applied: of an extension whether all places are held or, without places, all
-- holds are open.
local function finish(a, claim)
  local missed, places = false, false
  for _, part in ipairs(claim) do
    if not part.set and part.cost > 0 then
      places = true
      if amend_holders(a, claim, part) then
        claim.applied, claim.horizon = true, math.max(claim.horizon, part.of)
      else
        missed = true
      end
    elseif part.holds and part.cost > 0 and not part.extended then
      claim.expired = true
    end
  end
  if a.life then put_holds(a, claim) end
  if a.kind == EXTEND then return claim.applied and not missed and (places or not claim.expired) end
  if not claim.applied then return false end
  if a.settles and not a.life then remember(a, claim) end
  -- Places come and go all the time, and nobody remembers that there was none.
  if claim.tight and claim.lowers then announce(claim.settled, '+') end
  return true
end

-- amend carries out an amendment. Nothing is written before all states are settled.
local function amend(a)
  if a.not_after > 0 and now > a.not_after then return struct.pack('<BI2dd', 1, 0, 0, 0) end
  a.states, a.dropped, a.total = (a.whole or #a > 1) and {}, 0, 0 -- by key: two claims may share one
  a.named = a.several and {}
  for i = 1, #a do -- all of them first: two claims may share a subject
    local claim = a[i]
    claim.open = a.life or not (a.settles and settled(a, claim))
    claim.applied, claim.tight, claim.horizon, claim.expired = false, false, 0, false
  end
  -- A request that was repeated has been used more than once: it is not given back.
  local forgets = a.id_key and a.kind == SETTLE and a.refund
  if forgets then
    ids = ids or make_ids()
    local _, repeats = ids.open(a.id_key, a.id, a.id_life)
    if repeats and repeats > 0 then return struct.pack('<BI2dd', 0, 0, 0, 0) end
  end
  for i = 1, #a do
    local claim = a[i]
    for p = 1, #claim do
      local part = claim[p]
      part.st, part.put, part.extended = false, false, false
      if claim.open and part.set and part.cost > 0 then
        if a.life then
          if a.kind ~= RELEASE then amend_hold(a, claim, part) end
        elseif a.settles and part.total >= 0 then
          settle_part(a, claim, part)
        elseif a.settles then
          claim.horizon = math.max(claim.horizon, longest_horizon(part.set))
        end
      end
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
  if a.id_key and a.kind == EXTEND and a.found then
    ids = ids or make_ids()
    ids.prolong(a.id_key, a.id, a.id_life)
  end
  return struct.pack('<BI2dd', 0, applied, a.total, a.dropped)
end

local out = { struct.pack('<c8d', args, now) }
for _ = 1, several do
  local a = read_amendment()
  local ok, reply = pcall(amend, a)
  if not ok and not a.writing then -- it is rare, or a state is damaged
    limits, whole = limits or make_limits(), whole or make_whole()
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
