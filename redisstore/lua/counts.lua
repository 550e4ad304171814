-- counts: what is used of one limit, see docs/rules.md. This file and those up to the end of
-- make_whole (script.go) are for what is rare: a state that must be read or written as a whole,
-- because of bookings, a clock that stepped back, entries ahead of now, or limits that it does not
-- have yet. What finds that out fails before anything is written, and is done once more with W, the
-- functions that make_whole returns. W.looking is whether nothing is to be written.
--
-- A count c has
--
--   limit          its limit: algorithm, window, asked, cap, span, slice, width, entry, unit, rate,
--                  tick
--                  and cut, as the set has them (numbers.lua)
--   st, cost       its state; the units that are asked for
--   changed        whether it is to be written
--   entries        its log as a string
--   sum            the units of all entries
--   newest, units  stamp and units of the newest entry; 0 if there is none
--   oldest         the oldest stamp; FAR if there is none
--   level, at      of a meter its level, and as of when
--   unit           the unit with which that was counted; 0: there is no meter. The level rises by
--                  limit.unit per unit and falls by limit.rate per limit.tick.

local W = { looking = false }

-- stamp_of is the instant from which a charge at t counts for a span.
local function stamp_of(limit, t)
  if limit.this then -- periods of a calendar
    return t < limit.ended and limit.ended or t < limit.this and limit.this or t < limit.following and limit.following
      or limit.following + limit.window
  end
  if limit.slice == 0 then return t end
  return t - t % limit.slice + limit.slice
end

-- leak returns the level at t, given that at another instant. After a step back of the clock that
-- may be later: a booking that had come by then is before it.
local function leak(limit, level, at, t)
  if t <= at then return level end
  return math.max(0, level - (math.floor(t / limit.tick) - math.floor(at / limit.tick)) * limit.rate)
end

-- falls_to is when a level at t has fallen to what is given as room.
local function falls_to(limit, level, t, room)
  if level <= room then return t end
  return (math.floor(t / limit.tick) + math.ceil((level - room) / limit.rate)) * limit.tick
end

-- set_entries replaces the entries of a log.
local function set_entries(c, entries)
  c.entries, c.newest, c.units, c.oldest = entries, 0, 0, FAR
  if entries ~= '' then
    c.newest, c.units = struct.unpack(c.limit.entry, entries, #entries - c.limit.width + 1)
    c.oldest = struct.unpack(c.limit.entry, entries)
  end
end

-- each_entry calls f with every entry, until f returns something: that is returned.
local function each_entry(c, f)
  for at = 1, #c.entries, math.max(1, c.limit.width) do
    local stamp, units = struct.unpack(c.limit.entry, c.entries, at)
    local found = f(stamp, units, at)
    if found then return found end
  end
end

-- widen makes entries wide enough for so many units, and at least as wide as said.
local function widen(c, units, least)
  local width, out, limit = math.max(c.limit.width, least or 0), {}, c.limit
  while units >= 256 ^ (width - ENTRY_STAMP) do width = width + 2 end
  if width == limit.width then return end
  local format = '>I7I' .. width - ENTRY_STAMP
  each_entry(c, function(stamp, n) out[#out + 1] = struct.pack(format, stamp, n) end)
  limit.width, limit.entry, c.entries = width, format, table.concat(out)
end

-- find_entry returns the number of the first entry stamped t or later, which counts from 0, and its
-- stamp and units.
local function find_entry(c, t)
  local limit = c.limit
  local low, high = 0, #c.entries / limit.width
  while low < high do
    local middle = math.floor((low + high) / 2)
    if struct.unpack(limit.entry, c.entries, middle * limit.width + 1) < t then low = middle + 1 else high = middle end
  end
  if low * limit.width >= #c.entries then return low end
  return low, struct.unpack(limit.entry, c.entries, low * limit.width + 1)
end

-- replace replaces as many entries, from the ith on, by one, or by none if it has no units.
local function replace(c, i, count, stamp, units)
  widen(c, units)
  local width = c.limit.width
  local entry = units > 0 and struct.pack(c.limit.entry, stamp, units) or ''
  set_entries(c, c.entries:sub(1, i * width) .. entry .. c.entries:sub((i + count) * width + 1))
end

-- insert adds units at a stamp. Of too many entries, the two oldest become one.
function W.insert(c, stamp, n)
  local i, found, units = find_entry(c, stamp)
  c.sum = c.sum + n
  if found == stamp then return replace(c, i, 1, stamp, units + n) end
  replace(c, i, 0, stamp, n)
  if #c.entries > MAX_ENTRIES * c.limit.width then
    local _, oldest = struct.unpack(c.limit.entry, c.entries)
    local later, more = struct.unpack(c.limit.entry, c.entries, c.limit.width + 1)
    replace(c, 0, 2, later, oldest + more)
  end
end

-- drop_old drops what has left the window.
local function drop_old(c)
  local cut, left = c.limit.cut, c.sum
  if c.oldest > cut then return end
  local from = each_entry(c, function(stamp, units, at)
    if stamp > cut then return at end
    left = left - units
  end)
  set_entries(c, from and c.entries:sub(from) or '')
  c.sum = left
  if left < 0 or not from and left > 0 then error('the sum of a log is wrong') end
end

-- open_periods finds out which periods of the calendar are around now: what is stored says so, and
-- where nothing is, the limit's own calendar. c.began is when the period began that runs, if the
-- calendar does not know: an entry without units says so in the state.
local function open_periods(c)
  local limit, out, ended, this, following = c.limit, {}, c.limit.ended, nil, nil
  local far, own, late = now + 2 * limit.window, limit.this, 0
  local mark
  each_entry(c, function(stamp, units)
    if stamp > far then
      late = late + units
    else
      if units == 0 then mark = stamp end
      out[#out + 1] = { stamp, units }
    end
  end)
  if late > 0 then -- a clock was far ahead
    local i = 1
    while out[i] and out[i][1] < own do i = i + 1 end
    if out[i] and out[i][1] == own then out[i][2] = out[i][2] + late else table.insert(out, i, { own, late }) end
  end
  local kept = {}
  for _, entry in ipairs(out) do
    local stamp, units = entry[1], entry[2]
    if stamp <= now then
      ended = math.max(ended, stamp)
    elseif not this then
      this = stamp
    elseif not following then
      following = stamp
    end
    if units > 0 then
      widen(c, units)
      kept[#kept + 1] = struct.pack(limit.entry, stamp, units)
    end
  end
  set_entries(c, table.concat(kept))
  W.drop_bookings(c, far)
  c.began = mark and mark > now and mark or ended > limit.ended and ended or nil
  if this then
    following = following or own > this and own or limit.following > this and limit.following or this + limit.window
    limit.this, limit.following = this, following
  end
  limit.ended = ended
end

-- open brings a count up to date.
local function open(c)
  local limit = c.limit
  local unit = limit.unit
  if limit.this then open_periods(c) end
  if unit > 0 and c.unit > 0 and c.unit ~= unit then -- Max has changed
    c.level = math.min(math.ceil(c.level / c.unit), math.floor(MAX_UNITS / unit)) * unit
    c.unit, c.led = unit, nil
  end
  if limit.width > 0 then drop_old(c) end
  W.take_due(c)
  if unit > 0 then
    if c.unit > 0 then
      c.level = leak(limit, c.level, c.at, now)
    else -- it begins with what the log has
      c.level, c.unit, c.led = math.min(c.sum, math.floor(MAX_UNITS / unit)) * unit, unit, nil
    end
    c.at = now
  end
end

-- dead reports whether a limit is never refilled. It has used nothing.
local function dead(c) return c.limit.width == 0 and c.limit.unit == 0 end

local function used(c)
  if dead(c) then return 0 end
  local n, unit = c.sum, c.limit.unit
  if unit > 0 then n = math.max(n, math.ceil(c.level / unit)) end
  return n + c.booked_sum
end
