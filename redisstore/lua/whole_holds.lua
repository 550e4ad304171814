-- whole_holds: settling and extending holds in states that were read as a whole (amend_holds.lua).

-- amend_hold is amend_holds for one limit.
local function amend_hold(c, h)
  local cost = math.max(h.cost, h.reported)
  local at = h.at
  if c.stock then
    if h.open and h.known then
      W.release(c, h.expires, math.max(0, h.cost - h.reported))
      if h.til then W.hold(c, h.til, math.max(0, h.cost - h.total), c.charges) end
    end
    if h.open or not c.charges then
      return charge_more(c.st, c.at, h.total - h.reported, h.debt, W.held_sum(c) + c.booked_sum)
    end
    at = h.expires
  end
  return amend_rate(c.st, c.at, h, cost, at, W.held_sum(c) + c.booked_sum)
end

-- amend_holds is that of amend_holds.lua.
function W.amend_holds(counts, h)
  local dropped, tight = 0, false
  for _, c in ipairs(counts) do
    tight = tight or c.booked ~= '' or 2 * W.used(c) > c.st[SET][c.at + CAP]
    if not W.dead(c) then
      dropped = math.max(dropped, amend_hold(c, h))
      c.led = nil
    end
    c.changed = true
  end
  return dropped, tight
end
