-- decide: a decision, see docs/rules.md. A request r is an array of its parts. A part has claim,
-- key and cost, and either set and its state st or, if it is a concurrency limit, cap, window and
-- c, the holders. The request also has
--
--   late, equal  not-after; the number of equal requests
--   options      what take.lua reads beyond the parts
--   id, id_key   request id and its key, if there is one; ban_keys: the number of keys before the
--                bans
--   whole        functions to read states as a whole (whole.lua), if they are needed
--   writing      true once something may have been written
--   flags, decider, retry, at, charged, ban, recalled: the answer

-- open_parts reads all states and holders of a request.
local function open_parts(r, now, generation)
  local known, whole = #r > 1 and {}, r.whole -- two claims may share a state
  for i = 1, #r do
    local part = r[i]
    if not part.set then
      part.c = holders.open(part.key, part.cap, part.window, r.options.mode == PEEK)
    elseif whole then
      part.st, part.counts = whole.open(part.key, part.set, known and known[part.key])
      for _, c in ipairs(part.counts) do c.cost = part.cost end
    elseif not part.st then
      if known and known[part.key] then error('rare') end
      part.st, part.free = read_state(part.key, part.set, part.cost, r.equal, now, generation)
    end
    if known then known[part.key] = part.st end
  end
end

-- fit lowers the cost to what there is room for, in steps: single units, or equal requests.
local function fit(r)
  local cost, fits_units = r[1].cost, r.options.fit == 1
  local step, room = fits_units and 1 or cost, cost * r.equal
  for _, part in ipairs(r) do
    if part.c then
      room = math.min(room, part.cap - part.c.held)
    elseif r.whole then
      room = math.min(room, r.whole.least(part, r.equal > 1 and step))
    else
      room = math.min(room, part.free * cost)
    end
  end
  r.charged = math.max(step, room - room % step)
  if r.whole then r.whole.set_cost(r, r.charged) end
end

-- room returns the first instant at which all limits have room, for a request that waits behind all
-- bookings or not. It sets part.retry to the wait until each part has.
local function room(r, now, waits)
  local t, latest, all_fit = now, now, true
  for i = 1, #r do
    local part = r[i]
    local fits, at, last = true, now, 0
    if part.c then
      fits = holders.fits(part.c, part.cost)
      if not fits then at = holders.earliest(part.c, part.cost) end
    elseif r.whole then
      fits, at, last = r.whole.room(part, waits)
    elseif part.free == 0 then
      local wait
      part.text, wait = usage(part.st, part.cost, now)
      fits, at = false, wait == NEVER and NEVER or now + wait
    end
    if not fits then all_fit, part.retry = false, at == NEVER and NEVER or at - now end
    if at == NEVER or t == NEVER then t = NEVER else t = math.max(t, at) end
    latest = math.max(latest, last)
  end
  if all_fit then return now end
  return t == NEVER and t or math.max(t, latest)
end

-- charge_all charges every claim that costs something, now or, if it books, at t, and then writes
-- them. Come is whether it was booked before and its time has come. If what was written says all,
-- that is the answer: it returns it.
local function charge_all(r, now, t, come)
  local options, whole, equal = r.options, r.whole, r.charged / r[1].cost
  local at = math.max(1, now + options.lease - options.age)
  if t > now then at = whole.book_all(r, t, come) end
  for i = 1, #r do
    local part = r[i]
    if part.cost > 0 then r.at = at end
    if part.cost > 0 and part.st then
      if not whole then
        charge(part.st, part.cost * (equal > 1 and equal or 1), now)
      elseif t == now then
        whole.charge(part, at, options)
      end
    end
  end
  r.writing = true
  local out = struct.pack(r.equal > 1 and '<BI2' or 'B', CHARGED, equal)
  for i = 1, #r do
    local part = r[i]
    if part.cost == 0 or not part.st or whole then out = nil end
    if part.cost > 0 and not part.st then
      holders.hold(part.c, options.charge_id)
      part.c.held = part.c.held + 1
    elseif part.cost > 0 and whole then
      whole.save_once(part.st)
    elseif part.cost > 0 then
      local heads = write(part.st, now)
      if out then out = out .. part.st.set[NUMBER] .. heads end
    end
  end
  return out
end

-- deny finds the claim that denied, and counts that towards a ban.
local function deny(r, now)
  local options, first = r.options, r[1]
  for i = #r, 1, -1 do
    if r[i].retry ~= 0 then first = r[i] end
  end
  r.decider = first.claim
  if options.after == 0 or options.mode ~= TAKE or first.cost == 0 or r.bans[r.decider] == nil then return end
  if not r.whole then error('rare') end
  r.ban = bans.strike(r, r.decider)
  if r.ban then
    r.flags, r.bans[r.decider] = BANNED, r.ban
    if r.retry ~= NEVER then r.retry = math.max(r.retry, r.ban.til - now) end
  end
end

-- memory is what the request's id remembers of its charge.
local function memory(r)
  local out = struct.pack('<c8dd', r.options.charge_id, r.at, r.charged) .. r.options.note
  for _, part in ipairs(r) do
    local st = part.st
    if st then out = out .. struct.pack('<I4', r.whole and (st.generation or 0) or st[GENERATION]) end
  end
  return out
end

-- repeated answers a request whose id is in force: since when, how often it was repeated, and until
-- when.
local function repeated(r, now, at, repeats, til)
  local mode = r.options.mode
  r.flags = REPEAT
  if at - now >= ID_STEP then r.retry = at - now end
  if mode == TAKE and r.retry > 0 then return end
  r.flags = REPEAT + ALLOWED
  if mode == PEEK then return end
  r.writing = true
  if repeats < MAX_REPEATS then redis.call('ZINCRBY', r.id_key, '1', r.id) end
  r.recalled = ids.charge(r.id_key, r.id, til)
end

-- by_limits decides by the limits. Seen is whether the id is known, though it counts no more. It
-- returns the answer, if what was written says all.
local function by_limits(r, now, seen)
  local options, whole, fast = r.options, r.whole, nil
  local mode, old = options.mode, options.booked > 0 and whole.leave(r)
  local come = options.booked > 0 and not old and whole.give_up(r)
  local t = mode == FORCE and now + options.longest or room(r, now, mode == RESERVE and not come)
  if come then whole.see_all(r) end
  local allowed = t == now or mode == FORCE
  r.retry = t == NEVER and NEVER or t - now
  if options.lease > 0 and allowed then allowed = not whole.over(r) end -- what is booked is in the way
  if mode == RESERVE and t ~= now then
    if not whole then error('rare') end
    allowed = t ~= NEVER and r.retry <= options.longest and (old or come or not whole.full(r))
  end
  if old and (not allowed or t >= old) then -- its booking cannot be moved up
    r.flags, r.retry, r.at = ALLOWED, old - now, options.booked
    whole.stay(r, old)
  elseif allowed then
    r.flags = ALLOWED
    if mode == PEEK then return end
    fast = charge_all(r, now, t, come)
    if r.id_key and r.at > 0 and not seen and options.booked == 0 then
      ids.record(r.id_key, r.id, t + options.lease, options.life, memory(r))
    end
  else
    if come then -- it has given up what it had
      r.writing = true
      whole.save_changed(r)
    end
    deny(r, now)
  end
  return fast
end

-- heal writes what a step back of the clock changed, though the request was denied.
local function heal(r)
  if r.flags ~= 0 and (r.flags ~= BANNED or r.banned) then return end
  for _, part in ipairs(r) do
    if part.cost > 0 and part.c then holders.heal(part.c) end
    if part.cost > 0 and r.whole and part.st then r.whole.heal(part.st) end
  end
end

-- answer packs the reply.
local function answer(r, now)
  local out, directories, other = { '' }, {}, false
  for _, part in ipairs(r) do
    local st = part.st
    if not st then
      out[#out + 1] = struct.pack('<ddd', part.c.held, holders.resets(part.c), part.retry)
    elseif r.whole then
      local directory = st.saved or st.stored or ''
      if directory == part.set[SIG] or directory:byte() ~= PLAIN_STATE
        or #directory > DIRECTORY_START + DIRECTORY_LIMIT * MAX_KNOWN then directory = '' end
      other = other or directory ~= ''
      directories[#directories + 1] = struct.pack('B', #directory) .. directory
      out[#out + 1] = struct.pack('<I4', st.generation or 0) .. r.whole.usage(part)
    else
      local none = st.value == '' and (r.flags ~= ALLOWED or r.at == 0 or part.cost == 0)
      out[#out + 1] = struct.pack('<I4', none and 0 or st[GENERATION])
        .. (part.text or usage(st, -FAR, now))
    end
  end
  local flags = r.flags
  if other then flags, out[#out + 1] = flags + DIRECTORIES, table.concat(directories) end
  if r.recalled then flags, out[#out + 1] = flags + RECALLED, struct.pack('<I2', #r.recalled) .. r.recalled end
  out[1] = struct.pack('<BBddd', flags, r.decider, bounded(r.retry, NEVER), bounded(r.at, 0),
    r.at > 0 and r.charged or 0)
  if r.ban then out[1] = out[1] .. struct.pack('<d', bounded(r.ban.til - now, 0)) end
  return table.concat(out)
end

-- decide answers a run of equal requests. It returns the answer, and to how many requests it is.
local function decide(r, now, generation)
  local options = r.options
  local mode, cost = options.mode, r[1].cost
  if r.late > 0 and now > r.late then return struct.pack('B', LATE), r.equal end
  if not r.whole and (mode == FORCE or options.fit == 1 or options.booked > 0) then error('rare') end
  open_parts(r, now, generation)
  if r.equal > 1 or options.fit == 1 then fit(r) else r.charged = cost end
  if r.charged == 0 then r.id_key = nil end
  r.banned = options.bans_on == 1 and bans.open(r)
  local seen, repeats, til, fast
  if r.id_key and options.booked == 0 and not r.banned then
    seen, repeats, til = ids.open(r.id_key, r.id, options.life)
  end
  if r.banned then
    room(r, now, false)
    r.flags, r.decider, r.ban = BANNED, r.banned, r.bans[r.banned]
    r.retry = r.ban.til - now
  elseif seen and (repeats < MAX_REPEATS or mode == FORCE) then
    repeated(r, now, seen, repeats, til)
  else
    fast = by_limits(r, now, seen)
  end
  if r.at > 0 and r.id_key and options.booked > 0 then ids.rebook(r.id_key, r.id, memory(r)) end
  local answered = r.equal > 1 and r.at > 0 and r.charged / cost or r.equal
  fast = fast or answer(r, now)
  if mode ~= PEEK then
    if r.bans and r.flags ~= REPEAT then bans.heal(r) end
    if r.flags ~= ALLOWED then heal(r) end
  end
  return fast, answered
end
