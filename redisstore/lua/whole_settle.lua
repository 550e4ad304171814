-- whole_settle: settling in states that were read as a whole.

-- raise charges now what a claim really cost more.
local function raise(c, by)
  local st, set, at = c.st, c.st[SET], c.at
  local unit, m = set[at + UNIT], set[at + METER]
  if set[at + WIDTH] > 0 and by > 0 then add(st, at, stamp_of(set, at, now), by) end
  if unit > 0 then st[m + LEVEL] = st[m + LEVEL] + by * unit end
end

-- settle is settle of settle.lua. Known is whether the state may have the charge, and raises
-- whether it is raised otherwise.
function W.settle(counts, a, claim, known, raises)
  local least, horizon, tight = nil, 0, false
  for _, c in ipairs(counts) do
    local set, delta, found = c.st[SET], a.cost - claim.cost, false
    local crowded = c.booked ~= '' or 2 * W.used(c) > set[c.at + CAP]
    if delta > 0 then delta = math.min(delta, most_raise(c.st, c.at, a.debt, c.booked_sum)) end
    local i = known and claim.at > now and find_booking(c, claim.at)
    if W.dead(c) then
      found = false
    elseif i then
      W.change_booking(c, i, delta)
      found = true
    else
      found = known and settle_limit(c.st, c.at, claim, delta)
      if not found and raises then
        raise(c, delta)
        found = true
      end
    end
    if found then
      c.led, c.changed = nil, true
      least, tight = math.min(least or MAX_UNITS, claim.cost + delta), tight or crowded
    end
    horizon = math.max(horizon, horizon_of(set, c.at))
  end
  return least, horizon, tight
end
