-- sets reads the sets of limits of a call (numbers.lua) into the table sets, by their numbers.
--
-- ARGV[1]  number of sets (1 byte), and per set
--            0 (1), or the number of the set of the same limits that it stands in for if a state
--            has the directory SIG of this one: the state has more limits, or wider entries
--            number of limits (1), HEADS (2), RINGS (2), NUMBER (1)
--            SIG, FORMAT and LAST, each with its length (1) before it
--            per limit ASKED (1), LOG (1), METER (1), CAP, SPAN, SLICE, WIDTH (1), BACK (2), FRONT
--            (2), UNIT, RATE, TICK, and 3 bytes for CUT, STAMP and ENTRY, which are filled in here.
--            A calendar limit has the ends of four consecutive periods: -UNIT, ENDED, THIS and
--            FOLLOWING. Usually now is in the third period. If it is in the second or the fourth,
--            the ends are moved by one; in any other, the call fails with CLOCK and the time

-- The struct formats of one limit, and of three.
local limit, three = '<BBBdddBI2I2dddBBB', '<BBBdddBI2I2dddBBBBBBdddBI2I2dddBBBBBBdddBI2I2dddBBB'
local sets = { nil } -- with room for one
for i = 1, count do
  local of, n, heads, rings, number, sig, format, last
  of, n, heads, rings, number, sig, format, last, pos = unpack_at('<BBI2I2c1Bc0Bc0Bc0', args, pos)
  local set = { sig, 0, format, heads, rings, last, number, 0, false,
    unpack_at(n == 1 and limit or n == 3 and three or limit:rep(n), args, pos) }
  local need, at = 0, LIMITS
  for _ = 1, n do
    local span, slice, width = set[at + SPAN], set[at + SLICE], set[at + WIDTH]
    local asked, stamp = set[at + ASKED], slice > 0 and now - now % slice + slice or now
    if asked == HOLDING then -- the end of the slice in which a hold expires
      stamp = now + set[at + RATE]
      stamp = stamp + -stamp % slice
    elseif set[at + UNIT] < 0 then
      local ended, following = set[at + ENDED], set[at + FOLLOWING]
      if now < ended then
        ended, stamp, following = -set[at + UNIT], ended, slice
      elseif now < slice then
        stamp = slice
      else
        ended, stamp = slice, following -- what follows is not known
      end
      if now < ended or now >= stamp then return redis.error_reply(('CLOCK %d'):format(now)) end
      set[at + ENDED], set[at + THIS], set[at + FOLLOWING] = ended, stamp, following
    end
    set[at + CUT], set[at + STAMP] = now - span, stamp
    set[at + ENTRY] = width == 8 and '>I7I1' or width == 10 and '>I7I3' or width == 12 and '>I7I5' or '>I7I7'
    local til = asked == HOLDING and stamp + set[at + TICK] or stamp + span
    if width == 0 then -- a bucket: twice its refill
      local rate = set[at + RATE]
      til = now + (rate > 0 and 2 * math.ceil(set[at + CAP] * set[at + UNIT] / rate) + 1 or 0) * set[at + TICK]
    end
    if til > need and asked % 2 == 1 then need = til end
    at = at + STRIDE
  end
  pos = set[at] -- the last value of an unpack is where it ended
  set[LAST_LIMIT], set[NEED] = at - STRIDE, need + KEPT
  sets[i] = set
  if of > 0 then
    local others = sets[of][OTHERS] or {}
    others[sig], sets[of][OTHERS] = set, others
  end
end
