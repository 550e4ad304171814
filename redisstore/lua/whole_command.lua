-- whole_command: what commands do to states that were read as a whole.

-- give_back takes up to n units off the entries, the oldest first, but not off those that lie
-- ahead, and off the meter. It reports whether there was anything to give back.
function W.give_back(c, n)
  local st, set, at, list, left = c.st, c.st[SET], c.at, {}, n
  local o, m, unit = set[at + LOG], set[at + METER], set[at + UNIT]
  local ends = stamp_of(set, at, now)
  for stamp, units in W.entries(c) do
    local back = stamp <= ends and math.min(left, units) or 0
    left = left - back
    if units > back then list[#list + 1] = { stamp, units - back } end
  end
  if left < n then
    W.set_entries(c, list)
    st[o + SUM], c.changed = st[o + SUM] - (n - left), true
  end
  if unit > 0 and st[m + LEVEL] > 0 then
    st[m + LEVEL], c.led, c.changed = st[m + LEVEL] - math.min(st[m + LEVEL], n * unit), nil, true
  end
  return c.changed
end

-- forget removes counts from a state, and with them the means to amend what was charged to it
-- before.
function W.forget(st, counts)
  if st[VALUE] == '' then return end
  local gone, left = {}, {}
  for _, c in ipairs(counts) do
    gone[c] = true
    if c.held then gone[c.held] = true end
  end
  for _, c in ipairs(st.counts) do
    if not gone[c] then left[#left + 1] = c end
  end
  st.counts, st[GENERATION] = left, generation
  W.save(st)
end
