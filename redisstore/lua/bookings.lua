-- bookings: those of one limit, see docs/rules.md. A booking may be used from T to E.
--
--   l.booked      string of records in order of time: E (7 bytes, big-endian), E - T (2), units (7)
--   l.booked_sum  the sum of their units, or any number above 2^53 if it is more than that

local BOOKING = '>I7I2I7'
local BOOKED = 16 -- bytes of a record

-- booking returns T, E and the units of the record at i, which counts from 0; nothing if there is
-- none.
local function booking(l, i)
  local at = i * BOOKED
  if at < 0 or at >= #l.booked then return end
  local e, grace, n = unpack_at(BOOKING, l.booked, at + 1)
  return e - grace, e, n
end

-- last_booking returns T of the last booking, 0 if there is none.
local function last_booking(l)
  return booking(l, #l.booked / BOOKED - 1) or 0
end

-- plus adds units to a sum of bookings. 2^53 + 1 would be rounded to 2^53.
local function plus(sum, n)
  if n > MAX_UNITS - sum then return 2 * MAX_UNITS end
  return sum + n
end

-- unsum takes units that were taken off a booking off the sum too. A sum above 2^53 is not exact:
-- it is computed again.
local function unsum(l, n)
  if l.booked_sum <= MAX_UNITS then
    l.booked_sum = l.booked_sum - n
    return
  end
  local sum, i = 0, 0
  local t, _, units = booking(l, 0)
  while t and sum <= MAX_UNITS do
    sum, i = plus(sum, units), i + 1
    t, _, units = booking(l, i)
  end
  l.booked_sum = sum
end

-- first_booking returns the number of the first booking whose T (1) or E (2) is not before an
-- instant, of all bookings if there is none.
local function first_booking(booked, which, instant)
  local low, high = 0, #booked / BOOKED
  while low < high do
    local middle = floor((low + high) / 2)
    local e, grace = unpack_at(BOOKING, booked, middle * BOOKED + 1)
    if (which == 1 and e - grace or e) < instant then low = middle + 1 else high = middle end
  end
  return low
end

-- take_due removes the bookings whose T has come, and calls f with each.
local function take_due(l, now, f)
  local due, sum = first_booking(l.booked, 1, now + 1), 0
  for i = 0, due - 1 do
    local t, e, n = booking(l, i)
    f(t, e, n)
    sum = sum + n
  end
  if due > 0 then
    l.booked = l.booked:sub(due * BOOKED + 1)
    unsum(l, sum)
  end
end

-- add_booking books n units at t, behind all others.
local function add_booking(l, t, e, n)
  local i = #l.booked / BOOKED - 1
  local last_t, last_e, last_n = booking(l, i)
  local rest = l.booked
  l.booked_sum = plus(l.booked_sum, n)
  if last_t == t and last_e == e then rest, n = rest:sub(1, i * BOOKED), last_n + n end
  l.booked = rest .. pack(BOOKING, e, e - t, n)
end

-- find_booking returns the number of the first booking that ends at an instant, or nothing.
local function find_booking(l, instant)
  local i = first_booking(l.booked, 2, instant)
  local _, e = booking(l, i)
  return e == instant and i or nil
end

-- change_booking changes the units of a booking, which goes if nothing is left.
local function change_booking(l, i, delta)
  local t, e, n = booking(l, i)
  local left = max(0, n + delta)
  local record = left > 0 and pack(BOOKING, e, e - t, left) or ''
  l.booked = l.booked:sub(1, i * BOOKED) .. record .. l.booked:sub((i + 1) * BOOKED + 1)
  unsum(l, n - left)
end

-- shift_bookings follows a clock that stepped back.
local function shift_bookings(l, back)
  local out = {}
  for i = 0, #l.booked / BOOKED - 1 do
    local e, grace, n = unpack_at(BOOKING, l.booked, i * BOOKED + 1)
    out[i + 1] = pack(BOOKING, max(grace, e - back), grace, n)
  end
  l.booked = table.concat(out)
end
