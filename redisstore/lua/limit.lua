-- One limit of one claim: a table l with what the limit says and the state that its
-- algorithm read.
--
-- A claim's spec holds: cost (8 bytes), number of limits (1); per limit algorithm
-- (1), capacity, window, then burst times (sliding) or unit and rate (bucket) (8 each)

-- open_limit reads the nth limit of a spec and its state under key. Every limit has
-- the verbs open, earliest and charge: those of logs are in log.lua, those of other
-- algorithms in l.of.
local function open_limit(spec, n, key, cost)
  local algorithm, cap, window, a, b = unpack_at('>Bi8i8i8i8', spec, n * 33 - 23)
  if algorithm == 0 then return log_open(key, cost, cap, window, a) end       -- stint.Sliding
  if algorithm == 2 then return log_open(key, cost, cap, window, 1, true) end -- stint.Fixed
  local l = { key = key, cost = cost, cap = cap, window = window }
  if algorithm == 1 then -- stint.Bucket
    l.unit, l.rate, l.of = a, b, rest().bucket
  else                   -- stint.Concurrency
    l.of = rest().holders
  end
  l.of.open(l)
  return l
end
