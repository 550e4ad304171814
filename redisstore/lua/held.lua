-- held keeps the held units of limits, in states that were read as a whole (whole.lua). See
-- docs/rules.md. The held units of a limit are stored as a separate limit. The stamps in the log of
-- that limit are the times at which holds expire.

-- find_held finds the table of a limit's held units, and stores it in c.held.
function W.find_held(c)
  if c.held then return end
  for _, h in ipairs(c.st.counts) do
    if h.algorithm == c.algorithm + HELD and h.window == c.window then
      c.held, h.main = h, c
      c.st[SET][h.at + ASKED], c.st[SET][h.at + CUT] = 1, now
    end
  end
end

function W.held_sum(c)
  return c.held and c.st[c.st[SET][c.held.at + LOG] + SUM] or 0
end

-- open_held drops or charges expired units. It lets no hold last longer than LONGEST_HOLD from now,
-- because the clock may have been far ahead before.
function W.open_held(c)
  local st, set, h = c.st, c.st[SET], c.held
  local o, far, list, sum, late = set[h.at + LOG], now + LONGEST_HOLD, {}, 0, 0
  if st[o + OLDEST] > now and st[o + NEWEST] <= far then return end
  for e, n in W.entries(h) do
    if e >= far then
      late = late + n
    elseif e > now then
      list[#list + 1], sum = { e, n }, sum + n
    elseif h.charges then
      local stamp = stamp_of(set, c.at, e)
      if stamp > set[c.at + CUT] then add(st, c.at, stamp, n) end
    end
  end
  if late > 0 then list[#list + 1] = { far, late } end
  W.set_entries(h, list)
  st[o + SUM] = sum + late
end

-- hold holds n units of a limit until e. If e is not in the future, the units have expired: hold
-- charges them if `charges` is set, and otherwise drops them.
function W.hold(c, e, n, charges)
  local st, set = c.st, c.st[SET]
  c.changed = true
  if n == 0 then return end
  if c.held then c.held.charges = charges end
  if e <= now then
    local stamp = stamp_of(set, c.at, e)
    if charges and stamp > set[c.at + CUT] then add(st, c.at, stamp, n) end
    return
  end
  if not c.held then
    c.held = W.find(st, c.algorithm + HELD, c.window)
    c.held.main, c.held.charges = c, charges
    set[c.held.at + ASKED], set[c.held.at + CUT] = 1, now
    W.widen(st, c.held.at, 0, set[c.at + WIDTH])
  end
  add(st, c.held.at, e, n)
end

-- release releases n units. It takes them from the entries that expire at e or later, the earliest
-- first. It takes the remainder from the other entries, the latest first.
function W.release(c, e, n)
  local st, h, list = c.st, c.held, {}
  c.changed = true
  if not h or n == 0 then return end
  local o, first = st[SET][h.at + LOG], nil
  for til, units in W.entries(h) do
    list[#list + 1] = { til, units }
    if not first and til >= e then first = #list end
  end
  first = first or #list + 1
  local left = n
  local function take(i)
    local by = math.min(left, list[i][2])
    list[i][2], left = list[i][2] - by, left - by
  end
  for i = first, #list do take(i) end
  for i = first - 1, 1, -1 do take(i) end
  local kept = {}
  for _, entry in ipairs(list) do
    if entry[2] > 0 then kept[#kept + 1] = entry end
  end
  W.set_entries(h, kept)
  st[o + SUM] = st[o + SUM] - (n - left)
end

-- goes returns the instant at which held units that expire at e stop counting if they are not
-- settled: at e or, if they are then charged, a span later. If books is set, it is always a span
-- later, because the units may be charged at any time until they expire.
function W.goes(c, e, books)
  if not books and not c.held.charges then return e end
  return stamp_of(c.st[SET], c.at, e) + c.st[SET][c.at + SPAN]
end
