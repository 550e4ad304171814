-- bounds: numbers as replies and commands hold them, and times.

-- bounded returns a number within the bounds of replies. Only a damaged state has others.
local function bounded(v, least)
  if v >= least and v <= MAX_UNITS then return v end
  return v > MAX_UNITS and MAX_UNITS or math.max(0, least)
end

-- ttl turns a duration from now into milliseconds, as text, with a second to spare.
local function ttl(micros) return ('%d'):format(math.ceil(micros / 1000) + 1000) end

-- keep makes sure that a key lives for some microseconds more. It sets the TTL an eighth longer
-- than needed, so that the next calls do not have to set it.
local function keep(key, micros)
  if redis.call('PTTL', key) < micros / 1000 + 1000 then redis.call('PEXPIRE', key, ttl(micros + micros / 8)) end
end

-- expiry is when a hold expires that begins or is extended at an instant.
local function expiry(at, life)
  local ends = at + life
  return ends + -ends % math.ceil(life / 64)
end

-- stamp_of is the instant from which a charge at t counts for a span.
local function stamp_of(set, at, t)
  local slice = set[at + SLICE]
  if set[at + UNIT] < 0 then -- periods of a calendar
    if t < set[at + ENDED] then return set[at + ENDED] end
    if t < slice then return slice end
    if not set.windows then error('rare') end
    return t < set[at + FOLLOWING] and set[at + FOLLOWING] or set[at + FOLLOWING] + set.windows[at]
  end
  return slice > 0 and t - t % slice + slice or t
end
