-- log: that of one limit, see docs/rules.md.
--
--   l.entries  string of entries in order of time: stamp (7 bytes, big-endian), units
--   l.sum      the sum of their units
--   l.width    bytes of an entry, and l.format its struct format

local FORMATS = { [8] = '>I7I1', [10] = '>I7I3', [12] = '>I7I5', [14] = '>I7I7' }

-- stamp is the instant from which a charge at t counts for a span.
local function stamp(l, t)
  if l.slice == 0 then return t end
  return t - t % l.slice + l.slice
end

-- entry returns stamp and units of the ith entry, which counts from 1; nothing if there is none.
local function entry(l, i)
  if i < 1 or i * l.width > #l.entries then return end
  return unpack_at(l.format, l.entries, (i - 1) * l.width + 1)
end

local function entry_count(l) return #l.entries / l.width end

-- widen makes entries wide enough for so many units.
local function widen(l, units)
  local width = l.width
  while units >= 256 ^ (width - ENTRY_STAMP) do width = width + 2 end
  if width == l.width then return end
  local out, format = {}, FORMATS[width]
  for i = 1, entry_count(l) do out[i] = pack(format, entry(l, i)) end
  l.entries, l.width, l.format = table.concat(out), width, format
end

-- put replaces the entries from i to j by one.
local function put(l, i, j, at, units)
  widen(l, units)
  l.entries = l.entries:sub(1, (i - 1) * l.width) .. pack(l.format, at, units) .. l.entries:sub(j * l.width + 1)
end

local function append(l, at, n)
  local q = entry_count(l)
  local newest, units = entry(l, q)
  while newest and newest > at do
    q = q - 1
    newest, units = entry(l, q)
  end
  if newest == at then
    put(l, q, q, at, units + n)
  else
    put(l, q + 1, q, at, n)
    if entry_count(l) > MAX_ENTRIES then
      local _, oldest = entry(l, 1)
      local later, more = entry(l, 2)
      put(l, 1, 2, later, oldest + more)
    end
  end
  l.sum = l.sum + n
end

-- drop_old drops what has left the window.
local function drop_old(l)
  local i, cut = 1, now - l.span
  local at, units = entry(l, 1)
  while at and at <= cut do
    l.sum, i = l.sum - units, i + 1
    at, units = entry(l, i)
  end
  l.entries = l.entries:sub((i - 1) * l.width + 1)
  if l.sum < 0 or l.entries == '' and l.sum > 0 then error('the sum of a log is wrong') end
end

-- shift_log follows a clock that stepped back.
local function shift_log(l, back)
  local out = {}
  for i = 1, entry_count(l) do
    local at, units = entry(l, i)
    out[i] = pack(l.format, max(0, at - back), units)
  end
  l.entries = table.concat(out)
end

-- log_fits reports whether n more fit now, beside all that is booked.
local function log_fits(l, n)
  local room, span = l.cap - n, l.span
  if l.sum > room then return false end
  room = room - l.sum
  local ends, entries_gone, come, gone = stamp(l, now), 0, 0, 0
  local t, e, units = booking(l, 0)
  local oldest, left = entry(l, 1)          -- the next to leave of the entries
  local next_e, next_n = e and stamp(l, e), units -- and of the bookings
  while t and t - span < ends do
    while oldest and oldest <= t - span do
      room, entries_gone = room + left, entries_gone + 1
      oldest, left = entry(l, entries_gone + 1)
    end
    while gone < come and next_e <= t - span do
      room, gone = room + next_n, gone + 1
      local _
      _, next_e, next_n = booking(l, gone)
      next_e = stamp(l, next_e)
    end
    if units > room then return false end
    room, come = room - units, come + 1
    t, e, units = booking(l, come)
  end
  return true
end

-- latest returns an iterator over the stamps and units of all entries and bookings, the latest
-- first.
local function latest(l)
  local i, j = entry_count(l), #l.booked / BOOKED - 1
  local at, units = entry(l, i)
  local _, e, n = booking(l, j)
  if e then e = stamp(l, e) end
  return function()
    local found, m
    if e and (not at or e >= at) then
      found, m, j = e, n, j - 1
      _, e, n = booking(l, j)
      if e then e = stamp(l, e) end
    elseif at then
      found, m, i = at, units, i - 1
      at, units = entry(l, i)
    end
    return found, m
  end
end

-- log_earliest is the first instant from t on at which n more fit; t is not before the last
-- booking.
local function log_earliest(l, t, n)
  local room, span = l.cap - n, l.span
  if l.booked == '' then -- the oldest leave, few as a rule
    local left, i = l.sum, 1
    while left > room do
      local at, units = entry(l, i)
      if not at then break end -- the sum is wrong: the state is damaged
      left, i, t = left - units, i + 1, max(t, at + span)
    end
    return t
  end
  -- The latest stay, as many as there is room for.
  local slice, i, j = l.slice, entry_count(l), #l.booked - BOOKED + 1
  local at, units = entry(l, i)
  local e, _, n = unpack_at(BOOKING, l.booked, j)
  if slice > 0 then e = e - e % slice + slice end
  while at or e do
    local latest, m = at, units
    if e and (not at or e >= at) then
      latest, m, j = e, n, j - BOOKED
      e = nil
      if j > 0 then
        e, _, n = unpack_at(BOOKING, l.booked, j)
        if slice > 0 then e = e - e % slice + slice end
      end
    else
      i = i - 1
      at, units = entry(l, i)
    end
    if latest + span <= t then return t end
    if m > room then return latest + span end
    room = room - m
  end
  return t
end

-- log_at returns what counts at t, and when that has left the window; t is not before the last
-- booking.
local function log_at(l, t)
  local inside, newest = 0, nil
  for at, units in latest(l) do
    if at + l.span <= t then break end
    inside, newest = inside + units, newest or at
  end
  return inside, newest and newest + l.span or t
end

-- settle_log changes the charge made at t by delta units, if it is in the window. It returns by how
-- many it did.
local function settle_log(l, t, delta)
  local sought = stamp(l, t)
  if sought <= now - l.span then return end
  for i = entry_count(l), 1, -1 do
    local at, units = entry(l, i)
    if at < sought then return end
    if at == sought then
      local left = max(0, units + delta)
      if left > 0 then
        put(l, i, i, at, left)
      else
        l.entries = l.entries:sub(1, (i - 1) * l.width) .. l.entries:sub(i * l.width + 1)
      end
      l.sum = l.sum + (left - units)
      return left - units
    end
  end
end

-- give_back_log takes up to n units off the entries, the oldest first, but not off those that lie
-- ahead. It reports whether there were any.
local function give_back_log(l, n)
  local ahead, i, left = stamp(l, now), 1, n
  local at, units = entry(l, 1)
  while left > 0 and at and at <= ahead do
    local back = min(left, units)
    left, l.sum = left - back, l.sum - back
    if back == units then
      i = i + 1
    else
      put(l, i, i, at, units - back)
    end
    at, units = entry(l, i)
  end
  l.entries = l.entries:sub((i - 1) * l.width + 1)
  return left < n
end
