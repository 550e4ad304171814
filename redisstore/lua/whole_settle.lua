-- whole_settle: settling in states that were read as a whole.

-- settle_entry changes the units of the entry at a stamp, which goes if none are left. It returns
-- by how many, nothing if there is no such entry.
local function settle_entry(c, stamp, delta)
  local i, found, units = find_entry(c, stamp)
  if found ~= stamp or stamp <= c.limit.cut then return end
  local left = math.max(0, units + delta)
  replace(c, i, 1, stamp, left)
  c.sum = c.sum + (left - units)
  return left - units
end

local function most(c, debt)
  return most_raise(c.limit.width > 0 and c.sum or nil, c.level, c.limit.unit, c.limit.cap, c.booked_sum, debt)
end

-- settle_count changes a charge of a claim. It returns what is charged then, nothing if that was
-- not found.
local function settle_count(c, a, claim)
  local limit, delta, t = c.limit, a.cost - claim.cost, claim.at
  if delta > 0 then delta = math.min(delta, most(c, a.debt)) end
  local i = t > now and find_booking(c, t)
  if i then
    W.change_booking(c, i, delta)
  elseif limit.width > 0 then
    local by = settle_entry(c, stamp_of(limit, t), delta)
    if not by then return end
    if limit.unit > 0 then c.level = math.max(0, c.level + by * limit.unit) end
  else
    local refilled = math.max(0, math.floor(now / limit.tick) - math.floor(t / limit.tick)) * limit.rate
    local level = settled_level(c.level, claim.cost, delta, limit.unit, refilled)
    if not level then return end
    c.level = level
  end
  return claim.cost + delta
end

-- raise charges now what a claim really cost more. It returns what is charged then.
local function raise(c, a, claim)
  local by = math.min(a.cost - claim.cost, most(c, a.debt))
  if c.limit.width > 0 and by > 0 then W.insert(c, stamp_of(c.limit, now), by) end
  if c.limit.unit > 0 then c.level = c.level + by * c.limit.unit end
  return claim.cost + by
end

-- settle is settle of settle.lua. Known is whether the state may have the charge, and raises
-- whether it is raised otherwise.
function W.settle(counts, a, claim, known, raises)
  local least, horizon, tight = nil, 0, false
  for _, c in ipairs(counts) do
    local limit = c.limit
    local crowded = c.booked ~= '' or 2 * used(c) > limit.cap
    local units = not dead(c) and (known and settle_count(c, a, claim) or raises and raise(c, a, claim)) or nil
    if units then
      c.led, c.changed = nil, true
      least, tight = math.min(least or units, units), tight or crowded
    end
    if limit.width > 0 then
      horizon = math.max(horizon, limit.span + limit.slice)
    elseif limit.unit > 0 then
      horizon = math.max(horizon, (math.ceil(limit.cap * limit.unit / limit.rate) + 1) * limit.tick)
    end
  end
  return least, horizon, tight
end
