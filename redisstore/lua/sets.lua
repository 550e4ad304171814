-- sets reads the sets of limits of a call, each of which many of its requests may name.
--
-- In args  number of sets (1 byte); per set: number of the set that it stands in for if a state has its
--          directory (1 byte, 0: none), number of limits (1), where the heads end and the rings begin
--          (2 each), and as texts with their length (1) before them SIG, FORMAT, FROM, LAST and ALL; per limit ASKED
--          and METER (1 byte each), CAP, SPAN, SLICE, WIDTH (1), BACK, OLD (2 each), UNIT, RATE, TICK

local sets, ENTRIES = {}, { [8] = '>I7I1', [10] = '>I7I3', [12] = '>I7I5', [14] = '>I7I7' }
local count
count, pos = unpack_at('B', args, pos)
for i = 1, count do
  local of, n, heads, front, sig, format, from, last, all
  of, n, heads, front, sig, format, from, last, all, pos = unpack_at('<BBI2I2Bc0Bc0Bc0Bc0Bc0', args, pos)
  local set = { sig, n, format, from, heads, front, last, all, string.char(i), 0, false }
  local need, at = 0, LIMITS
  for _ = 1, n do
    local asked, meter, cap, span, slice, width, back, old, unit, rate, tick
    asked, meter, cap, span, slice, width, back, old, unit, rate, tick, pos = unpack_at('<BBdddBI2I2ddd', args, pos)
    local stamp = slice > 0 and now - now % slice + slice or now
    set[at], set[at + 1], set[at + 2], set[at + 3], set[at + 4], set[at + 5], set[at + 6], set[at + 7], set[at + 8], set[at + 9],
      set[at + 10], set[at + 11], set[at + 12], set[at + 13] =
      asked, meter, cap, span, slice, width, back, old, unit, rate, tick, now - span, stamp, ENTRIES[width]
    local til = stamp + span
    if width == 0 then til = now + (rate > 0 and math.ceil(cap * unit / rate) + 1 or 0) * tick end
    if asked == 1 and til > need then need = til end
    at = at + STRIDE
  end
  set[NEED] = need + 1000000
  sets[i] = set
  if of > 0 then
    local others = sets[of][OTHERS] or {}
    others[sig], sets[of][OTHERS] = set, others
  end
end
