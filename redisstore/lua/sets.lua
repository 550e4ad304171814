-- sets reads a call's sets of limits (numbers.lua) into the table sets, by their numbers.
--
-- ARGV[1]  number of sets (1 byte), and per set
--            SIG with its length (1) before it
--            number of limits (1), HEADS (2), RINGS (2), NUMBER (1)
--            size of its others (2), FRESH (1)
--            FORMAT and LAST, each with its length (1) before it
--            per limit ASKED (1), LOG (1), METER (1), CAP, SPAN, SLICE, WIDTH (1), BACK (2), FRONT
--            (2), UNIT, RATE, TICK, and 3 bytes for CUT, STAMP and ENTRY, which this file fills in.
--            A calendar limit has the ends of four consecutive periods: -UNIT, ENDED, THIS and
--            FOLLOWING. Usually now is in the third period. If it is in the second or the fourth,
--            the ends are moved by one; in any other, the call fails with CLOCK and the time
--            its others: sets that replace it if a state has their directory, for example because
--            the state has more limits or wider entries. Per other set its size (2) and the set;
--            then 0 (2). Without FRESH, the first of them is for states that do not exist yet

-- read_set reads the set at the offset `from` of a text. It returns the set, and the offset of the
-- end of the set and its others. If now is outside the known periods of a calendar, it returns nil.
local function read_set(text, from, now)
  local sig, n, heads, rings, number, others, fresh, format, last
  sig, n, heads, rings, number, others, fresh, format, last, from = unpack_at('<Bc0BI2I2c1I2BBc0Bc0', text, from)
  local limit = '<BBBdddBI2I2dddBBB'
  if n == 2 then -- repeating a string takes time
    limit = '<BBBdddBI2I2dddBBBBBBdddBI2I2dddBBB'
  elseif n == 3 then
    limit = '<BBBdddBI2I2dddBBBBBBdddBI2I2dddBBBBBBdddBI2I2dddBBB'
  elseif n > 1 then
    limit = limit:rep(n)
  end
  local set = { sig, 0, format, heads, rings, last, number, 0, false, fresh, unpack_at(limit, text, from) }
  local need, at = 0, LIMITS
  for _ = 1, n do
    local span, slice, width = set[at + SPAN], set[at + SLICE], set[at + WIDTH]
    local asked, stamp = set[at + ASKED], slice > 0 and now - now % slice + slice or now
    if asked == HOLDING then -- the stamp is the end of the slice in which the hold expires
      stamp = now + set[at + RATE]
      stamp = stamp + -stamp % slice
    elseif set[at + UNIT] < 0 then
      local ended, following = set[at + ENDED], set[at + FOLLOWING]
      if now < ended then
        ended, stamp, following = -set[at + UNIT], ended, slice
      elseif now < slice then
        stamp = slice
      else
        ended, stamp = slice, following -- the next period is not known
      end
      if now < ended or now >= stamp then return end
      set[at + ENDED], set[at + THIS], set[at + FOLLOWING] = ended, stamp, following
    end
    set[at + CUT], set[at + STAMP] = now - span, stamp
    set[at + ENTRY] = width == 8 and '>I7I1' or width == 10 and '>I7I3' or width == 12 and '>I7I5' or '>I7I7'
    local til = asked == HOLDING and stamp + set[at + TICK] or stamp + span
    if width == 0 then -- a bucket is kept for twice its refill time
      local rate = set[at + RATE]
      til = now + (rate > 0 and 2 * math.ceil(set[at + CAP] * set[at + UNIT] / rate) + 1 or 0) * set[at + TICK]
    end
    if til > need and asked % 2 == 1 then need = til end
    at = at + STRIDE
  end
  local ends = set[at] -- unpack also returns the position after the last value
  set[LAST_LIMIT], set[NEED], set[OTHERS] = at - STRIDE, need + KEPT, others > 0 and ends
  return set, ends + others
end

local sets = { nil } -- preallocate one element
for i = 1, asked_sets do
  sets[i], pos = read_set(args, pos, now)
  if not pos then return redis.error_reply(('CLOCK %d'):format(now)) end
end
