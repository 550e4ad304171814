-- bounds has functions for the numbers in replies and commands, and for times.

-- bounded limits a number to the range that a reply may contain. A damaged state may have numbers
-- outside this range, and bookings may add up to more than 2^53 units.
local function bounded(v, least)
  if v >= least and v <= MAX_UNITS then return v end
  return v > MAX_UNITS and MAX_UNITS or math.max(0, least)
end

-- ttl converts microseconds to milliseconds, adds one second, and returns the sum as text.
local function ttl(micros) return ('%d'):format(math.ceil(micros / 1000) + 1000) end

-- keep makes a key live for at least the given number of microseconds. It sets the TTL an eighth
-- longer than needed, so that the next calls do not have to set it.
local function keep(key, micros)
  if redis.call('PTTL', key) < micros / 1000 + 1000 then redis.call('PEXPIRE', key, ttl(micros + micros / 8)) end
end

-- expiry returns the time at which a hold expires if it begins or is extended at the time `at`.
local function expiry(at, life)
  local ends = at + life
  return ends + -ends % math.ceil(life / 64)
end

-- stamp_of returns the stamp of a charge at t. The charge counts until its stamp plus the span.
local function stamp_of(set, at, t)
  local slice = set[at + SLICE]
  if set[at + UNIT] < 0 then -- a calendar limit
    if t < set[at + ENDED] then return set[at + ENDED] end
    if t < slice then return slice end
    if not set.windows then error('rare') end
    return t < set[at + FOLLOWING] and set[at + FOLLOWING] or set[at + FOLLOWING] + set.windows[at]
  end
  return slice > 0 and t - t % slice + slice or t
end
