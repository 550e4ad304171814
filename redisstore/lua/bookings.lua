-- bookings: those of one limit, see docs/rules.md. A booking may be used from T to E.
--
--   c.booked      string of records in order of time: E (7 bytes, big-endian), E - T (2), units (7)
--   c.booked_sum  the sum of their units, or any number above 2^53 if it is more than that
--   c.led         { level, at, rate } of the meter behind the last of them, if that is known

local BOOKING = '>I7I2I7'
local BOOKED = 16 -- bytes of a record

-- booking returns T, E and the units of the record at i, which counts from 0; nothing if there is
-- none.
local function booking(c, i)
  local at = i * BOOKED
  if at < 0 or at >= #c.booked then return end
  local e, grace, n = struct.unpack(BOOKING, c.booked, at + 1)
  return e - grace, e, n
end

local function last_index(c) return #c.booked / BOOKED - 1 end

-- last_booking returns T and E of the last booking, 0 if there is none.
function W.last_booking(c)
  local t, e = booking(c, last_index(c))
  return t or 0, e or 0
end

-- plus adds units to a sum of bookings. 2^53 + 1 would be rounded to 2^53.
local function plus(sum, n)
  if n > MAX_UNITS - sum then return 2 * MAX_UNITS end
  return sum + n
end

-- unsum takes units that were taken off a booking off the sum too. A sum above 2^53 is not exact:
-- it is computed again.
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

-- first_booking returns the number of the first booking whose T (1) or E (2) is not before an
-- instant, of all bookings if there is none.
local function first_booking(booked, which, instant)
  local low, high = 0, #booked / BOOKED
  while low < high do
    local middle = math.floor((low + high) / 2)
    local e, grace = struct.unpack(BOOKING, booked, middle * BOOKED + 1)
    if (which == 1 and e - grace or e) < instant then low = middle + 1 else high = middle end
  end
  return low
end

-- drop_bookings drops those that come after an instant.
function W.drop_bookings(c, t)
  local n = first_booking(c.booked, 1, t + 1) * BOOKED
  if n < #c.booked then
    c.booked, c.led, c.booked_sum = c.booked:sub(1, n), nil, 2 * MAX_UNITS
    unsum(c, 0)
  end
end

-- take_due turns the bookings whose T has come into charges.
function W.take_due(c)
  local limit, due, sum = c.limit, first_booking(c.booked, 1, now + 1), 0
  for i = 0, due - 1 do
    local t, e, n = booking(c, i)
    local stamp = stamp_of(limit, e)
    if limit.width > 0 and stamp > limit.cut then W.insert(c, stamp, n) end
    if limit.unit == 0 then
      c.led = nil
    elseif c.unit > 0 then
      c.level, c.at = math.min(MAX_UNITS, leak(limit, c.level, c.at, t) + n * limit.unit), math.max(c.at, t)
    end
    sum = sum + n
  end
  if due > 0 then
    c.booked = c.booked:sub(due * BOOKED + 1)
    unsum(c, sum)
  end
end

-- lead returns level and instant of the meter, led through all bookings. That is remembered with
-- them, for there may be many.
local function lead(c)
  local limit = c.limit
  if c.led and c.led[3] == limit.rate then return c.led[1], c.led[2] end
  local level, at, i = c.level, c.at, 0
  local t, _, n = booking(c, 0)
  while t do
    level, at, i = math.min(MAX_UNITS, leak(limit, level, at, t) + n * limit.unit), math.max(at, t), i + 1
    t, _, n = booking(c, i)
  end
  c.led = { level, at, limit.rate }
  return level, at
end

-- book books n units at t, behind all others.
function W.book(c, t, e)
  local limit, n, rest, i = c.limit, c.cost, c.booked, last_index(c)
  if limit.unit > 0 then
    local level, at = lead(c)
    c.led = { math.min(MAX_UNITS, leak(limit, level, at, t) + n * limit.unit), t, limit.rate }
  else
    c.led = nil
  end
  local last_t, last_e, last_n = booking(c, i)
  c.changed, c.booked_sum = true, plus(c.booked_sum, n)
  if last_t == t and last_e == e then rest, n = rest:sub(1, i * BOOKED), last_n + n end
  c.booked = rest .. struct.pack(BOOKING, e, e - t, n)
end

-- find_booking returns the number of the first booking that ends at an instant, or nothing.
local function find_booking(c, instant)
  local i = first_booking(c.booked, 2, instant)
  local _, e = booking(c, i)
  return e == instant and i or nil
end

-- change_booking changes the units of a booking, which goes if nothing is left.
function W.change_booking(c, i, delta)
  local t, e, n = booking(c, i)
  local left = math.max(0, n + delta)
  local record = left > 0 and struct.pack(BOOKING, e, e - t, left) or ''
  c.booked = c.booked:sub(1, i * BOOKED) .. record .. c.booked:sub((i + 1) * BOOKED + 1)
  unsum(c, n - left)
end

-- log_fits reports whether n more fit into the log now, beside all that is booked.
local function log_fits(c, n)
  local limit = c.limit
  local span, entry, width = limit.span, limit.entry, limit.width
  local room = limit.cap - n - c.sum
  local ends, gone, at = stamp_of(limit, now), 0, 1 -- at is where the next entry to leave is
  for i = 0, last_index(c) do
    local t, _, units = booking(c, i)
    if t - span >= ends then return true end
    while at < #c.entries do
      local oldest, left = struct.unpack(entry, c.entries, at)
      if oldest > t - span then break end
      room, at = room + left, at + width
    end
    while gone < i do
      local _, e, left = booking(c, gone)
      if stamp_of(limit, e) > t - span then break end
      room, gone = room + left, gone + 1
    end
    if units > room then return false end
    room = room - units
  end
  return true
end

-- meter_fits reports whether n more fit into the meter now, beside all that is booked.
local function meter_fits(c, n)
  local limit = c.limit
  local full, level, at = limit.cap * limit.unit, c.level + n * limit.unit, now
  for i = 0, last_index(c) do
    local t, _, units = booking(c, i)
    level = leak(limit, level, at, t)
    if level == 0 then return true end -- what is taken now is forgotten by then
    if units * limit.unit > full - level then return false end
    level, at = level + units * limit.unit, t
  end
  return true
end

-- fits reports whether n more fit now, beside all that is booked. A limit without capacity admits
-- nothing.
function W.fits(c, n)
  local limit = c.limit
  local room = limit.cap - n
  if limit.cap == 0 or room < 0 or c.sum > room or limit.unit > 0 and c.level > room * limit.unit then return false end
  return (limit.width == 0 or log_fits(c, n)) and (limit.unit == 0 or meter_fits(c, n))
end

-- latest returns an iterator over the stamps and units of all entries and bookings, the latest
-- first.
local function latest(c)
  local limit, i, at = c.limit, last_index(c), #c.entries - c.limit.width + 1
  return function()
    local stamp, units, e, n, _
    if at > 0 then stamp, units = struct.unpack(limit.entry, c.entries, at) end
    if i >= 0 then _, e, n = booking(c, i) end
    if e then e = stamp_of(limit, e) end
    if e and (not stamp or e >= stamp) then
      i = i - 1
      return e, n
    elseif stamp then
      at = at - limit.width
      return stamp, units
    end
  end
end

-- earliest is the first instant from t on at which n more fit; t is not before the last booking.
function W.earliest(c, t, n)
  local limit = c.limit
  local room = limit.cap - n
  if limit.cap == 0 or room < 0 then return NEVER end
  if limit.width > 0 then -- the latest stay, as many as there is room for
    local left = room
    for stamp, units in latest(c) do
      if stamp + limit.span <= t then break end
      if units > left then
        t = stamp + limit.span
        break
      end
      left = left - units
    end
  end
  if limit.unit > 0 then
    local level, at = lead(c)
    t = falls_to(limit, leak(limit, level, at, t), t, room * limit.unit)
  end
  return t > MAX_UNITS and NEVER or t
end

-- resets is the time until nothing is used.
function W.resets(c)
  local limit, til = c.limit, now
  if dead(c) then return 0 end
  if limit.width > 0 then
    local _, e = W.last_booking(c)
    til = math.max(til, c.newest > 0 and c.newest + limit.span or 0, e > 0 and stamp_of(limit, e) + limit.span or 0)
  end
  if limit.unit > 0 then
    local level, at = lead(c)
    local from = math.max(at, now)
    til = math.max(til, falls_to(limit, leak(limit, level, at, from), from, 0))
  end
  return math.min(til, MAX_UNITS) - now
end

-- at returns what is used at t, and how long after that nothing is; t is not before the last
-- booking.
function W.at(c, t)
  local limit, inside, til = c.limit, 0, t
  if limit.width > 0 then
    for stamp, units in latest(c) do
      if stamp + limit.span <= t then break end
      inside, til = inside + units, math.max(til, stamp + limit.span)
    end
  end
  if limit.unit > 0 then
    local level, at = lead(c)
    level = leak(limit, level, at, t)
    inside, til = math.max(inside, math.ceil(level / limit.unit)), math.max(til, falls_to(limit, level, t, 0))
  end
  return inside, math.min(til, MAX_UNITS) - t
end

-- shift_bookings follows a clock that stepped back.
local function shift_bookings(c, back)
  local out = {}
  for i = 0, last_index(c) do
    local e, grace, n = struct.unpack(BOOKING, c.booked, i * BOOKED + 1)
    out[i + 1] = struct.pack(BOOKING, math.max(grace, e - back), grace, n)
  end
  c.booked = table.concat(out)
end
