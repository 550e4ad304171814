-- entries has functions for the log entries of states that were read as a whole (whole.lua).

-- entries iterates over the stamps and units of a log, the oldest first.
function W.entries(c)
  local st, set, from = c.st, c.st[SET], 1
  local text, width, entry, o = st[FRONTS][c.at], set[c.at + WIDTH], set[c.at + ENTRY], set[c.at + LOG]
  return function()
    local at = from
    from = from + math.max(1, width)
    if at < #text then return struct.unpack(entry, text, at) end
    if at == #text + 1 and st[o + NEWEST] > 0 then return st[o + NEWEST], st[o + NEWEST_UNITS] end
  end
end

-- widen makes the entries of a log wide enough for the given units, and at least `least` bytes
-- wide.
function W.widen(st, at, units, least)
  local set = st[SET]
  local old, width, out = set[at + WIDTH], math.max(set[at + WIDTH], least or 0), {}
  while units >= 256 ^ (width - ENTRY_STAMP) do width = width + 2 end
  if width == old then return end
  local format, text = '>I7I' .. width - ENTRY_STAMP, st[FRONTS][at]
  for i = 1, #text, math.max(1, old) do
    local stamp, n = struct.unpack(set[at + ENTRY], text, i)
    out[#out + 1] = struct.pack(format, stamp, n)
  end
  set[at + WIDTH], set[at + ENTRY], st[FRONTS][at] = width, format, table.concat(out)
end

-- set_entries replaces the entries of a log with a list of stamps and units.
function W.set_entries(c, list)
  local st, at, set, out = c.st, c.at, c.st[SET], {}
  local o, n = set[at + LOG], #list
  for i = 1, n do W.widen(st, at, list[i][2]) end
  for i = 1, n - 1 do out[i] = struct.pack(set[at + ENTRY], list[i][1], list[i][2]) end
  st[FRONTS][at] = table.concat(out)
  st[o + NEWEST], st[o + NEWEST_UNITS], st[o + OLDEST] = 0, 0, FAR
  if n > 0 then st[o + NEWEST], st[o + NEWEST_UNITS], st[o + OLDEST] = list[n][1], list[n][2], list[1][1] end
end

-- merge_oldest merges the two oldest entries of a log if it has too many.
local function merge_oldest(st, at)
  local set, text = st[SET], st[FRONTS][at]
  if #text < MAX_ENTRIES * set[at + WIDTH] then return end
  local _, units, second = struct.unpack(set[at + ENTRY], text)
  local stamp, more = struct.unpack(set[at + ENTRY], text, second)
  W.widen(st, at, units + more)
  local rest = st[FRONTS][at]:sub(2 * set[at + WIDTH] + 1)
  st[FRONTS][at] = struct.pack(set[at + ENTRY], stamp, units + more) .. rest
  st[set[at + LOG] + OLDEST] = stamp
end

-- insert prepares a log for units whose stamp differs from that of the newest entry. If the stamp
-- is older, insert adds the units to the entry with that stamp, or adds an entry, and returns true.
-- If the stamp is newer, insert appends the newest entry to the older entries, so that the caller
-- can replace it, and returns false.
function W.insert(st, at, stamp, units)
  local set = st[SET]
  local o = set[at + LOG]
  local newest, behind = st[o + NEWEST], ''
  if newest > stamp then W.widen(st, at, st[o + SUM]) end -- the sum already includes the units
  local entry, width, text = set[at + ENTRY], set[at + WIDTH], st[FRONTS][at]
  if newest > stamp then
    local from = #text + 1
    while from > 1 do -- inserted stamps are usually recent
      local found, n = struct.unpack(entry, text, from - width)
      if found < stamp then break end
      from = from - width
      if found == stamp then
        units, behind = units + n, text:sub(from + width)
        break
      end
      behind = text:sub(from)
    end
    st[FRONTS][at] = text:sub(1, from - 1) .. struct.pack(entry, stamp, units) .. behind
    st[o + OLDEST] = math.min(st[o + OLDEST], stamp)
  else
    st[FRONTS][at] = text .. struct.pack(entry, newest, st[o + NEWEST_UNITS])
  end
  merge_oldest(st, at)
  return newest > stamp
end

-- open_periods finds the periods of a calendar limit around now. The stored entries determine the
-- periods. Without entries, the limit's own calendar determines them. If the current period began
-- later than in that calendar, open_periods sets c.began to the time at which the period began, and
-- save stores that time as an entry without units.
function W.open_periods(c)
  local set, at = c.st[SET], c.at
  local far, own, late, mark, list = now + 2 * c.window, set[at + THIS], 0, nil, {}
  for stamp, units in W.entries(c) do
    if stamp > far then
      late = late + units
    else
      if units == 0 then mark = stamp end
      list[#list + 1] = { stamp, units }
    end
  end
  if late > 0 then -- a clock was far ahead
    local i = 1
    while list[i] and list[i][1] < own do i = i + 1 end
    if list[i] and list[i][1] == own then list[i][2] = list[i][2] + late else table.insert(list, i, { own, late }) end
  end
  local ended, this, following, kept = set[at + ENDED], nil, nil, {}
  for _, entry in ipairs(list) do
    local stamp = entry[1]
    if stamp <= now then
      ended = math.max(ended, stamp)
    elseif not this then
      this = stamp
    elseif not following then
      following = stamp
    end
    if entry[2] > 0 then kept[#kept + 1] = entry end
  end
  W.set_entries(c, kept)
  W.drop_bookings(c, far)
  c.began = mark and mark > now and mark or ended > set[at + ENDED] and ended or nil
  if this then
    local next_end = set[at + FOLLOWING]
    following = following or own > this and own or next_end > this and next_end or this + c.window
    set[at + THIS], set[at + STAMP], set[at + FOLLOWING] = this, this, following
  end
  set[at + ENDED] = ended
end
