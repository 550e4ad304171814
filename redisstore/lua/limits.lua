-- limits: what a state says of the limits that are asked about, see docs/rules.md. Here nothing is
-- booked; otherwise see whole.lua.

-- usage returns what is used of each limit: used, reset-after and retry-after, packed. It also
-- returns the longest retry-after for a cost; 0 if it fits. If the cost is -FAR, all of them are 0.
local function usage(st, cost, now)
  local set, o, at, out, longest = st[SET], FIRST_HEAD, LIMITS, '', 0
  for i = 1, set[N] do
    local asked, cap, width, used, reset, wait = set[at + ASKED] == 1, set[at + CAP], set[at + WIDTH], 0, 0, 0
    if cost > cap or cap == 0 and cost >= 0 then wait = NEVER end
    if width > 0 then
      if asked and st[o + SUM] > 0 then
        used, reset = st[o + SUM], math.min(FAR, st[o + NEWEST] + set[at + SPAN]) - now
        if used > cap - cost and wait == 0 then
          local left, k, text, from, ends = used, 0, piece(st, i, at, o, 0)
          while left > cap - cost do -- the oldest have to leave, one after the other
            if from > ends then
              k = k + 1
              text, from, ends = piece(st, i, at, o, k)
            else
              local stamp, units
              stamp, units, from = struct.unpack(set[at + ENTRY], text, from)
              left, wait = left - units, stamp + set[at + SPAN] - now
            end
          end
          if wait < 1 or wait > FAR then wait = 1 end -- only a damaged state says so
        end
      end
      o = o + LOG_FIELDS
    end
    if set[at + METER] > 0 then
      local level, unit, rate, tick = st[o + LEVEL], set[at + UNIT], set[at + RATE], set[at + TICK]
      if asked and unit > 0 and level > 0 then
        local ticks, over = math.floor(now / tick), level - (cap - cost) * unit
        used = math.max(used, math.ceil(level / unit))
        reset = math.max(reset, math.min(FAR, (ticks + math.ceil(level / rate)) * tick) - now)
        if over > 0 and wait >= 0 then
          local til = (ticks + math.ceil(over / rate)) * tick
          wait = til > FAR and NEVER or math.max(wait, til - now)
        end
      end
      o = o + METER_FIELDS
    end
    if asked then
      out = struct.pack('<c0ddd', out, used, reset, wait)
      if wait == NEVER or longest == NEVER then longest = NEVER else longest = math.max(longest, wait) end
    end
    at = at + STRIDE
  end
  return out, longest
end
