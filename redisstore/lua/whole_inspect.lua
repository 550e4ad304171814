-- whole_inspect: what inspections show of states that were read as a whole.

-- each calls f with every entry in the window and every booking of a log: when it was charged or is
-- booked for, when it leaves the window, and how many units it has. An entry of a fixed window, or
-- of a period, was charged at its start.
function W.each(c, f)
  local limit = c.limit
  if limit.width == 0 then return end
  each_entry(c, function(stamp, n)
    local from = stamp
    if limit.this then
      from = stamp <= limit.this and limit.ended or limit.this
    elseif limit.span == 0 then
      from = stamp - limit.slice
    end
    f(from, stamp + limit.span, n)
  end)
  for i = 0, last_index(c) do
    local t, e, n = booking(c, i)
    f(t, stamp_of(limit, e) + limit.span, n)
  end
end

W.used = used
