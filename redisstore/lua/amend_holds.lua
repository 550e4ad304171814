-- amend_holds settles and extends holds. See docs/rules.md. In these functions, h is the part of
-- the amendment (numbers.lua) to which the hold belongs.

-- get_hold returns the fields of a charge's hold (holds.lua), or nothing if the hold has ended or
-- never existed.
local function get_hold(key, id)
  local text = redis.pcall('HGET', key, id)
  if type(text) ~= 'string' or #text ~= 24 then return end
  local expires, ends, reported = struct.unpack('<ddd', text)
  if ends > now then return expires, ends, reported end
end

-- charge_more charges units to a limit now, and returns how many it did not charge. held is the
-- number of units held and booked.
local function charge_more(st, at, units, debt, held)
  local set = st[SET]
  local unit, m, o = set[at + UNIT], set[at + METER], set[at + LOG]
  if units <= 0 or set[at + WIDTH] == 0 and unit <= 0 then return 0 end
  local by = most_raise(st, at, units, debt, held)
  if by > 0 and set[at + WIDTH] > 0 then
    local stamp = stamp_of(set, at, now)
    local there = st[o + NEWEST] == stamp and st[o + NEWEST_UNITS] or 0
    if not st[WHOLE] and by + there > set[at + CAP] then error('rare') end -- entries must be wider
    add(st, at, stamp, by)
  end
  if unit > 0 then st[m + LEVEL] = st[m + LEVEL] + by * unit end
  return units - by
end

-- amend_rate settles a charge of `cost` units that was made to a limit at `instant`. If the charge
-- cannot be settled, or the hold is extended, amend_rate charges the excess now. It returns how
-- many units it did not charge.
local function amend_rate(st, at, h, cost, instant, held)
  local delta = h[TRUTH] - cost
  local by = most_raise(st, at, delta, h[DEBT], held)
  if h[KNOWN] and not h[TIL] and settle_limit(st, at, cost, instant, by) then return delta - by end
  return charge_more(st, at, delta, h[DEBT], held)
end

-- amend_holds settles or extends a hold in a state that was read only in part. It returns how many
-- units were not charged, whether any limit was more than half used, and the instant until which
-- the state must be kept.
local function amend_holds(st, h)
  local set, estimate, total, reported = st[SET], h[COST], h[TRUTH], h[REPORTED]
  local need, most, tight, counted, til = set[NEED], 0, false, 0, h[TIL]
  if st[REWRITE] then error('rare') end
  for at = LIMITS, set[LAST_LIMIT], STRIDE do
    local asked, o, cap, unit, dropped = set[at + ASKED], set[at + LOG], set[at + CAP], set[at + UNIT], 0
    if asked == HOLDING then
      local before = st[o + SUM]
      if set[at + TICK] > 0 and h[ENDS] <= now then error('rare') end
      if h[ENDS] > now and h[KNOWN] then
        local n = estimate - reported
        if n > 0 and settle_log(st, at, h[ENDS], -n) ~= -n then error('rare') end -- the entry was merged with another one
        if til and estimate > total then add(st, at, til, estimate - total) end
      end
      counted = st[o + SUM]
      tight = tight or 2 * (before + st[set[at + STRIDE + LOG] + SUM]) > cap
    elseif asked == CHECKED then
      dropped = charge_more(st, at, total - reported, h[DEBT], counted)
      if st[o + NEWEST] > 0 then need = math.max(need, st[o + NEWEST] + set[at + SPAN] + KEPT) end
    elseif asked == 1 then
      tight = tight or set[at + WIDTH] > 0 and 2 * st[o + SUM] > cap
        or unit > 0 and 2 * st[set[at + METER] + LEVEL] > cap * unit
      dropped = amend_rate(st, at, h, estimate > reported and estimate or reported, h[CHARGED_AT], 0)
      if unit > 0 then
        local ticks = math.ceil(st[set[at + METER] + LEVEL] / set[at + RATE]) + 1
        need = math.max(need, now + ticks * set[at + TICK] + KEPT)
      end
    end
    if dropped > most then most = dropped end
  end
  return most, tight, need
end
