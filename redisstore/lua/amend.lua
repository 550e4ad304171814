-- amend changes the charges of earlier decisions. Each amendment is independent: if one fails, the
-- others do not.
--
-- KEYS     per amendment
--            per claim its settled charges, then per part its state or holders, and after a state
--            its holds if the charge has a hold
--            with a request id: the request ids of the first claim
-- ARGV[1]  see start.lua; then per amendment
--            kind (1 byte)
--            1 if everything is given back (1)
--            1 if parts have true costs of their own (1)
--            life of its holds (0: it has none)
--            largest debt, units (0: one capacity)
--            charge id (8)
--            life of the request id
--            not-after (0: none)
--            claims that may take lost places back (2, the lowest bit for the first)
--            1 if there is a request id (1)
--            number of claims (1), and per claim
--              the time of its charge
--              number of parts (1), and per part its set (1; 0: holders), cost, true cost (-1:
--              unchanged), and its generation or, for holders, their window; without parts, the
--              bytes of one part, which are ignored
-- ARGV[2…] the request ids
-- Reply    call id (8), now; then per amendment FAILED (1), length of a message (2), message; or
--            LATE if it arrived too late, REPEAT if it would refund a repeated request, else 0 (1)
--            the claims to which it applied (2, as above; an extension applies if all places of the
--            claim are held or, if it has none, all of its holds are open)
--            the true cost of a settlement where it applied; if parts have their own, the sum over
--            all names
--            units of the true cost that were not charged: the maximum over all limits

local base, next_id = 0, 2 -- number of keys that were read; index of the next request id in ARGV

-- add_part sets the keys and the set of a part that was just read.
local function add_part(claim, part)
  part[KEY], part[SET], base = KEYS[base + 1], sets[part[WHICH]] or false, base + 1
  if part[SET] and part[HOLD_LIFE] > 0 then part[HOLDS], base = KEYS[base + 1], base + 1 end
  if part[TRUTH] < part[COST] and part[TRUTH] >= 0 then claim[LOWERS] = true end
end

-- another returns a copy of a record, for the next part of a claim or the next claim of an
-- amendment.
local function another(record)
  local new = { unpack(record) }
  new[HOLDS], new[LOWERS], new[NEXT_PART], new[NEXT_CLAIM] = false, false, false, false
  return new
end

-- read_amendment reads the amendment that begins at pos into an array (numbers.lua).
local function read_amendment()
  local a = { false, false, false, false, 0, false, false, 0, 0, false, false, false, false, false, false, false, 0,
    false, false, false, false, 0, 0, false, false, false, unpack_at('<BBBddc8ddI2BBdBBddd', args, pos) }
  local claim, part = a, a
  pos = a[OF + 1] -- unpack also returns the position after the last value
  for i = 1, a[CLAIMED] do
    if i > 1 then
      local before = claim
      claim = another(a)
      before[NEXT_CLAIM], part = claim, claim
      claim[CHARGED_AT], claim[PARTS], part[WHICH], part[COST], part[TRUTH], part[OF], pos =
        unpack_at('<dBBddd', args, pos)
    end
    claim[SETTLED], base = KEYS[base + 1], base + 1
    if claim[PARTS] > 0 then add_part(claim, part) end
    for _ = 2, claim[PARTS] do
      local before = part
      part = another(claim)
      before[NEXT_PART] = part
      part[WHICH], part[COST], part[TRUTH], part[OF], pos = unpack_at('<Bddd', args, pos)
      add_part(claim, part)
    end
  end
  return a
end

-- settled reports whether a charge is known to be settled. For UNDO, it also reports true if the
-- charge may have been settled and forgotten.
local function settled(a, claim)
  local key = claim[SETTLED]
  local known = redis.pcall('ZSCORE', key, a[CHARGE])
  if type(known) == 'table' then
    call('DEL', key) -- not a sorted set
    return false
  end
  if known or a[AMENDS] ~= UNDO or call('ZCARD', key) < MAX_SETTLED then return known end
  return claim[CHARGED_AT] <= tonumber(call('ZRANGE', key, '0', '0', 'WITHSCORES')[2])
end

-- remember records that a charge is settled. The record lasts for as long as the charge could
-- otherwise be settled again. If a key has more than MAX_SETTLED records, remember removes the
-- record of the earliest charge.
local function remember(a, claim)
  local key, at, life = claim[SETTLED], claim[CHARGED_AT], claim[HORIZON]
  call('ZADD', key, ('%d'):format(at), a[CHARGE])
  if call('ZCARD', key) > MAX_SETTLED then call('ZREMRANGEBYRANK', key, '0', '0') end
  keep(key, at > now and at - now + life or life)
end

-- limit_of returns the end of a part's key, which names the limit or the state.
local function limit_of(claim, part) return part[KEY]:sub(#claim[SETTLED] - #'settled' + 1) end

-- amend_holders renews a place, takes a lost place back if that is allowed, or releases the place.
-- It reports whether it did one of these.
local function amend_holders(a, claim, part, retakes)
  holders = holders or make_holders()
  local key, id, window = part[KEY], a[CHARGE], part[OF]
  local c = holders.open(key, 0, window)
  local score = call('ZSCORE', key, id)
  local held = score and tonumber(score) > now
  if a[AMENDS] == EXTEND then
    if not held and (not retakes or settled(a, claim)
      or was_reset(claim[SETTLED], limit_of(claim, part), window, claim[CHARGED_AT])) then return false end
    holders.hold(c, id)
    return true
  end
  if not held or a[AMENDS] ~= RELEASE and part[TRUTH] ~= 0 then return false end
  holders.release(c, id)
  return true
end

-- open_part returns the state of a part, and the tables of its limits (whole.lua) if the state is
-- read as a whole.
local function open_part(a, part)
  local states = a[STATES]
  if a[WHOLE] then return a[WHOLE].open(part[KEY], part[SET], states[part[KEY]]) end
  if states and states[part[KEY]] then error('rare') end
  return (read_state(part[KEY], part[SET], 0, 1, now, generation))
end

-- amended records how a part was amended: its state, which is not written yet, and the number of
-- units that were not charged. `tight` means that more than half of a limit was used or something
-- is booked. Otherwise this amendment cannot make room for a request whose denial a process
-- remembers: package resilience remembers only denials of a cost of at most half of the limit, and
-- such a cost fits while at most half is used.
local function amended(a, claim, part, st, dropped, tight)
  if a[STATES] then a[STATES][part[KEY]] = st end
  part[STATE], claim[APPLIED], claim[TIGHT] = st, true, claim[TIGHT] or tight
  if dropped > a[DROPPED] then a[DROPPED] = dropped end
end

-- settled_to records the true cost of a part. If parts have their own true costs, the true cost of
-- each name is added only once.
local function settled_to(a, claim, part, total)
  if a[OWN] == 0 then
    if total > a[TOTAL] then a[TOTAL] = total end
    return
  end
  local name = limit_of(claim, part)
  local before = a[NAMED][name] or 0
  a[NAMED][name] = math.max(before, total)
  a[TOTAL] = a[TOTAL] + a[NAMED][name] - before
end

-- settle_part settles all limits of a state, and records how long the charge can be settled after
-- it was made.
local function settle_part(a, claim, part)
  local st, counts = open_part(a, part)
  if st[VALUE] == '' or st[GENERATION] ~= part[OF] then return end
  local cost, total, at, dropped, horizon, tight = part[COST], part[TRUTH], claim[CHARGED_AT], nil, 0, false
  if counts then
    dropped, horizon, tight = a[WHOLE].settle(counts, a[DEBT], cost, total, at)
  else
    dropped, horizon, tight, part[UNTIL] = settle(st, a[DEBT], cost, total, at)
  end
  if horizon > claim[HORIZON] then claim[HORIZON] = horizon end
  if dropped then
    amended(a, claim, part, st, dropped, tight)
    settled_to(a, claim, part, total)
  end
end

-- amend_hold settles or extends the hold of a state.
local function amend_hold(a, claim, part)
  local expires, _, reported = get_hold(part[HOLDS], part[CHARGE])
  local extends, dropped, tight = part[AMENDS] == EXTEND, nil, nil
  if not expires or part[TRUTH] < 0 and not extends then return end
  local st, counts = open_part(a, part)
  if part[TRUTH] < reported then part[TRUTH] = reported end
  part[ENDS], part[REPORTED], part[KNOWN] = expires, reported, st[VALUE] ~= '' and st[GENERATION] == part[OF]
  if extends then part[TIL] = expiry(now, part[HOLD_LIFE]) end
  if counts then
    dropped, tight = a[WHOLE].amend_holds(counts, part)
  else
    dropped, tight, part[UNTIL] = amend_holds(st, part)
  end
  amended(a, claim, part, st, dropped, tight)
  if extends then
    local til = part[TIL]
    part[PUT], a[FOUND] = { expires > now and til or expires, til + part[HOLD_LIFE], part[TRUTH] }, true
    claim[EXPIRED] = claim[EXPIRED] or expires <= now
  else
    part[PUT] = true
    settled_to(a, claim, part, part[TRUTH])
  end
end

-- amend_part amends the charge of a part that has a state. A release amends only places.
local function amend_part(a, claim, part)
  if not part[SET] or part[COST] == 0 or a[AMENDS] == RELEASE then return end
  if a[HOLD_LIFE] > 0 then
    amend_hold(a, claim, part)
  elseif a[AMENDS] == EXTEND then
    return
  elseif part[TRUTH] >= 0 then
    settle_part(a, claim, part)
  else
    claim[HORIZON] = math.max(claim[HORIZON], longest_horizon(part[SET]))
  end
end

-- write_part writes the state of a part and its hold, or amends its place. It reports whether the
-- part has a place, and whether it renewed, took back or released that place.
local function write_part(a, claim, part, retakes)
  local st, put = part[STATE], part[PUT]
  if st and a[WHOLE] then
    a[WHOLE].save_once(st)
  elseif st then
    write(st, part[UNTIL], now)
  end
  if put == true then
    call('HDEL', part[HOLDS], a[CHARGE])
  elseif put then
    put_hold(part[HOLDS], a[CHARGE], put[1], put[2], put[3])
  elseif part[COST] > 0 and part[HOLDS] then
    claim[EXPIRED] = true
  elseif part[COST] > 0 and not part[SET] then
    local held = amend_holders(a, claim, part, retakes)
    if held then claim[APPLIED], claim[HORIZON] = true, math.max(claim[HORIZON], part[OF]) end
    return true, held
  end
  return false, false
end

-- finish writes the amended claim, and records that it is settled. It reports whether the amendment
-- applied. An extension applies if all places are held or, without places, all holds are open.
local function finish(a, claim, retakes)
  local missed, places = false, false
  local part = claim
  repeat
    local place, held = write_part(a, claim, part, retakes)
    places, missed, part = places or place, missed or place and not held, part[NEXT_PART]
  until not part
  if a[AMENDS] == EXTEND then return claim[APPLIED] and not missed and (places or not claim[EXPIRED]) end
  if not claim[APPLIED] then return false end
  if a[AMENDS] ~= RELEASE and a[HOLD_LIFE] == 0 then remember(a, claim) end
  -- Do not announce released places: places are released all the time, and no process remembers
  -- denials by concurrency limits.
  if claim[TIGHT] and claim[LOWERS] then announce(claim[SETTLED], '+') end
  return true
end

-- amend executes an amendment, with or without a request id. It amends all states before it writes
-- the first of them.
local function amend(a, id, id_key)
  if a[NOT_AFTER] > 0 and now > a[NOT_AFTER] then return pack('<BI2dd', LATE, 0, 0, 0) end
  local kind, claim = a[AMENDS], a
  if a[WHOLE] or a[CLAIMED] > 1 then a[STATES] = {} end -- by key, because two claims may share a state
  if a[OWN] == 1 then a[NAMED] = {} end
  -- A repeated request was used more than once, so it is not given back.
  local forgets = id and kind == SETTLE and a[REFUND] == 1
  if forgets then
    ids = ids or make_ids()
    local _, repeats = ids.open(id_key, id, a[LIVES])
    if repeats and repeats > 0 then return pack('<BI2dd', REPEAT, 0, 0, 0) end
  end
  repeat
    claim[OPEN] = a[HOLD_LIFE] > 0 or kind == EXTEND or kind == RELEASE or not settled(a, claim)
    local part = claim[OPEN] and claim
    while part do
      amend_part(a, claim, part)
      part = part[NEXT_PART]
    end
    claim = claim[NEXT_CLAIM]
  until not claim
  a[WRITING], claim = true, a
  local applied, bit, retakes = 0, 1, a[RETAKES]
  repeat
    local retake = retakes % 2
    if claim[OPEN] and finish(a, claim, retake == 1) then applied = applied + bit end
    claim, bit, retakes = claim[NEXT_CLAIM], 2 * bit, (retakes - retake) / 2
  until not claim
  if forgets and applied > 0 then ids.forget(id_key, id) end
  if id and a[FOUND] then
    ids = ids or make_ids()
    ids.prolong(id_key, id, a[LIVES])
  end
  return pack('<BI2dd', 0, applied, a[TOTAL], a[DROPPED])
end

local out = { pack('<c8d', args, now), nil }
for i = 1, several do
  local from, keys, id, id_key = pos, base, false, false
  local a = read_amendment()
  if a[HAS_ID] == 1 then
    id, id_key, next_id, base = ARGV[next_id], KEYS[base + 1], next_id + 1, base + 1
  end
  local ok, reply = pcall(amend, a, id, id_key)
  if not ok and not a[WRITING] then -- a rare case, or a damaged state
    limits, whole = limits or make_limits(), whole or make_whole()
    local ends, next_base = pos, base
    pos, base = from, keys
    a = read_amendment()
    a[WHOLE], pos, base = whole, ends, next_base
    ok, reply = pcall(amend, a, id, id_key)
  end
  if not ok then
    local message = type(reply) == 'table' and reply.err or reply
    reply = pack('<BI2', FAILED, #message) .. message
  end
  out[i + 1] = reply
end
return table.concat(out)
