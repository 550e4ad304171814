-- changes: by how much a settlement changes what is used of a limit, see docs/rules.md.

-- most_raise is by how many units a charge can be raised at most: a meter (unit > 0) only so far
-- above its capacity, and no sum or level past MAX_UNITS. Sum is nil if there is no log.
local function most_raise(sum, level, unit, cap, booked, debt)
  local most = MAX_UNITS - (sum and sum + booked or 0)
  if unit > 0 then
    local used = math.max(sum or 0, math.ceil(level / unit)) + booked
    most = math.min(most, math.max(0, cap - used) + (debt > 0 and debt or cap),
      math.floor((MAX_UNITS - level) / unit) - booked)
  end
  return math.max(0, most)
end

-- settled_level returns the level of a bucket in which what was charged at a cost changes by delta
-- units; nil if it was refilled wholly. Refilled is what a meter has given back since.
local function settled_level(level, cost, delta, unit, refilled)
  if refilled >= cost * unit then return nil end
  if delta >= 0 then return level + delta * unit end
  return level - math.min(level, math.max(0, -delta * unit - refilled))
end
