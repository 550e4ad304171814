-- whole_holds settles and extends holds in states that were read as a whole (amend_holds.lua).

-- amend_hold settles or extends a hold under one limit. It returns the number of units not charged.
local function amend_hold(c, h)
  local estimate, total, reported, at = h[COST], h[TRUTH], h[REPORTED], h[CHARGED_AT]
  if c.stock then
    local open = h[ENDS] > now
    if open and h[KNOWN] then
      W.release(c, h[ENDS], math.max(0, estimate - reported))
      if h[TIL] then W.hold(c, h[TIL], math.max(0, estimate - total), c.charges) end
    end
    if open or not c.charges then
      return charge_more(c.st, c.at, total - reported, h[DEBT], W.held_sum(c) + c.booked_sum)
    end
    at = h[ENDS]
  end
  return amend_rate(c.st, c.at, h, math.max(estimate, reported), at, W.held_sum(c) + c.booked_sum)
end

-- amend_holds does the same as amend_holds of amend_holds.lua.
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
