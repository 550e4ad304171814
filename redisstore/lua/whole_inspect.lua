-- whole_inspect shows states that were read as a whole, for inspections.

-- each calls f with every entry in the window and every booking of a log: the time of the charge or
-- booking, when it leaves the window, and its units. The time of an entry of a fixed window or a
-- period is the start of that window or period.
function W.each(c, f)
  local set, at = c.st[SET], c.at
  local span = set[at + SPAN]
  if set[at + WIDTH] == 0 then return end
  for stamp, units in W.entries(c) do
    local from = stamp
    if set[at + UNIT] < 0 then
      from = stamp <= set[at + THIS] and set[at + ENDED] or set[at + THIS]
    elseif span == 0 then
      from = stamp - set[at + SLICE]
    end
    f(from, stamp + span, units)
  end
  for i = 0, last_index(c) do
    local t, e, n = booking(c, i)
    f(t, stamp_of(set, at, e) + span, n)
  end
end
