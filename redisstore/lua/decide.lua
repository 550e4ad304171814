-- decide decides the requests that take_plain (take.lua) does not decide. See docs/rules.md. A
-- request r is an array of its parts, and has
--
--   equal        the number of equal requests
--   charges      whether the first claim costs anything
--   options      the options of the run (numbers.lua, take.lua)
--   id, id_key   the request id and its key, if there is one
--   note         the bytes to store with the request id
--   base         the number of keys before those of its bans
--   bans         the bans by claim (bans.lua)
--   banned       the first claim whose subject was banned before the request, if any
--   life         how long units are held, for a request with a hold
--   whole        functions for states that are read as a whole (whole.lua), once needed
--   writing      true once something may have been written
--   flags, decider, retry, at, charged, ban, recalled
--                the fields of the answer
--
-- A part has claim, key, cost and retry. A concurrency limit also has cap, window and c, the
-- holders. Any other part has set and its state st, and
--
--   fitting      how many of the requests fit
--   text         the packed usage, if none of them fits
--   need         the instant until which its state must be kept, once charged
--   counts       the tables of its limits (whole.lua), if the state was read as a whole
--   holds        the key of its holds, for a request with a hold
--   booked_in    the generation in which the booking to move up was made, if there is one

-- read_run reads the parts and the options of a run from args, beginning at the offset `at`. The
-- set and the cost of the first part are `which` and `cost`.
local function read_run(r, kind, which, cost, at)
  local parts, keys, rest, ends, claim, _ = 1, 1, nil, at, 1, nil
  if kind ~= PLAIN then
    parts, keys, _, r.equal, rest, at = struct.unpack('<BBBI2I2', args, at)
    ends = at + rest
  end
  for i = 1, parts do
    local key = KEYS[r.base + i]
    if i > 1 then claim, which, cost, at = struct.unpack('<BBd', args, at) end
    r.charges = r.charges or claim == 1 and cost > 0
    if which > 0 then
      r[i] = { claim = claim, key = key, cost = cost, set = sets[which], retry = 0, st = false, fitting = 0, need = 0 }
    else
      local cap, window
      cap, window, at = struct.unpack('<dd', args, at)
      r[i] = { claim = claim, key = key, cost = cost, cap = cap, window = window, retry = 0, c = false }
    end
  end
  if r.id then r.id_key = KEYS[r.base + keys] end
  r.base = r.base + parts
  local o = at == ends and { 1, TAKE, 0, 0, 0, 0, 0, 0, 0, 0 } or { struct.unpack('<BBBBI2Bddddddddc8B', args, at) }
  r.options = o
  if at == ends then return end
  if o[HOLD] > 0 then
    r.life = o[HOLD]
    for i = 1, parts do
      if r[i].set then
        r.base = r.base + 1
        r[i].holds = KEYS[r.base]
      end
    end
  end
  at = o[DURATIONS] + 8 * o[STEPS]
  if o[MODE] == FORCE then o[AGE], o[REFILLED], at = struct.unpack('<dd', args, at) end
  for i = 1, o[MOVES] > 0 and parts or 0 do
    if r[i].set then r[i].booked_in, at = struct.unpack('<I4', args, at) end
  end
  if r.id then r.note = struct.unpack('<I2c0', args, at) end
end

local function open_parts(r)
  local known, whole = r.options[CLAIMS] > 1 and {}, r.whole -- two claims may share a state
  for i = 1, #r do
    local part = r[i]
    if not part.set then
      holders = holders or make_holders()
      part.c = holders.open(part.key, part.cap, part.window, r.options[MODE] == PEEK)
    elseif whole then
      part.st, part.counts = whole.open(part.key, part.set, known and known[part.key])
      for _, c in ipairs(part.counts) do c.cost = part.cost end
    elseif not part.st then
      if known and known[part.key] then error('rare') end
      part.st, part.fitting = read_state(part.key, part.set, part.cost, r.equal, now, generation)
    end
    if known then known[part.key] = part.st end
  end
end

-- fit lowers the cost to the available room, but not below 1 unit. For equal requests, it sets a
-- multiple of one request's cost, and at least that cost.
local function fit(r)
  local cost = r[1].cost
  local step, room = r.options[FIT] == 1 and 1 or cost, cost * r.equal
  for _, part in ipairs(r) do
    if part.c then
      room = math.min(room, part.cap - part.c.held)
    elseif r.whole then
      room = math.min(room, r.whole.least(part, r.equal > 1 and step))
    else
      room = math.min(room, part.fitting * cost)
    end
  end
  r.charged = math.max(step, room - room % step)
  if r.whole then r.whole.set_cost(r, r.charged) end
end

-- room returns the first instant at which all limits have room. A request that waits is placed
-- after all bookings. room sets each part.retry to the wait until that part has room.
local function room(r, waits)
  local t, latest, all_fit = now, now, true
  for i = 1, #r do
    local part = r[i]
    local fits, at, last = true, now, 0
    if part.c then
      at = holders.earliest(part.c, part.cost)
      fits = at == now
    elseif r.whole then
      fits, at, last = r.whole.room(part, waits)
    elseif part.fitting == 0 then
      local wait
      limits = limits or make_limits()
      part.text, wait = limits.usage(part.st, part.cost, now)
      fits, at = false, wait == NEVER and NEVER or now + wait
    end
    if not fits then all_fit, part.retry = false, at == NEVER and NEVER or at - now end
    if at == NEVER or t == NEVER then t = NEVER else t = math.max(t, at) end
    latest = math.max(latest, last)
  end
  if all_fit then return now end
  return t == NEVER and t or math.max(t, latest)
end

-- holds_room returns the instant at which all states have room for another hold, given the instant
-- at which the limits have room. A FORCE does not wait for that: where a state has no room, it
-- charges the units instead of holding them.
local function holds_room(r, t)
  for _, part in ipairs(r) do
    local free = part.cost > 0 and part.holds and t ~= NEVER and holds_free(part.holds) or now
    if free > now then
      if not r.whole then error('rare') end
      local force = r.options[MODE] == FORCE
      for _, c in ipairs(part.counts) do
        if force then
          c.stock = false
        elseif c.retry ~= NEVER then
          c.retry = math.max(c.retry or 0, free - now)
        end
      end
      if force then
        part.holds = nil
      else
        part.retry, t = math.max(part.retry, free - now), math.max(t, free)
      end
    end
  end
  return t
end

-- charge_all charges every claim that costs something, now or, for a booking, at t, and then writes
-- the states. `come` is true if the request was booked before and its booking is due. charge_all
-- returns the short answer CHARGED (take.lua), or nil if a longer answer is needed.
local function charge_all(r, t, come)
  local whole, equal = r.whole, r.charged / r[1].cost
  local at = math.max(1, now + r.options[LEASE] - (r.options[AGE] or 0))
  if t > now then at = whole.book_all(r, t, come) end
  for i = 1, #r do
    local part = r[i]
    if part.cost > 0 then r.at = at end
    if whole and part.st and t == now then
      whole.charge(part, at, r)
    elseif not whole and part.st and part.cost > 0 then
      part.need = charge(part.st, part.cost * (equal > 1 and equal or 1), now)
    end
  end
  r.writing = true
  local out = struct.pack(r.equal > 1 and '<BI2' or 'B', CHARGED, equal)
  for i = 1, #r do
    local part = r[i]
    if part.cost == 0 or whole then out = nil end
    if part.cost > 0 and not part.st then
      holders.hold(part.c, r.options[CHARGE_ID])
      if out then out = struct.pack('<c0dd', out, part.c.held, part.c.resets) end
    elseif part.cost > 0 and whole then
      whole.save_once(part.st)
    elseif part.cost > 0 then
      local heads = write(part.st, part.need, now)
      if out then out = out .. part.st[SET][NUMBER] .. heads end
    end
    if part.cost > 0 and part.holds then
      local e = expiry(at, r.life)
      put_hold(part.holds, r.options[CHARGE_ID], e, e + r.life, 0)
    end
  end
  return out
end

-- deny finds the first claim whose limits deny the request. If bans apply, it counts the denial
-- toward a ban.
local function deny(r)
  local options, first, costs = r.options, r[1], false
  for i = #r, 1, -1 do
    if r[i].retry ~= 0 then first = r[i] end
  end
  r.decider = first.claim
  for i = 1, #r do costs = costs or r[i].claim == first.claim and r[i].cost > 0 end
  if options[AFTER] == 0 or options[MODE] ~= TAKE or not costs or r.bans[r.decider] == nil then return end
  if not r.whole then error('rare') end
  r.ban = bans.strike(r, r.decider)
  if r.ban then
    r.flags, r.bans[r.decider] = BANNED, r.ban
    if r.retry ~= NEVER then r.retry = math.max(r.retry, r.ban.til - now) end
  end
end

-- repeated answers a request whose id is in force, given the id's time, number of repeats and end.
local function repeated(r, at, repeats, til)
  local mode = r.options[MODE]
  r.flags = REPEAT
  if at - now >= ID_STEP then r.retry = at - now end
  if mode == TAKE and r.retry > 0 then return end
  r.flags = REPEAT + ALLOWED
  r.recalled = ids.charge(r.id_key, r.id, til)
  if mode == PEEK then return end
  r.writing = true
  if repeats < MAX_REPEATS then redis.call('ZINCRBY', r.id_key, '1', r.id) end
end

-- by_limits decides by the limits. If it charges, it returns the instant of the charge, and the
-- result of charge_all.
local function by_limits(r)
  local options, whole = r.options, r.whole
  local mode, moves = options[MODE], options[MOVES] > 0
  local old = moves and whole.leave(r)
  local come = moves and not old and whole.give_up(r)
  local t = mode == FORCE and now + options[LONGEST] or room(r, mode == RESERVE and not come)
  if r.life then t = holds_room(r, t) end
  if come then whole.see_all(r) end
  local allowed = t == now or mode == FORCE
  r.retry = t == NEVER and NEVER or t - now
  if options[LEASE] > 0 and allowed then allowed = not whole.over(r) end -- a lease does not take booked units
  if mode == RESERVE and t ~= now then
    if not whole then error('rare') end
    allowed = t ~= NEVER and r.retry <= options[LONGEST] and (old or come or not whole.full(r))
      and not whole.beyond(r, t)
  end
  if old and (not allowed or t >= old) then -- the booking cannot be moved up
    r.flags, r.retry, r.at = ALLOWED, old - now, options[MOVES]
    whole.stay(r, old)
  elseif allowed then
    r.flags = ALLOWED
    if mode == PEEK then return end
    return t + options[LEASE], charge_all(r, t, come)
  else
    if come then -- the booking is already given up
      r.writing = true
      whole.save_changed(r)
    end
    deny(r)
  end
end

-- generation_of returns the generation of a part's state, or 0 if there is no state.
local function generation_of(r, part)
  local st, charged = part.st, r.flags % 2 == ALLOWED and r.at > 0 and part.cost > 0
  if r.whole then charged = (st.saved or '') ~= '' end
  return (st[VALUE] ~= '' or charged) and st[GENERATION] or 0
end

-- remember stores the charge, or the moved booking, with the request's id. t is the time of the
-- charge.
local function remember(r, t)
  local charged = struct.pack('<c8dd', r.options[CHARGE_ID], r.at, r.charged) .. r.note
  for _, part in ipairs(r) do
    local st = part.st
    if st then charged = charged .. struct.pack('<I4', generation_of(r, part)) end
  end
  if r.options[MOVES] > 0 then
    ids.rebook(r.id_key, r.id, charged)
  else
    ids.record(r.id_key, r.id, t, r.options[ID_LIFE], charged)
  end
end

-- heal writes the parts of a denied request whose times were moved back because the clock stepped
-- back.
local function heal(r)
  if r.flags ~= 0 and (r.flags ~= BANNED or r.banned) then return end
  for _, part in ipairs(r) do
    if part.cost > 0 and part.c then holders.heal(part.c) end
    if part.cost > 0 and r.whole and part.st then r.whole.heal(part.st) end
  end
end

local function answer(r)
  local out, directories, other = '', '', false
  for _, part in ipairs(r) do
    local st = part.st
    if not st then
      out = struct.pack('<c0ddd', out, part.c.held, part.c.resets, part.retry)
    elseif r.whole then
      local directory = st.saved or st[VALUE]:sub(1, DIRECTORY_START + DIRECTORY_LIMIT * (st[VALUE]:byte(2) or 0))
      if directory == part.set[SIG] or directory:byte() ~= PLAIN_STATE
        or #directory > DIRECTORY_START + DIRECTORY_LIMIT * MAX_KNOWN then directory = '' end
      other, directories = other or directory ~= '', directories .. struct.pack('B', #directory) .. directory
      out = out .. struct.pack('<I4', generation_of(r, part)) .. r.whole.usage(part)
    else
      limits = limits or make_limits()
      out = out .. struct.pack('<I4', generation_of(r, part)) .. (part.text or limits.usage(st, -FAR, now))
    end
  end
  local flags = r.flags
  if other then flags, out = flags + DIRECTORIES, out .. directories end
  if r.recalled then flags, out = flags + RECALLED, out .. struct.pack('<I2', #r.recalled) .. r.recalled end
  if r.ban then out = struct.pack('<d', bounded(r.ban.til - now, 0)) .. out end
  return struct.pack('<BBdddc0', flags, r.decider, bounded(r.retry, NEVER), bounded(r.at, 0),
    r.at > 0 and r.charged or 0, out)
end

-- decide answers a run of equal requests. It returns the answer, and how many requests it answers.
local function decide(r)
  local options, mode, cost = r.options, r.options[MODE], r[1].cost
  local fits, moves = options[FIT] == 1, options[MOVES] > 0
  if not r.whole and (mode == FORCE or fits or moves) then error('rare') end
  open_parts(r)
  if r.equal > 1 or fits then fit(r) else r.charged = cost end
  if not r.charges then r.id_key = false end
  if r.id_key then ids = ids or make_ids() end
  if options[BANS_ON] == 1 then
    bans = bans or make_bans()
    r.banned = bans.open(r)
  end
  local seen, repeats, til, t, fast
  if r.id_key and not moves and not r.banned then
    seen, repeats, til = ids.open(r.id_key, r.id, options[ID_LIFE])
  end
  if r.banned then
    room(r, false)
    r.flags, r.decider, r.ban = BANNED, r.banned, r.bans[r.banned]
    r.retry = r.ban.til - now
  elseif seen and (repeats < MAX_REPEATS or mode == FORCE) then
    repeated(r, seen, repeats, til)
  else -- no id, a new id, or one repeated MAX_REPEATS times, which is charged but not remembered again
    t, fast = by_limits(r)
  end
  if r.at > 0 and r.id_key and not seen then remember(r, t) end
  local answered = r.equal > 1 and r.at > 0 and r.charged / cost or r.equal
  fast = fast or answer(r)
  if mode ~= PEEK then
    if r.bans and r.flags ~= REPEAT then bans.heal(r) end
    if r.flags ~= ALLOWED then heal(r) end
  end
  return fast, answered
end

-- take_held decides a PLAIN_HOLD that costs something, if there is room. Otherwise it writes
-- nothing and returns nil and the state, or only nil if the state has too many holds.
local function take_held(key, set, cost, holds, from)
  local st, fitting = read_state(key, set, cost, 1, now, generation)
  if cost == 0 or fitting == 0 then return nil, st end
  local life, id = struct.unpack('<dc8', args, from + RUN_HOLD)
  local need, n, expires = charge(st, cost, now), redis.pcall('HLEN', holds), expiry(now, life)
  if type(n) == 'table' or n >= MAX_HOLDS then return end
  put_hold(holds, id, expires, expires + life, 0, n == 0)
  return CHARGED_MARK .. st[SET][NUMBER] .. write(st, need, now)
end

-- decide_run decides a run. kind, which, cost and not_after are the first fields of the run in
-- args; `from` is the offset of the next field. base is the number of keys before those of the run,
-- and st is the state of its first part if take_plain has read it. After an error, such as 'rare',
-- it decides again with whole states.
local function decide_run(kind, which, cost, not_after, from, base, id, st)
  if not_after > 0 and now > not_after then return struct.pack('B', LATE) end
  if kind == PLAIN_HOLD then
    local ok, reply, denied = pcall(take_held, KEYS[base + 1], sets[which], cost, KEYS[base + 2], from)
    if ok and reply then return reply end
    st = ok and denied
  end
  local r = { nil, equal = 1, charges = false, options = false, base = base, id = id, id_key = false, note = false,
    bans = false, life = false, whole = false, writing = false, flags = 0, decider = 1, retry = 0, at = 0, charged = cost }
  local out = ''
  read_run(r, kind, which, cost, from)
  r[1].st = st
  repeat -- if only some of the equal requests are allowed, decide the others next
    local ok, reply, answered = pcall(decide, r)
    if not ok and not r.writing and not r.whole then
      limits, whole = limits or make_limits(), whole or make_whole()
      whole.looking, whole.books, r.whole = r.options[MODE] == PEEK, r.options[MODE] == RESERVE, whole
      r.flags, r.decider, r.retry, r.at = 0, 1, 0, 0
      ok, reply, answered = pcall(decide, r)
    end
    if not ok then
      local message = type(reply) == 'table' and reply.err or reply
      reply, answered = struct.pack('<BI2', FAILED, #message) .. message, r.equal
    end
    out, r.equal = out .. reply, r.equal - answered
    r.flags, r.decider, r.retry, r.at, r.writing, r[1].st = 0, 1, 0, 0, false, false
  until r.equal == 0
  return out
end
