-- waiting has functions for decisions on states that were read as a whole. See decide.lua and
-- docs/rules.md. part.counts has the tables c (whole.lua) of the limits that a part asks about.
-- c.behind has bookings that are set aside.

-- each_count calls f with the table of every limit of a request.
local function each_count(r, f)
  for _, part in ipairs(r) do
    for _, c in ipairs(part.counts or {}) do f(c) end
  end
end

function W.set_cost(r, cost)
  each_count(r, function(c) c.cost = cost end)
end

-- least returns how many units a part has room for. If a step is given and a limit has bookings,
-- least returns at most one step.
function W.least(part, step)
  local room = MAX_UNITS
  for _, c in ipairs(part.counts) do
    room = math.min(room, step and c.booked ~= '' and step or c.st[SET][c.at + CAP] - W.used(c))
  end
  return room
end

-- room returns whether a part has room now, the first instant at which it has room, and the T of
-- its last booking. A request that waits is placed after all bookings.
function W.room(part, waits)
  local all_fit, t, latest = true, now, 0
  for _, c in ipairs(part.counts) do
    local last = W.last_booking(c)
    local fits = not (waits and last > 0) and W.fits(c, c.cost)
    if not fits or last > 0 then
      -- After the last booking, available room stays available.
      local at = W.earliest(c, math.max(now, last), c.cost)
      if not fits then all_fit, c.retry = false, at == NEVER and NEVER or at - now end
      if at == NEVER or t == NEVER then t = NEVER else t = math.max(t, at) end
    end
    latest = math.max(latest, last)
  end
  return all_fit, t, latest
end

-- over reports whether a lease would take booked units, or more places than are free. If so, it
-- sets the wait to the length of the lease.
function W.over(r)
  local over, lease = false, r.options[LEASE]
  each_count(r, function(c)
    if W.used(c) + r.charged > c.st[SET][c.at + CAP] then over, r.retry, c.retry = true, lease, lease end
  end)
  for _, part in ipairs(r) do
    if part.c and part.c.held + r.charged > part.cap then over, r.retry, part.retry = true, lease, lease end
    for _, c in ipairs(part.counts or {}) do part.retry = c.retry or part.retry end
  end
  return over
end

-- let_go removes the booking that `leave` found in a limit but did not remove. It is called once
-- the request has a new time.
local function let_go(c)
  if not c.found then return end
  W.change_booking(c, c.found, -c.cost)
  c.led = nil
end

-- bounded_cost returns how many units a FORCE can charge to a limit.
local function bounded_cost(c) return math.min(c.cost, math.max(0, MAX_UNITS / 2 - W.used(c))) end

-- charge charges the limits of a part, or holds units of them. It adds the cost to their logs at
-- `instant`, if a charge at that time still counts. It adds the cost to their meters now, less what
-- the meters have refilled during REFILLED. It puts back the bookings that `leave` set aside.
function W.charge(part, instant, r)
  for _, c in ipairs(part.counts) do
    local st, set, at = c.st, c.st[SET], c.at
    local unit, m, stamp = set[at + UNIT], set[at + METER], stamp_of(set, at, instant)
    let_go(c)
    if r.options[FIT] == 2 then c.cost = math.max(0, c.cost - W.used(c)) end
    if r.options[MODE] == FORCE then c.cost = bounded_cost(c) end
    if part.cost > 0 and not W.dead(c) then
      c.changed = true
      if c.stock then
        W.hold(c, expiry(instant, r.options[HOLD]), c.cost, c.charges)
      elseif set[at + WIDTH] > 0 and c.cost > 0 and stamp > set[at + CUT] then
        add(st, at, stamp, c.cost)
      end
      if unit > 0 then
        local weight = math.min(c.cost, math.floor(MAX_UNITS / unit)) * unit
          - math.floor((r.options[REFILLED] or 0) / set[at + TICK]) * set[at + RATE]
        st[m + LEVEL], c.led = math.min(MAX_UNITS, st[m + LEVEL] + math.max(0, weight)), nil
      end
    end
    if c.behind then c.booked, c.led = c.booked .. c.behind, nil end
  end
end

-- usage packs the usage of each limit of a part: used, reset-after, retry-after.
function W.usage(part)
  local out = ''
  for _, c in ipairs(part.counts) do
    out = out .. struct.pack('<ddd', bounded(c.used or W.used(c), 0), bounded(c.resets or W.resets(c, now), 0),
      bounded(c.retry or 0, NEVER))
  end
  return out
end

-- split sets aside the bookings from index i on.
local function split(c, i)
  c.booked, c.behind, c.led = c.booked:sub(1, i * BOOKED), c.booked:sub(i * BOOKED + 1), nil
end

-- leave removes the booking to move up from all limits, and sets aside the bookings after it. It
-- returns the time of the booking. If a limit does not have the booking, leave changes nothing and
-- returns nil, and let_go removes the booking later.
function W.leave(r)
  local t, missed = nil, false
  for _, part in ipairs(r) do
    for _, c in ipairs(part.counts or {}) do
      c.found = c.cost > 0 and part.st[GENERATION] == part.booked_in and find_booking(c, r.options[MOVES])
      if c.found then
        local own = booking(c, c.found)
        t = math.min(t or own, own)
      end
      missed = missed or c.cost > 0 and not c.found
    end
  end
  if not t or missed then return end
  each_count(r, function(c)
    c.all_booked = c.booked
    if c.found then W.change_booking(c, c.found, -c.cost) end
    c.found = nil
    split(c, first_booking(c.booked, 1, t))
  end)
  return t
end

-- has_entry reports whether the log of a limit has an entry for a charge at `instant`.
local function has_entry(c, instant)
  local set, at = c.st[SET], c.at
  return set[at + WIDTH] > 0 and settle_log(c.st, at, stamp_of(set, at, instant), 0) ~= nil
end

-- give_up removes the units of a due booking from all limits, if a log has them and no state was
-- replaced since. It reports whether it removed them. If so, it also removes all tentative
-- bookings, which have no grace, until see_all restores them: a tentative booking cannot be used
-- before its request is decided again.
function W.give_up(r)
  local at, come = r.options[MOVES], false
  for _, part in ipairs(r) do
    if part.cost > 0 and part.st[GENERATION] ~= part.booked_in then return false end
    for _, c in ipairs(part.counts) do
      if c.found then return false end
      come = come or part.cost > 0 and has_entry(c, at)
    end
  end
  if not come then return false end
  for _, part in ipairs(r) do
    if part.cost > 0 then W.settle(part.counts, 0, part.cost, 0, at) end
  end
  each_count(r, function(c)
    local firm = {}
    for i = 0, last_index(c) do
      local t, e = booking(c, i)
      if e > t then firm[#firm + 1] = c.booked:sub(i * BOOKED + 1, (i + 1) * BOOKED) end
    end
    c.all_booked, c.booked, c.led = c.booked, table.concat(firm), nil
  end)
  return true
end

-- see_all restores the tentative bookings that give_up removed.
function W.see_all(r)
  each_count(r, function(c)
    c.booked, c.led = c.all_booked, nil
  end)
end

function W.save_changed(r)
  each_count(r, function(c)
    if c.changed then W.save_once(c.st) end
  end)
end

-- stay restores the bookings up to the booking at t, which was not moved, and records the usage at
-- t.
function W.stay(r, t)
  each_count(r, function(c)
    c.booked, c.led = c.all_booked:sub(1, first_booking(c.all_booked, 1, t + 1) * BOOKED), nil
    c.used, c.resets = W.at(c, t)
  end)
end

function W.full(r)
  local full = false
  each_count(r, function(c)
    full = full or #c.booked >= MAX_BOOKINGS * BOOKED
  end)
  return full
end

-- beyond reports whether t is after the next period of a calendar limit. Nothing can be booked
-- there, because later periods are not known.
function W.beyond(r, t)
  local beyond = false
  each_count(r, function(c)
    local set = c.st[SET]
    beyond = beyond or set[c.at + UNIT] < 0 and t >= set[c.at + FOLLOWING]
  end)
  return beyond
end

-- end_of returns the end of a booking at t. No earlier booking ends later. If `between` is set, the
-- booking goes before the later bookings: end_of sets those aside, and the booking ends no later
-- than they do.
local function end_of(r, t, between)
  local e = t + r.options[GRACE]
  if between then
    each_count(r, function(c)
      local first = first_booking(c.booked, 1, t + 1)
      local _, next_e = booking(c, first)
      c.ends, e = next_e, math.min(e, next_e or e)
      split(c, first)
    end)
  end
  each_count(r, function(c)
    local _, last = W.last_booking(c)
    e = math.max(e, last)
  end)
  return e
end

-- insert_booking adds a booking before the bookings that are set aside. If there are too many
-- bookings, it adds the units to the last one.
local function insert_booking(c, t, e)
  local last = (#c.booked + #c.behind) / BOOKED - 1
  if c.cost == 0 then
    c.changed = true
  elseif last < MAX_BOOKINGS - 1 then
    W.book(c, t, math.min(e, c.ends or e))
  else
    local before = #c.booked
    c.booked, c.changed, c.led = c.booked .. c.behind, true, nil
    W.change_booking(c, last, c.cost)
    c.booked, c.behind = c.booked:sub(1, before), c.booked:sub(before + 1)
    if c.behind == '' then c.behind = nil end
  end
end

-- book_all books every claim that costs something at t: between other bookings if the request is a
-- FORCE, or was booked before and is due. It returns the end of the new bookings. It records the
-- usage at t without the bookings that are set aside.
function W.book_all(r, t, come)
  local force = r.options[MODE] == FORCE
  local between = force or come
  local e = end_of(r, t, between)
  each_count(r, function(c)
    if c.cost == 0 then return end
    let_go(c)
    if force then c.cost = bounded_cost(c) end
    if not between then
      W.book(c, t, e)
    elseif not W.dead(c) then
      insert_booking(c, t, e)
    end
  end)
  each_count(r, function(c)
    c.used, c.resets = W.at(c, t)
    if (c.behind or '') ~= '' then c.booked, c.led = c.booked .. c.behind, nil end
  end)
  return e
end
