-- whole_settle settles charges in states that were read as a whole.

-- settle does the same as settle of settle.lua.
function W.settle(counts, debt, cost, total, instant)
  local dropped, horizon, tight = nil, 0, false
  for _, c in ipairs(counts) do
    local set, found = c.st[SET], false
    local crowded = c.booked ~= '' or 2 * W.used(c) > set[c.at + CAP]
    local delta = most_raise(c.st, c.at, total - cost, debt, c.booked_sum + W.held_sum(c))
    local i = instant > now and find_booking(c, instant)
    if W.dead(c) then
      found = false
    elseif i then
      W.change_booking(c, i, delta)
      found = true
    else
      found = settle_limit(c.st, c.at, cost, instant, delta)
    end
    if found then
      c.led, c.changed = nil, true
      dropped, tight = math.max(dropped or 0, total - cost - delta), tight or crowded
    end
    horizon = math.max(horizon, horizon_of(set, c.at))
  end
  return dropped, horizon, tight
end
