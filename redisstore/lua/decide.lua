-- decide: the general path of a decision, see docs/rules.md.
--
-- Request  as in take.lua; then, of KIND_GENERAL, KIND_BANS and KIND_PEEK,
--            number of claims (1 byte)
--            mode (1)
--            1 to lower the cost to what there is room for (1)
--            1 if bans apply (1)
--            claims that are shared (2, the lowest bit for the first)
--            denials that lead to a ban (1; 0: none does)
--            longest wait, or the wait of a FORCE
--            end of the booking to move up (0: none)
--            life of the request id
--            length of the lease (0: none)
--            grace: how long a booking may be used
--            within: how long denials count
--            forgive: how long a ban's level is kept
--            charge id (8)
--            number of durations of bans (1), durations
--            of a FORCE how long ago its units were used, and for how long meters have refilled them
--            of a booking to move up, per part with a state the generation that it was booked in (4)
--            with a request id, the length of its note (2), and the note (ids.lua)
-- Answer   flags (1)
--          deciding claim (1)
--          retry-after
--          time of the charge (0: none)
--          units charged to the first claim
--          with the flag BANNED, how long the ban lasts
--          per part its generation (4, not of holders), and per limit that is asked about, in the
--          order of its set, used, reset-after, retry-after
--          with the flag DIRECTORIES, per part with a state the length of its directory (1; 0: that
--          of the set), and the directory
--          with the flag RECALLED, the length of what the id remembers (2), and that (ids.lua)

-- read_request reads what is asked, and opens all limits.
local function read_request(args, run, base, id)
  local kind, which, cost, _, pos = unpack_at('<BBdd', args, run)
  local states = {} -- two claims may share one
  local r = { parts = {}, limits = {}, keys = 1, mode = TAKE, fit = 0, bans_on = 0, after = 0, booked = 0, lease = 0,
    age = 0, refilled = 0 }
  if kind ~= KIND_PLAIN then r.keys, pos = unpack_at('B', args, pos), pos + 7 end
  looking = kind == KIND_PEEK
  for p = 1, r.keys do
    local claim, key = 1, KEYS[base + p]
    if p > 1 then claim, which, cost, pos = unpack_at('<BBd', args, pos) end
    local part = { set = sets[which] }
    if which == 0 then
      local cap, window
      cap, window, pos = unpack_at('<dd', args, pos)
      part.asked = { open_holders(key, cap, window, cost) }
    else
      part.st, part.asked = open_state(key, part.set, cost, states[key])
      states[key], part.st.cost = part.st, max(part.st.cost or 0, cost)
    end
    r.parts[p] = part
    for _, l in ipairs(part.asked) do
      l.of, l.claim = l.of or L, claim
      r.limits[#r.limits + 1] = l
    end
  end
  if kind >= KIND_GENERAL and kind <= KIND_PEEK then
    local steps
    r.claims, r.mode, r.fit, r.bans_on, r.shared, r.after, pos = unpack_at('<BBBBI2B', args, pos)
    r.longest, r.booked, r.life, r.lease, r.grace, r.within, r.forgive, pos = unpack_at('<ddddddd', args, pos)
    r.id, steps, pos = unpack_at('<c8B', args, pos)
    r.durations = {}
    for i = 1, steps do r.durations[i], pos = unpack_at('<d', args, pos) end
    if r.mode == FORCE then r.age, r.refilled, pos = unpack_at('<dd', args, pos) end
    for _, part in ipairs(r.booked > 0 and r.parts or {}) do
      if part.st then part.st.booked_in, pos = unpack_at('<I4', args, pos) end
    end
    if id then r.note = unpack_at('<I2c0', args, pos) end
  end
  return r
end

-- fit lowers the cost to what there is room for, in steps: single units, or equal requests. Equal
-- requests beside bookings are made one by one. It returns what the first claim is to be charged.
local function fit(r, equal)
  local charged = r.limits[1].cost
  if equal + r.fit <= 1 then return charged end
  local step, room = r.fit == 1 and 1 or charged, charged * equal
  for _, l in ipairs(r.limits) do
    local free = l.cap - l.of.used(l)
    if equal > 1 and l.booked and l.booked ~= '' then free = step end
    room = min(room, free)
  end
  charged = max(step, room - room % step)
  for _, l in ipairs(r.limits) do l.cost = charged end
  return charged
end

-- leave takes the booking that is to be moved up off all limits, with those behind it. It returns
-- its time. If a limit does not have it, it stays, until there is another place.
local function leave(r)
  local t
  for _, l in ipairs(r.limits) do
    l.found = l.cost > 0 and l.st.generation == l.st.booked_in and find_booking(l, r.booked)
    if l.found then
      local own = booking(l, l.found)
      t = min(t or own, own)
    end
  end
  for _, l in ipairs(r.limits) do
    if l.cost > 0 and not l.found then return end
  end
  for _, l in ipairs(t and r.limits or {}) do
    l.whole, l.whole_sum, l.whole_led = l.booked, l.booked_sum, l.led
    if l.found then change_booking(l, l.found, -l.cost) end
    l.found = nil
    local first = first_booking(l.booked, 1, t)
    l.booked, l.behind, l.led = l.booked:sub(1, first * BOOKED), l.booked:sub(first * BOOKED + 1), nil
  end
  return t
end

-- stay puts the bookings back as they were, up to the one that was not moved.
local function stay(l, t)
  l.booked, l.led = l.whole:sub(1, first_booking(l.whole, 1, t + 1) * BOOKED), nil
end

-- give_up takes the units of a booking that has come off all limits, if a log has them and no state
-- is another by now. Of the bookings it leaves those that are used without asking again, which have
-- a grace.
local function give_up(r)
  local come = false
  for _, l in ipairs(r.limits) do
    if l.cost > 0 and (l.found or l.st.generation ~= l.st.booked_in) then return false end
    come = come or l.cost > 0 and l.width > 0 and settle_log(l, r.booked, 0) ~= nil
  end
  for _, l in ipairs(come and r.limits or {}) do
    if l.cost > 0 then L.settle(l, r.booked, 0, 0) end
    local firm = {}
    for i = 0, #l.booked / BOOKED - 1 do
      local t, e = booking(l, i)
      if e > t then firm[#firm + 1] = l.booked:sub(i * BOOKED + 1, (i + 1) * BOOKED) end
    end
    l.whole, l.booked, l.led = l.booked, table.concat(firm), nil
  end
  return come
end

-- room returns the first instant at which all limits have room, for a request that waits behind all
-- bookings or not. It sets l.retry to the wait until each of them has.
local function room(r, waits)
  local t, latest, fit = now, now, true
  for _, l in ipairs(r.limits) do
    local last = l.booked and last_booking(l) or 0
    local fits = not (waits and last > 0) and l.of.fits(l, l.cost)
    latest, fit, l.retry = max(latest, last), fit and fits, 0
    if not fits or last > 0 then
      -- From the last booking on, room that is there stays there.
      local at = l.of.earliest(l, max(now, last), l.cost)
      if not fits then l.retry = at == NEVER and NEVER or at - now end
      if at == NEVER or t == NEVER then t = NEVER else t = max(t, at) end
    end
  end
  if fit then return now end
  return t == NEVER and t or max(t, latest)
end

-- make_way puts those that are booked for later than t behind, for a booking before them. It
-- returns when that ends: no later than they do.
local function make_way(r, t)
  local ends = t + r.grace
  for _, l in ipairs(r.limits) do
    local first = first_booking(l.booked, 1, t + 1)
    local _, e = booking(l, first)
    l.ends, ends = e, min(ends, e or ends)
    l.booked, l.behind, l.led = l.booked:sub(1, first * BOOKED), l.booked:sub(first * BOOKED + 1), nil
  end
  return ends
end

-- insert books before those that are behind. Where there are too many, it adds to the last of all.
local function insert(l, t, e)
  local last = (#l.booked + #l.behind) / BOOKED - 1
  if l.cost == 0 or dead(l) then
    l.changed = not dead(l)
  elseif last < MAX_BOOKINGS - 1 then
    L.book(l, t, min(e, l.ends or e))
  elseif l.behind == '' then
    change_booking(l, last, l.cost)
    l.changed, l.led = true, nil
  else
    local all = { booked = l.booked .. l.behind, booked_sum = l.booked_sum }
    change_booking(all, last, l.cost)
    l.behind, l.booked_sum, l.changed, l.led = all.booked:sub(#l.booked + 1), all.booked_sum, true, nil
  end
end

-- save_all writes the states that hold one of the limits, each once.
local function save_all(r, written)
  for _, part in ipairs(r.parts) do
    if written[part.st] then
      written[part.st] = nil
      save(part.st)
    end
  end
end

-- charge charges, books or leases every claim that costs something. What is forced, or was booked
-- and has come, is booked between the others. It returns the time of the charge, 0 if none did.
local function charge(r, t, come)
  local at, written = 0, {}
  local e = t + (r.grace or 0)
  local between = r.mode == FORCE or come
  if t > now then
    if between then e = make_way(r, t) end
    for _, l in ipairs(r.limits) do
      local _, last = booking(l, #l.booked / BOOKED - 1)
      e = max(e, last or 0)
    end
  end
  for _, l in ipairs(r.limits) do
    if l.cost > 0 then
      at = t > now and e or max(1, now + r.lease - r.age)
      if l.found then
        change_booking(l, l.found, -l.cost)
        l.led = nil
      end
      if r.mode == FORCE then l.cost = min(l.cost, max(0, MAX_UNITS / 2 - l.of.used(l))) end
      if t > now and between then
        insert(l, t, e)
      elseif t > now then
        L.book(l, t, e)
      else
        l.of.charge(l, at, r.id, r.refilled)
      end
      if l.st then written[l.st] = true end
    end
  end
  for _, l in ipairs(r.limits) do
    if t > now then l.used, l.reset = L.at(l, t) end -- as of then, before those behind it
    if l.behind and l.behind ~= '' then l.booked, l.led = l.booked .. l.behind, nil end
  end
  save_all(r, written)
  return at
end

-- deny returns the claim that denied, and the ban that this leads to.
local function deny(r, bans, strikes)
  local l = r.limits[1]
  for i = #r.limits, 1, -1 do
    if r.limits[i].retry ~= 0 then l = r.limits[i] end
  end
  if r.after > 0 and r.mode == TAKE and l.cost > 0 and bans[l.claim] ~= nil then
    return l.claim, G.strike(KEYS[strikes + l.claim], bans[l.claim], r)
  end
  return l.claim
end

-- memory is what the request's id remembers of its charge.
local function memory(r, at, charged)
  local out = { pack('<c8dd', r.id, at, charged), r.note }
  for _, part in ipairs(r.parts) do
    if part.st then out[#out + 1] = pack('<I4', part.st.generation or 0) end
  end
  return table.concat(out)
end

-- answer packs the reply.
local function answer(r, flags, decider, retry, at, charged, ban, recalled)
  local out, directories, other = { '' }, {}, false
  for _, part in ipairs(r.parts) do
    local st = part.st
    if st then
      out[#out + 1] = pack('<I4', st.generation or 0)
      local directory = st.saved or st.stored or ''
      if directory == part.set[SIG] or directory:byte() ~= PLAIN_STATE
        or #directory > DIRECTORY_START + DIRECTORY_LIMIT * MAX_KNOWN then directory = '' end
      other = other or directory ~= ''
      directories[#directories + 1] = pack('B', #directory) .. directory
    end
    for _, l in ipairs(part.asked) do
      local used, reset = l.used or l.of.used(l), l.reset or l.of.reset(l)
      out[#out + 1] = pack('<ddd', bounded(used, 0), bounded(reset, 0), bounded(l.retry or 0, NEVER))
    end
  end
  if other then flags, out[#out + 1] = flags + DIRECTORIES, table.concat(directories) end
  if recalled then flags, out[#out + 1] = flags + RECALLED, pack('<I2', #recalled) .. recalled end
  out[1] = pack('<BBddd', flags, decider, bounded(retry, NEVER), bounded(at, 0), at > 0 and charged or 0)
  if ban then out[1] = out[1] .. pack('<d', bounded(ban.til - now, 0)) end
  return table.concat(out)
end

-- decide answers a run of equal requests. It returns the reply, and of how many requests that is
-- the answer.
function G.decide(run, base, equal, id)
  local r = read_request(ARGV[1], run, base, id)
  local cost = r.limits[1].cost
  local charged = fit(r, equal)
  local after_parts = base + r.keys
  local bans, banned
  if r.bans_on == 1 then bans, banned = G.bans_open(after_parts, r.claims, r.shared) end
  local id_key = id and charged > 0 and KEYS[after_parts + r.bans_on * 2 * r.claims + 1]
  local seen, repeats, til, recalled
  if id_key and r.booked == 0 and not banned then seen, repeats, til = G.id_open(id_key, id, r.life) end

  local flags, decider, retry, at = 0, 1, 0, 0
  if seen and (repeats < MAX_REPEATS or r.mode == FORCE) then
    flags, retry = REPEAT, seen - now >= ID_STEP and seen - now or 0
    if r.mode ~= TAKE or retry == 0 then
      flags = REPEAT + ALLOWED
      if not looking then
        if repeats < MAX_REPEATS then call('ZINCRBY', id_key, '1', id) end
        recalled = G.id_charge(id_key, id, til)
      end
    end
  else
    local old = r.booked > 0 and not banned and leave(r)
    local come = r.booked > 0 and not (old or banned or looking) and give_up(r)
    local full = false
    for _, l in ipairs(r.limits) do full = full or l.booked and #l.booked >= MAX_BOOKINGS * BOOKED end
    local t = r.mode == FORCE and now + r.longest or room(r, r.mode == RESERVE and not (banned or come))
    for _, l in ipairs(come and r.limits or {}) do l.booked, l.led = l.whole, nil end
    retry = t == NEVER and NEVER or t - now
    local allowed = t == now or r.mode == FORCE
    if r.lease > 0 and allowed and not banned then
      for _, l in ipairs(r.limits) do
        if l.of.used(l) + charged > l.cap then -- what is booked is in the way
          allowed, retry, l.retry = false, r.lease, r.lease
        end
      end
    end
    if r.mode == RESERVE and t > now then allowed = retry <= r.longest and (old or come or not full) end

    if banned then
      flags, decider, retry = BANNED, banned, bans[banned].til - now
    elseif old and (not allowed or t >= old) then -- its booking cannot be moved up
      flags, retry, at = ALLOWED, old - now, r.booked
      for _, l in ipairs(r.limits) do
        stay(l, old)
        l.used, l.reset = L.at(l, old)
      end
    elseif allowed then
      flags = ALLOWED
      if not looking then at = charge(r, t, come) end
      if at > 0 and id_key and not seen and r.booked == 0 then
        G.id_record(id_key, id, t + r.lease, r.life, memory(r, at, charged))
      end
    else
      if come then -- it has given up what it had
        local written = {}
        for _, l in ipairs(r.limits) do written[l.st] = written[l.st] or l.changed end
        save_all(r, written)
      end
      local ban
      decider, ban = deny(r, bans, after_parts + (r.claims or 0))
      if ban then
        flags, bans[decider] = BANNED, ban
        if retry ~= NEVER and ban.til - now > retry then retry = ban.til - now end
      end
    end
  end
  if at > 0 and id_key and r.booked > 0 then G.id_rebook(id_key, id, memory(r, at, charged)) end
  local reply = answer(r, flags, decider, retry, at, charged, flags == BANNED and bans[decider], recalled)

  -- A clock that stepped back is not forgotten where the request was denied.
  if not looking then
    if bans and flags ~= REPEAT then G.bans_heal(bans, after_parts, r.limits) end
    if flags == 0 or flags == BANNED and not banned then
      for _, part in ipairs(r.parts) do
        if part.st and part.st.stepped and part.st.cost > 0 then heal(part.st) end
        local l = part.asked[1]
        if l.of == H and l.stepped and l.cost > 0 then heal_holders(l) end
      end
    end
  end
  return reply, equal > 1 and at > 0 and charged / cost or equal
end
