-- bounds: numbers as replies and commands hold them.

-- bounded is a number as a reply may hold it; only a damaged state has others.
local function bounded(v, least)
  if v >= least and v <= MAX_UNITS then return v end
  return v > MAX_UNITS and MAX_UNITS or math.max(0, least)
end

-- ttl turns a duration from now into milliseconds, as text, with a second to spare.
local function ttl(micros) return ('%d'):format(math.ceil(micros / 1000) + 1000) end
