-- settle changes charges to limits. See docs/rules.md. A recent charge is in the newest entry of a
-- log, or in its back. To change an older one, the script reads the state as a whole.

-- most_raise returns the number of units by which a charge can change: delta, or less if delta
-- would raise a meter further above its capacity than `debt` allows, or a sum or level above
-- MAX_UNITS. `ahead` is the number of units booked or held.
local function most_raise(st, at, delta, debt, ahead)
  if delta <= 0 then return delta end
  local set = st[SET]
  local cap, unit, sum = set[at + CAP], set[at + UNIT], 0
  if set[at + WIDTH] > 0 then
    sum = st[set[at + LOG] + SUM]
    if delta > MAX_UNITS - (sum + ahead) then delta = MAX_UNITS - (sum + ahead) end
  end
  if unit > 0 then
    local level = st[set[at + METER] + LEVEL]
    local used = math.max(sum, math.ceil(level / unit)) + ahead
    delta = math.min(delta, math.max(0, cap - used) + (debt > 0 and debt or cap),
      math.floor((MAX_UNITS - level) / unit) - ahead)
  end
  return delta > 0 and delta or 0
end

-- settle_log changes the entry with the given stamp in a log by delta units, but not below 0. It
-- returns the change, or nothing if there is no such entry.
local function settle_log(st, at, stamp, delta)
  local set, whole = st[SET], st[WHOLE]
  local o = set[at + LOG]
  local shape, found, units = st[o + SHAPE], st[o + NEWEST], st[o + NEWEST_UNITS]
  if units == 0 or stamp <= set[at + CUT] or stamp < st[o + OLDEST] or stamp > found then return end
  if found == stamp and units + delta > 0 then -- only the head changes
    if whole then
      whole.widen(st, at, units + delta)
    elseif units + delta > set[at + CAP] then
      error('rare') -- entries must be wider
    end
    st[o + NEWEST_UNITS], st[o + SUM] = units + delta, st[o + SUM] + delta
    return delta
  end
  if whole and delta > 0 then whole.widen(st, at, st[o + SUM] + delta) end
  local entry, width = set[at + ENTRY], set[at + WIDTH]
  limits = limits or make_limits()
  local text, first, ends = limits.piece(st, at, whole and 0 or math.floor(shape / SHAPE_BLOCKS) % 32 + 1)
  local last = text:sub(first, ends) .. struct.pack(entry, found, units)
  local from = #last - width + 1
  while found > stamp and from > 1 do
    from = from - width
    found, units = struct.unpack(entry, last, from)
  end
  local left = math.max(0, units + delta)
  if found ~= stamp then
    if whole then return end
    error('rare')
  end
  if left == 0 and st[o + SUM] == units then -- nothing is left
    st[REWRITE] = st[REWRITE] or shape >= SHAPE_SLOTS -- an empty log needs no ring
    st[o + SUM], st[o + NEWEST], st[o + NEWEST_UNITS] = 0, 0, 0
    st[o + OLDEST], st[o + SHAPE] = FAR, shape - shape % SHAPE_SLOTS
    if whole then st[FRONTS][at] = '' end
    return -units
  end
  if not whole and (left > set[at + CAP] or left == 0 and #last == width) then error('rare') end
  last = last:sub(1, from - 1) .. (left > 0 and struct.pack(entry, stamp, left) or '') .. last:sub(from + width)
  local before = #last / width - 1
  st[o + NEWEST], st[o + NEWEST_UNITS] = struct.unpack(entry, last, before * width + 1)
  if whole then
    st[FRONTS][at] = last:sub(1, before * width)
  else
    if before > 0 then put(st, set[at + BACK], last:sub(1, before * width)) end
    st[o + SHAPE] = shape + SHAPE_BACK * (before - math.floor(shape / SHAPE_BACK) % BLOCK)
  end
  if whole or shape % SHAPE_BACK == 0 then st[o + OLDEST] = struct.unpack(entry, last) end -- no entry is older
  st[o + SUM] = st[o + SUM] + (left - units)
  return left - units
end

-- settle_limit changes a charge of `cost` units, made to a limit at `instant`, by delta units. It
-- reports whether it found the charge.
local function settle_limit(st, at, cost, instant, delta)
  local set = st[SET]
  local unit, m = set[at + UNIT], set[at + METER]
  if set[at + WIDTH] > 0 then
    local by = settle_log(st, at, stamp_of(set, at, instant), delta)
    if by and unit > 0 then st[m + LEVEL] = math.max(0, st[m + LEVEL] + by * unit) end
    return by ~= nil
  elseif unit <= 0 then
    return false
  end
  local tick, level = set[at + TICK], st[m + LEVEL]
  local refilled = math.max(0, math.floor(now / tick) - math.floor(instant / tick)) * set[at + RATE]
  if refilled >= cost * unit then return false end -- it was refilled completely
  if delta < 0 then
    level = level - math.min(level, math.max(0, -delta * unit - refilled))
  else
    level = level + delta * unit
  end
  st[m + LEVEL] = level
  return true
end

-- horizon_of returns how long a charge to a limit can be settled after it was made.
local function horizon_of(set, at)
  local unit, slice = set[at + UNIT], set[at + SLICE]
  if unit < 0 then return 2 * (slice - set[at + ENDED]) end
  if set[at + WIDTH] > 0 then return set[at + SPAN] + slice end
  if unit == 0 then return 0 end
  return (math.ceil(set[at + CAP] * unit / set[at + RATE]) + 1) * set[at + TICK]
end

-- longest_horizon returns how long a charge to the limits of a set can be settled after it was
-- made.
local function longest_horizon(set)
  local longest = 0
  for at = LIMITS, set[LAST_LIMIT], STRIDE do longest = math.max(longest, horizon_of(set, at)) end
  return longest
end

-- settle changes a charge of `cost` units, made at `instant`, to `total` units, on all requested
-- limits of a state. It returns:
--
--   the maximum number of units not charged to a limit, or nil if the charge was not found
--   how long the charge can be settled after it was made
--   whether any limit was more than half used
--   the time until which the state must be kept
local function settle(st, debt, cost, total, instant)
  local set = st[SET]
  local dropped, longest, tight, missed, need = nil, 0, false, false, set[NEED]
  for at = LIMITS, set[LAST_LIMIT], STRIDE do
    local asked, unit, cap, o, m = set[at + ASKED], set[at + UNIT], set[at + CAP], set[at + LOG], set[at + METER]
    if asked == COUNTED and st[o + SUM] > 0 and total > cost then error('rare') end
    if asked == 1 then
      local crowded = set[at + WIDTH] > 0 and 2 * st[o + SUM] > cap or unit > 0 and 2 * st[m + LEVEL] > cap * unit
      local by = most_raise(st, at, total - cost, debt, 0)
      if settle_limit(st, at, cost, instant, by) then
        local left = total - cost - by
        if not dropped or left > dropped then dropped = left end
        tight = tight or crowded
      else
        missed = true
      end
      if unit > 0 then
        need = math.max(need, now + (math.ceil(st[m + LEVEL] / set[at + RATE]) + 1) * set[at + TICK] + KEPT)
      end
      local horizon = horizon_of(set, at)
      if horizon > longest then longest = horizon end
    end
  end
  if st[REWRITE] or missed and dropped then error('rare') end
  return dropped, longest, tight, need
end
