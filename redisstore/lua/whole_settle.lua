-- whole_settle: settling in states that were read as a whole.

-- settle is settle of settle.lua.
function W.settle(counts, a, x)
  local dropped, horizon, tight = nil, 0, false
  for _, c in ipairs(counts) do
    local set, delta, found = c.st[SET], x.total - x.cost, false
    local crowded = c.booked ~= '' or 2 * W.used(c) > set[c.at + CAP]
    if delta > 0 then delta = math.min(delta, most_raise(c.st, c.at, a.debt, c.booked_sum + W.held_sum(c))) end
    local i = x.at > now and find_booking(c, x.at)
    if W.dead(c) then
      found = false
    elseif i then
      W.change_booking(c, i, delta)
      found = true
    else
      found = settle_limit(c.st, c.at, x, delta)
    end
    if found then
      c.led, c.changed = nil, true
      dropped, tight = math.max(dropped or 0, x.total - x.cost - delta), tight or crowded
    end
    horizon = math.max(horizon, horizon_of(set, c.at))
  end
  return dropped, horizon, tight
end
