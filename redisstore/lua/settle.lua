-- settle: changing what a limit was charged, see docs/rules.md. What was charged a moment ago is
-- the newest entry of a log, or in its back; otherwise see whole_settle.lua.

-- settle_log changes the charge of the ith limit that is stamped so by delta units. It returns by
-- how many it did, nothing if there is none.
local function settle_log(st, i, at, o, stamp, delta)
  local set = st[SET]
  local entry, width, shape = set[at + ENTRY], set[at + WIDTH], st[o + SHAPE]
  if stamp <= set[at + CUT] or stamp < st[o + OLDEST] or stamp > st[o + NEWEST] then return end
  local found, units = st[o + NEWEST], st[o + NEWEST_UNITS]
  if found == stamp and units + delta > 0 and units + delta <= set[at + CAP] then -- only the head changes
    st[o + NEWEST_UNITS], st[o + SUM] = units + delta, st[o + SUM] + delta
    return delta
  end
  local text, first, ends = piece(st, i, at, o, math.floor(shape / SHAPE_BLOCKS) % 32 + 1)
  local last = text:sub(first, ends) .. struct.pack(entry, found, units)
  local from = #last - width + 1
  while found > stamp and from > 1 do
    from = from - width
    found, units = struct.unpack(entry, last, from)
  end
  local left = math.max(0, units + delta)
  if left == 0 and st[o + SUM] == units and found == stamp then -- nothing is left
    st[o + SUM], st[o + NEWEST], st[o + OLDEST], st[o + SHAPE] = 0, 0, FAR, 0
    return -units
  end
  if found ~= stamp or left > set[at + CAP] or left == 0 and #last == width then error('rare') end
  last = last:sub(1, from - 1) .. (left > 0 and struct.pack(entry, stamp, left) or '') .. last:sub(from + width)
  local before = #last / width - 1
  st[o + NEWEST], st[o + NEWEST_UNITS] = struct.unpack(entry, last, before * width + 1)
  if before > 0 then put(st, set[at + BACK], last:sub(1, before * width)) end
  st[o + SHAPE] = shape + SHAPE_BACK * (before - math.floor(shape / SHAPE_BACK) % BLOCK)
  if shape % SHAPE_BACK == 0 then st[o + OLDEST] = struct.unpack(entry, last) end -- there is nothing before
  st[o + SUM] = st[o + SUM] + (left - units)
  return left - units
end

-- settle_limit changes what the ith limit was charged, by an amendment to a claim. It returns what
-- is charged then, nothing if that was not found.
local function settle_limit(st, i, at, o, a, claim)
  local set = st[SET]
  local unit, width, slice, delta = set[at + UNIT], set[at + WIDTH], set[at + SLICE], a.cost - claim.cost
  local m = width > 0 and o + LOG_FIELDS or o -- its meter
  if delta > 0 then
    local level = set[at + METER] > 0 and st[m + LEVEL] or 0
    delta = math.min(delta, most_raise(width > 0 and st[o + SUM] or nil, level, unit, set[at + CAP], 0, a.debt))
  end
  if width > 0 then
    local stamp = slice > 0 and claim.at - claim.at % slice + slice or claim.at
    if unit < 0 then -- a calendar limit
      if claim.at >= slice then error('rare') end
      stamp = claim.at < set[at + RATE] and set[at + RATE] or slice
    end
    local by = settle_log(st, i, at, o, stamp, delta)
    if not by then return end
    if unit > 0 then st[m + LEVEL] = math.max(0, st[m + LEVEL] + by * unit) end
  elseif unit > 0 then
    local tick = set[at + TICK]
    local refilled = math.max(0, math.floor(now / tick) - math.floor(claim.at / tick)) * set[at + RATE]
    local level = settled_level(st[m + LEVEL], claim.cost, delta, unit, refilled)
    if not level then return end
    st[m + LEVEL] = level
  else
    return
  end
  return claim.cost + delta
end

-- settle settles all limits of a state that are asked about, with those that a claim was charged
-- to. It returns the least that is charged then, nil if nothing was found; for how long after its
-- time the charge can be settled; whether one of them was more than half used; and until when the
-- state must be kept, nil if nothing is left of it.
local function settle(st, a, claim)
  local set, o, at = st[SET], FIRST_HEAD, LIMITS
  local least, horizon, tight, missed, empty = nil, 0, false, false, 0
  local need = set[NEED]
  for i = 1, set[N] do
    local width, unit, cap = set[at + WIDTH], set[at + UNIT], set[at + CAP]
    local meter = width > 0 and o + LOG_FIELDS or o
    if set[at + ASKED] == 1 then
      local crowded = width > 0 and 2 * st[o + SUM] > cap or unit > 0 and 2 * st[meter + LEVEL] > cap * unit
      local units = settle_limit(st, i, at, o, a, claim)
      if units then least, tight = math.min(least or units, units), tight or crowded else missed = true end
      if unit > 0 then
        local til = now + (math.ceil(st[meter + LEVEL] / set[at + RATE]) + 1) * set[at + TICK] + KEPT
        need = math.max(need, til)
      end
      if width > 0 then
        local slice = set[at + SLICE]
        horizon = math.max(horizon, unit < 0 and 2 * (slice - set[at + RATE]) or set[at + SPAN] + slice)
      elseif unit > 0 then
        horizon = math.max(horizon, (math.ceil(cap * unit / set[at + RATE]) + 1) * set[at + TICK])
      end
    end
    if width > 0 and st[o + SUM] == 0 and set[at + METER] == 0 then empty = empty + 1 end
    o, at = meter + set[at + METER], at + STRIDE
  end
  if empty == set[N] then need = nil end
  if empty > 0 and need or st[REWRITE] or missed and (least or a.cost > claim.cost) then error('rare') end
  return least, horizon, tight, need
end
