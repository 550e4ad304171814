-- limits computes the usage of the limits that are asked about, see docs/rules.md. It is for states
-- without bookings; bookings.lua has the rules for those with bookings.

-- usage_of returns what is used of a limit: used, reset-after, and retry-after for a cost, 0 if it
-- fits. If the cost is -FAR, retry-after is 0. What is held of it counts, too.
local function usage_of(st, at, cost, now, held)
  local set = st[SET]
  local cap, unit, o, used, reset, wait = set[at + CAP], set[at + UNIT], set[at + LOG], 0, 0, 0
  if cost > cap or cap == 0 and cost >= 0 then wait = NEVER end
  if held > 0 and wait == 0 and st[o + SUM] + held > cap - cost then
    if not st[WHOLE] then error('rare') end -- it depends on when some of it expires
    wait = 1
  end
  if set[at + WIDTH] > 0 and st[o + SUM] > 0 then
    used, reset = st[o + SUM], math.min(FAR, st[o + NEWEST] + set[at + SPAN]) - now
    if used > cap - cost and wait == 0 then
      local left, k, text, from, ends = used, 0, piece(st, at, 0)
      while text and left > cap - cost do -- the oldest have to leave, one after the other
        if from > ends then
          k = k + 1
          text, from, ends = piece(st, at, k)
        else
          local stamp, units
          stamp, units, from = struct.unpack(set[at + ENTRY], text, from)
          left, wait = left - units, stamp + set[at + SPAN] - now
        end
      end
      if wait < 1 or wait > FAR then wait = 1 end -- only a damaged state says so
    end
  end
  if unit > 0 and st[set[at + METER] + LEVEL] > 0 then
    local level, rate, tick = st[set[at + METER] + LEVEL], set[at + RATE], set[at + TICK]
    local ticks, over = math.floor(now / tick), level - (cap - cost) * unit
    used = math.max(used, math.ceil(level / unit))
    reset = math.max(reset, math.min(FAR, (ticks + math.ceil(level / rate)) * tick) - now)
    if over > 0 and wait >= 0 then
      local til = (ticks + math.ceil(over / rate)) * tick
      wait = til > FAR and NEVER or math.max(wait, til - now)
    end
  end
  return used + held, reset, wait
end

-- usage packs what is used of each limit that is asked about. It also returns the longest
-- retry-after for a cost.
local function usage(st, cost, now)
  local set, out, longest, held, goes = st[SET], '', 0, 0, 0
  for at = LIMITS, LIMITS + (set[N] - 1) * STRIDE, STRIDE do
    local asked = set[at + ASKED]
    if asked == COUNTED or asked == HOLDING then
      held, goes = st[set[at + LOG] + SUM], st[set[at + LOG] + NEWEST]
    elseif asked > 0 then
      local used, reset, wait = usage_of(st, at, cost, now, held)
      if held > 0 then reset, held = math.max(reset, goes - now), 0 end
      out = struct.pack('<c0ddd', out, used, reset, wait)
      if wait == NEVER or longest == NEVER then longest = NEVER else longest = math.max(longest, wait) end
    end
  end
  return out, longest
end
