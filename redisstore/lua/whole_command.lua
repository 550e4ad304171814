-- whole_command: what commands do to states that were read as a whole.

-- give_back takes up to n units off the entries, the oldest first, but not off those that lie
-- ahead, and off the meter. It reports whether there was anything to give back.
function W.give_back(c, n)
  local limit, left = c.limit, n
  while left > 0 and c.oldest <= stamp_of(limit, now) do
    local _, units = struct.unpack(limit.entry, c.entries)
    local back = math.min(left, units)
    replace(c, 0, 1, c.oldest, units - back)
    left, c.sum = left - back, c.sum - back
  end
  c.changed = left < n
  if limit.unit > 0 and c.level > 0 then
    c.level, c.led, c.changed = c.level - math.min(c.level, n * limit.unit), nil, true
  end
  return c.changed
end

-- forget removes counts from a state, and with them the means to amend what was charged to it
-- before.
function W.forget(st, counts)
  if not st.stored then return end
  local gone, left = {}, {}
  for _, c in ipairs(counts) do gone[c] = true end
  for _, c in ipairs(st.counts) do
    if not gone[c] then left[#left + 1] = c end
  end
  st.counts, st.generation = left, generation
  W.save(st)
end
