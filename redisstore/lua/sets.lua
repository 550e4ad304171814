-- sets reads the sets of limits of a call, each of which many of its requests may name.
--
-- In args  number of sets (1 byte); per set: number of the set that it stands in for if a state has its
--          directory (1 byte, 0: none), number of limits (1), where the heads end and the rings begin
--          (2 each), NUMBER, and as texts with their length (1) before them SIG, FORMAT, FROM, LAST and ALL; per limit ASKED
--          and METER (1 byte each), CAP, SPAN, SLICE, WIDTH (1), BACK, OLD (2 each), UNIT, RATE, TICK, and 3 bytes

-- What is packed of a limit, and of three; the last three numbers are filled in here.
local limit, three = '<BBdddBI2I2dddBBB', '<BBdddBI2I2dddBBBBBdddBI2I2dddBBBBBdddBI2I2dddBBB'
local sets, count = {}, 0
count, pos = unpack_at('B', args, pos)
for i = 1, count do
  local of, n, heads, front, number, sig, format, from, last, all
  of, n, heads, front, number, sig, format, from, last, all, pos = unpack_at('<BBI2I2c1Bc0Bc0Bc0Bc0Bc0', args, pos)
  local set = { sig, n, format, from, heads, front, last, all, number, 0, false, unpack_at(n == 1 and limit or n == 3 and three or limit:rep(n), args, pos) }
  local need, at = 0, LIMITS
  for _ = 1, n do
    local span, slice, width = set[at + SPAN], set[at + SLICE], set[at + WIDTH]
    local stamp = slice > 0 and now - now % slice + slice or now
    set[at + CUT], set[at + STAMP] = now - span, stamp
    set[at + ENTRY] = width == 8 and '>I7I1' or width == 10 and '>I7I3' or width == 12 and '>I7I5' or '>I7I7'
    local til = stamp + span
    if width == 0 then
      local rate = set[at + RATE]
      til = now + (rate > 0 and math.ceil(set[at + CAP] * set[at + UNIT] / rate) + 1 or 0) * set[at + TICK]
    end
    if til > need and set[at + ASKED] == 1 then need = til end
    at = at + STRIDE
  end
  pos = set[at] -- the last value of an unpack is where it ended
  set[NEED] = need + 1000000
  sets[i] = set
  if of > 0 then
    local others = sets[of][OTHERS] or {}
    others[sig], sets[of][OTHERS] = set, others
  end
end
