-- One limit of one claim: a table l with what the limit says, the state that its
-- algorithm read, and the algorithm in l.of, with the verbs open, used, reset, earliest,
-- charge, reserve, settle and save; give_back, but not of places.
--
-- A limit's spec holds: algorithm (1 byte), capacity, window, then burst times (sliding) or
-- unit and rate (bucket) (8 each)

-- open_limit reads the limit whose spec is at pos in args and all of its state under key.
function R.open_limit(args, pos, key, cost)
  local algorithm, cap, window, a, b = unpack_at('>Bi8i8i8i8', args, pos)
  local l = { key = key, cost = cost, cap = cap, window = window }
  if algorithm == 0 then     -- stint.Sliding
    l.of, l.times = W, a
  elseif algorithm == 1 then -- stint.Bucket
    l.of, l.unit, l.rate = M, a, b
  elseif algorithm == 2 then -- stint.Fixed
    l.of, l.times, l.fixed = W, 1, true
  else                       -- stint.Concurrency
    l.of, l.places = H, true
  end
  l.of.open(l)
  return l
end
