-- One limit of one claim: a table l with what the limit says, the state that its
-- algorithm read, and the algorithm itself in l.of, with the verbs open, used,
-- reset, earliest, charge, reserve, settle and save.

local SLIDING, BUCKETS, FIXED, CONCURRENCY = 0, 1, 2, 3 -- stint.Algorithm
local LIMIT_FORMAT, LIMIT_SIZE = '>Bi8i8i8i8', 33

-- open_limit reads the nth limit of a claim's spec and its state under key.
--   spec: cost, number of limits; per limit algorithm, capacity, window, then
--   burst times (sliding) or unit and rate (bucket)
local function open_limit(spec, n, key, cost)
  local algorithm, cap, window, a, b = unpack_at(LIMIT_FORMAT, spec, 10 + (n - 1) * LIMIT_SIZE)
  local l = { algorithm = algorithm, key = key, cost = cost, cap = cap, window = window, times = 1 }
  if algorithm == SLIDING then
    l.times = a
    log_limit(l)
  elseif algorithm == FIXED then
    log_limit(l, true)
  elseif algorithm == BUCKETS then
    l.unit, l.rate, l.of = a, b, bucket()
  else
    l.of = holders()
  end
  l.of.open(l)
  return l
end

-- whole returns the verbs that work on all of a limit's state.
local function whole(l)
  return l.span and log_whole() or l.of
end
