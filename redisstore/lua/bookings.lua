-- bookings keeps the bookings of one limit. See docs/rules.md. A booking can be used from T to E.
--
--   c.booked      string of records in order of time: E (7 bytes, big-endian), E - T (2), units (7)
--   c.booked_sum  the sum of their units; if that exceeds 2^53, any number above 2^53
--   c.led         { level, at, rate } of the meter after the last of them, if known

local BOOKING = '>I7I2I7'

-- booking returns T, E and the units of the record with index i, counted from 0, or nothing if
-- there is none.
local function booking(c, i)
  local at = i * BOOKED
  if at < 0 or at >= #c.booked then return end
  local e, grace, n = struct.unpack(BOOKING, c.booked, at + 1)
  return e - grace, e, n
end

local function last_index(c) return #c.booked / BOOKED - 1 end

-- last_booking returns T and E of the last booking, or 0 if there is none.
function W.last_booking(c)
  local t, e = booking(c, last_index(c))
  return t or 0, e or 0
end

-- plus adds units to a sum of bookings. It avoids sums just above 2^53, because 2^53 + 1 would be
-- rounded to 2^53.
local function plus(sum, n)
  if n > MAX_UNITS - sum then return 2 * MAX_UNITS end
  return sum + n
end

-- unsum lowers the sum by n units, which were removed from bookings. A sum above 2^53 is not exact:
-- instead of lowering such a sum, unsum adds up the remaining bookings.
local function unsum(c, n)
  if c.booked_sum <= MAX_UNITS then
    c.booked_sum = c.booked_sum - n
    return
  end
  local sum, i = 0, 0
  local t, _, units = booking(c, 0)
  while t and sum <= MAX_UNITS do
    sum, i = plus(sum, units), i + 1
    t, _, units = booking(c, i)
  end
  c.booked_sum = sum
end

-- first_booking returns the index of the first booking whose T (which = 1) or E (which = 2) is not
-- before `instant`. If there is none, it returns the number of bookings.
local function first_booking(booked, which, instant)
  local low, high = 0, #booked / BOOKED
  while low < high do
    local middle = math.floor((low + high) / 2)
    local e, grace = struct.unpack(BOOKING, booked, middle * BOOKED + 1)
    if (which == 1 and e - grace or e) < instant then low = middle + 1 else high = middle end
  end
  return low
end

-- drop_bookings drops the bookings whose T is after t.
function W.drop_bookings(c, t)
  local n = first_booking(c.booked, 1, t + 1) * BOOKED
  if n < #c.booked then
    c.booked, c.led, c.booked_sum = c.booked:sub(1, n), nil, 2 * MAX_UNITS
    unsum(c, 0)
  end
end

-- leaked returns the level of a meter at t, given its level at `from`. If t is before `from`, the
-- level is unchanged. That happens for a due booking after the clock stepped back.
function W.leaked(c, level, from, t)
  local set, at = c.st[SET], c.at
  if t <= from then return level end
  local tick = set[at + TICK]
  return math.max(0, level - (math.floor(t / tick) - math.floor(from / tick)) * set[at + RATE])
end

-- falls_to returns the instant at which a meter falls to the level `room`, given its level at t.
function W.falls_to(c, level, t, room)
  local set, at = c.st[SET], c.at
  if level <= room then return t end
  return (math.floor(t / set[at + TICK]) + math.ceil((level - room) / set[at + RATE])) * set[at + TICK]
end

-- take_due turns due bookings, whose T has passed, into charges.
function W.take_due(c)
  local st, set, at, due, sum = c.st, c.st[SET], c.at, first_booking(c.booked, 1, now + 1), 0
  local unit, m = set[at + UNIT], set[at + METER]
  for i = 0, due - 1 do
    local t, e, n = booking(c, i)
    local stamp = stamp_of(set, at, e)
    if set[at + WIDTH] > 0 and stamp > set[at + CUT] then add(st, at, stamp, n) end
    if unit <= 0 then
      c.led = nil
    elseif st[m + LEVEL_UNIT] > 0 then
      st[m + LEVEL] = math.min(MAX_UNITS, W.leaked(c, st[m + LEVEL], st[m + LEVEL_AT], t) + n * unit)
      st[m + LEVEL_AT] = math.max(st[m + LEVEL_AT], t)
    end
    sum = sum + n
  end
  if due > 0 then
    c.booked = c.booked:sub(due * BOOKED + 1)
    unsum(c, sum)
  end
end

-- lead returns the meter's level after all bookings, and the instant of that level. It stores both
-- with the bookings, because computing them takes a long time if there are many bookings.
function W.lead(c)
  local st, set, at = c.st, c.st[SET], c.at
  local rate, m = set[at + RATE], set[at + METER]
  if c.led and c.led[3] == rate then return c.led[1], c.led[2] end
  local level, led_at, i = st[m + LEVEL], st[m + LEVEL_AT], 0
  local t, _, n = booking(c, 0)
  while t do
    level = math.min(MAX_UNITS, W.leaked(c, level, led_at, t) + n * set[at + UNIT])
    led_at, i = math.max(led_at, t), i + 1
    t, _, n = booking(c, i)
  end
  c.led = { level, led_at, rate }
  return level, led_at
end

-- book adds a booking of the cost from t to e, after all other bookings.
function W.book(c, t, e)
  local set, n, rest, i = c.st[SET], c.cost, c.booked, last_index(c)
  local unit = set[c.at + UNIT]
  if unit > 0 then
    local level, led_at = W.lead(c)
    c.led = { math.min(MAX_UNITS, W.leaked(c, level, led_at, t) + n * unit), t, set[c.at + RATE] }
  else
    c.led = nil
  end
  local last_t, last_e, last_n = booking(c, i)
  c.changed, c.booked_sum = true, plus(c.booked_sum, n)
  if last_t == t and last_e == e then rest, n = rest:sub(1, i * BOOKED), last_n + n end
  c.booked = rest .. struct.pack(BOOKING, e, e - t, n)
end

-- find_booking returns the index of the first booking that ends at `instant`, or nil if there is
-- none.
local function find_booking(c, instant)
  local i = first_booking(c.booked, 2, instant)
  local _, e = booking(c, i)
  return e == instant and i or nil
end

-- change_booking changes the units of a booking by delta, and removes the booking if no units are
-- left.
function W.change_booking(c, i, delta)
  local t, e, n = booking(c, i)
  local left = math.max(0, n + delta)
  local record = left > 0 and struct.pack(BOOKING, e, e - t, left) or ''
  c.booked = c.booked:sub(1, i * BOOKED) .. record .. c.booked:sub((i + 1) * BOOKED + 1)
  unsum(c, n - left)
end

-- dead reports whether a limit is never refilled. Such a limit never has usage.
function W.dead(c)
  local set = c.st[SET]
  return set[c.at + WIDTH] == 0 and set[c.at + UNIT] == 0
end

-- used returns the usage of a limit, including bookings and held units.
function W.used(c)
  if W.dead(c) then return 0 end
  return (limits.usage_of(c.st, c.at, -FAR, now, W.held_sum(c))) + c.booked_sum
end

-- log_fits reports whether n more units fit into the log in addition to all bookings. It checks
-- them at each booking that comes before they leave. All bookings end after now, so they do not
-- leave earlier than units charged now: at such a booking, all earlier ones count.
local function log_fits(c, n)
  local set, at, booked = c.st[SET], c.at, c.booked
  local span, room = set[at + SPAN], set[at + CAP] - n - c.st[set[at + LOG] + SUM] - W.held_sum(c)
  local ends, oldest, expiring = stamp_of(set, at, now), W.entries(c), c.held and W.entries(c.held)
  local stamp, left = oldest() -- the next entry to leave
  local til, units_held -- the next hold to expire
  if expiring then til, units_held = expiring() end
  for from = 1, #booked, BOOKED do
    local e, grace, units = struct.unpack(BOOKING, booked, from)
    local gone = e - grace - span -- what has a stamp up to this instant leaves before the booking
    if gone >= ends then return true end
    while stamp and stamp <= gone do
      room = room + left
      stamp, left = oldest()
    end
    while til and stamp_of(set, at, til) <= gone do
      room = room + units_held
      til, units_held = expiring()
    end
    if units > room then return false end
    room = room - units
  end
  return true
end

-- meter_fits reports whether n more units fit into the meter in addition to all bookings.
local function meter_fits(c, n)
  local set, at = c.st[SET], c.at
  local unit = set[at + UNIT]
  local full, level, from = set[at + CAP] * unit, c.st[set[at + METER] + LEVEL] + n * unit, now
  for i = 0, last_index(c) do
    local t, _, units = booking(c, i)
    level = W.leaked(c, level, from, t)
    if level == 0 then return true end -- at t, a charge made now no longer has an effect
    if units * unit > full - level then return false end
    level, from = level + units * unit, t
  end
  return true
end

-- fits reports whether n more units fit now, in addition to all bookings.
function W.fits(c, n)
  local set, at = c.st[SET], c.at
  local _, _, wait = limits.usage_of(c.st, at, n, now, W.held_sum(c))
  if wait ~= 0 then return false end
  return (set[at + WIDTH] == 0 or log_fits(c, n)) and (set[at + UNIT] <= 0 or meter_fits(c, n))
end

-- latest iterates over the stamps and units of all entries and bookings, the latest first. If
-- with_held is set, it includes held units: their stamps are a span before the instant at which
-- they stop counting.
local function latest(c, with_held)
  local list, set, booked, from = {}, c.st[SET], c.booked, #c.booked + 1
  for stamp, units in W.entries(c) do list[#list + 1] = { stamp, units } end
  if with_held and c.held then
    for e, units in W.entries(c.held) do
      list[#list + 1] = { W.goes(c, e, W.books) - set[c.at + SPAN], units }
    end
    table.sort(list, function(a, b) return a[1] < b[1] end)
  end
  local last = #list
  return function()
    local entry, e, n, _ = list[last], nil, nil, nil
    if from > 1 then
      e, _, n = struct.unpack(BOOKING, booked, from - BOOKED)
      e = stamp_of(set, c.at, e)
    end
    if e and (not entry or e >= entry[1]) then
      from = from - BOOKED
      return e, n
    elseif entry then
      last = last - 1
      return entry[1], entry[2]
    end
  end
end

-- earliest returns the first instant at or after t at which n more units fit. No booking may be
-- later than t.
function W.earliest(c, t, n)
  local set, at = c.st[SET], c.at
  local room = set[at + CAP] - n
  if set[at + CAP] == 0 or room < 0 then return NEVER end
  if set[at + WIDTH] > 0 then -- the latest units may stay, as many as fit
    local left = room
    for stamp, units in latest(c, true) do
      if stamp + set[at + SPAN] <= t then break end
      if units > left then
        t = stamp + set[at + SPAN]
        break
      end
      left = left - units
    end
  end
  if set[at + UNIT] > 0 then
    local level, led_at = W.lead(c)
    t = W.falls_to(c, W.leaked(c, level, led_at, t), t, room * set[at + UNIT])
  end
  return t > MAX_UNITS and NEVER or t
end

-- resets returns the time from t until the usage is 0.
function W.resets(c, t)
  local set, at, til = c.st[SET], c.at, t
  if W.dead(c) then return 0 end
  local newest, _, e = c.st[set[at + LOG] + NEWEST], W.last_booking(c)
  if newest > 0 then til = math.max(til, newest + set[at + SPAN]) end
  if e > 0 and set[at + WIDTH] > 0 then til = math.max(til, stamp_of(set, at, e) + set[at + SPAN]) end
  if W.held_sum(c) > 0 then til = math.max(til, W.goes(c, c.st[set[c.held.at + LOG] + NEWEST])) end
  if set[at + UNIT] > 0 then
    local level, led_at = W.lead(c)
    local from = math.max(led_at, t)
    til = math.max(til, W.falls_to(c, W.leaked(c, level, led_at, from), from, 0))
  end
  return math.min(til, MAX_UNITS) - t
end

-- at returns the usage at t, and the time from t until the usage is 0. No booking may be later than
-- t.
function W.at(c, t)
  local set, at, inside = c.st[SET], c.at, 0
  for stamp, units in latest(c) do
    if set[at + WIDTH] == 0 or stamp + set[at + SPAN] <= t then break end
    inside = inside + units
  end
  if c.held then
    for e, units in W.entries(c.held) do
      if stamp_of(set, at, e) > t - set[at + SPAN] then inside = inside + units end
    end
  end
  if set[at + UNIT] > 0 then
    local level, led_at = W.lead(c)
    inside = math.max(inside, math.ceil(W.leaked(c, level, led_at, t) / set[at + UNIT]))
  end
  return inside, W.resets(c, t)
end

-- shift_bookings makes the times of bookings earlier by `back`, after the clock stepped back.
function W.shift_bookings(c, back)
  local out = {}
  for i = 0, last_index(c) do
    local e, grace, n = struct.unpack(BOOKING, c.booked, i * BOOKED + 1)
    out[i + 1] = struct.pack(BOOKING, math.max(grace, e - back), grace, n)
  end
  c.booked = table.concat(out)
end
