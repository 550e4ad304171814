-- A state has the usage of a subject in one scope under all limits with the same name, except
-- concurrency limits. It is stored as one string. The functions here read and write only the
-- beginning of the string, which is usually enough. The functions of whole.lua read and write all
-- of it.
--
-- A sliding window is a log of entries. An entry has a stamp and units, and counts until its stamp
-- plus SPAN, the length of the window. If the capacity is at most RESOLUTION, SLICE is 0: the stamp
-- is the time of the charge. Otherwise all charges in a slice, a RESOLUTIONth of the window, share
-- the end of the slice as their stamp, and so share an entry. The usage is the sum of the units.
--
-- A decision drops the entries that have left the window (drop_left), compares sum and cost with
-- the capacity (read_state), adds an entry (add in charge.lua), and writes the changed part of the
-- string (write).
--
-- A fixed window is a log with one slice and no span. A bucket is a meter: a level that rises with
-- each charge and falls with time. A window with a burst has a log and a meter.
--
-- The value of the key:
--
--   directory  PLAIN_STATE or, with bookings, BOOKED_STATE; number of limits (1 byte); per limit
--              its kind (1) and its window (7, big-endian), in order of windows, then of
--              algorithms. Kind: the sum of the algorithm, HAS_METER if it has a meter, and
--              ENTRY_WIDTH times the bytes of an entry less its stamp (0: no log). The held units
--              of a limit are a log before it, whose stamps are the times at which holds expire:
--              its kind includes HELD, and CHARGES if expired units are charged
--   header     generation (4 bytes), the clock at the last write, when the key expires
--   heads      per limit: for a log its sum, the stamp and the units of its newest entry, its
--              oldest stamp (FAR if it is empty), its shape (4 bytes: nf, nb, first, blocks and
--              slots, see numbers.lua); for a meter its level, the time of that level, its unit
--   back       per log space for 7 entries, in order: nb entries, which are older than the newest
--   front      per log space for 8 entries, right-aligned: the nf oldest entries
--   ring       per log, only if nf > 0, `slots` slots for a block of 8 entries each. `blocks` of
--              them, beginning with slot `first`, have the entries between front and back
--   bookings   if there are any, per limit: their number (2 bytes), the sum of their units; for a
--              meter its level, instant and rate after the last booking; then the records
--              (bookings.lua)
--
-- Numbers are little-endian doubles unless stated otherwise. An entry is its stamp (7 bytes,
-- big-endian) and its units. The string may end before anything that is not in use.
--
-- A state st is an array (numbers.lua) of
--
--   KEY, SET  its key; the set of its limits (sets.lua)
--   VALUE     the part that was read; '' if there was no state
--   BODY      the bytes to write after the heads, up to the last changed byte
--   FRONTS    by limit: fronts that have changed; false if there are none
--   BLOCKS    by offset: blocks to be added to rings; false if there are none
--   WHOLE     the functions of whole.lua if the state was read as a whole, else false. If read as a
--             whole, FRONTS has all entries of a log except the newest, and shapes have no meaning
--   REWRITE   true if the state must be read as a whole to be written
--
-- and then of the fields of header and heads. `at`, the index of a limit's first field in the set,
-- identifies the limit: for example, its capacity is set[at + CAP]. Where o is set[at + LOG] and m
-- is set[at + METER], the sum of its log is st[o + SUM], and the level of its meter st[m + LEVEL].
--
-- If the beginning of a state is not enough, a function fails with the error 'rare' before anything
-- is written, or with 'damaged' if the state is damaged. decide.lua then decides again with
-- whole.lua.

-- The functions of limits.lua, nil until they are needed.
local limits

-- put adds bytes to BODY, at an offset in the value. Calls must be in the order of the offsets.
local function put(st, offset, text)
  local value, cursor = st[VALUE], st[SET][HEADS] + #st[BODY]
  if #value < offset then value = value .. ('\0'):rep(offset - #value) end
  st[BODY] = st[BODY] .. value:sub(cursor + 1, offset) .. text
end

-- drop_left drops the entries that have left the window of a limit. The oldest entry that stays,
-- and the entries after it in the same piece (limits.piece), become the front.
local function drop_left(st, at)
  local set, whole = st[SET], st[WHOLE]
  local o, entry, width, cut = set[at + LOG], set[at + ENTRY], set[at + WIDTH], set[at + CUT]
  local shape, sum, k = st[o + SHAPE], st[o + SUM], 0
  if st[o + NEWEST] <= cut then -- all entries have left
    st[REWRITE] = st[REWRITE] or shape >= SHAPE_SLOTS -- an empty log needs no ring
    st[o + SUM], st[o + NEWEST], st[o + NEWEST_UNITS] = 0, 0, 0
    st[o + OLDEST], st[o + SHAPE] = FAR, shape - shape % SHAPE_SLOTS
    if whole then st[FRONTS][at] = '' end
    return
  end
  local text = whole and st[FRONTS][at] or st[VALUE]
  local ends = whole and #text or set[at + FRONT] + BLOCK * width
  local from = whole and 1 or ends - shape % SHAPE_BACK * width + 1
  while true do
    if from > ends then
      limits, k = limits or make_limits(), k + 1
      text, from, ends = limits.piece(st, at, k)
    else
      local stamp, units = unpack_at(entry, text, from)
      if stamp > cut then
        st[o + OLDEST] = stamp
        break
      end
      sum, from = sum - units, from + width
    end
  end
  if sum < st[o + NEWEST_UNITS] then error('damaged') end
  st[o + SUM] = sum
  local n = (ends - from + 1) / width
  if k > 0 then -- piece k, with the oldest entry that stays, becomes the front; see limits.piece
    local first, blocks = math.floor(shape / SHAPE_FIRST) % 32, math.floor(shape / SHAPE_BLOCKS) % 32
    if k <= blocks then
      local slots = math.floor(shape / SHAPE_SLOTS)
      shape = shape + ((first + k) % slots - first) * SHAPE_FIRST - k * SHAPE_BLOCKS
    else
      if k > blocks + 1 then n = 0 end -- only the newest entry stays, and it is in the head
      shape = shape - (math.floor(shape / SHAPE_BACK) % BLOCK) * SHAPE_BACK - blocks * SHAPE_BLOCKS
    end
  end
  if k > 0 or whole then
    st[FRONTS] = st[FRONTS] or {}
    st[FRONTS][at] = n > 0 and text:sub(from, ends) or ''
  end
  if not whole then st[o + SHAPE] = shape - shape % SHAPE_BACK + n end
end

-- read_state reads the beginning of a state, and updates the requested limits to now. It also
-- returns how many of the `equal` requests with this cost fit.
local function read_state(key, set, cost, equal, now, generation)
  local value = call('GETRANGE', key, '0', set[LAST])
  if value == '' and set[FRESH] == 0 or value ~= '' and value:find(set[SIG], 1, true) ~= 1 then
    limits = limits or make_limits() -- another set fits, for example because another process has more limits
    set = limits.other_set(set, value:sub(1, DIRECTORY_START + DIRECTORY_LIMIT * (value:byte(2) or 0)), now)
    value = call('GETRANGE', key, '0', set[LAST])
  end
  local from = value ~= '' and value or set[SIG] .. ('\0'):rep(set[HEADS] - #set[SIG])
  local st = { key, set, value, '', false, false, false, false, unpack_at(set[FORMAT], from, #set[SIG] + 1) }
  if st[WRITTEN] > now then error('rare') end -- the clock stepped back
  if value == '' then st[GENERATION] = generation end
  local short, held = #value == set[HEADS], 0 -- whether only the heads were read; held units of the next limit
  for at = LIMITS, set[LAST_LIMIT], STRIDE do
    local asked, o, unit, cut, cap = set[at + ASKED], set[at + LOG], set[at + UNIT], set[at + CUT], set[at + CAP]
    if asked == 0 then
      if o > 0 and set[at + METER] == 0 and st[o + NEWEST] <= cut then st[REWRITE] = true end -- the log no longer counts
    else
      if cost > cap or cap == 0 then equal = 0 end
      if o > 0 then
        local sum, newest, oldest, stamp = st[o + SUM], st[o + NEWEST], st[o + OLDEST], set[at + STAMP]
        if not (sum >= st[o + NEWEST_UNITS] and sum <= FAR and newest <= FAR and sum % 1 + newest % 1 == 0) then
          error('damaged')
        end
        if unit < 0 and newest > set[at + ENDED] and (newest ~= stamp or oldest ~= newest) then
          error('rare') -- the current period is from another calendar
        end
        -- Read the state up to its rings if entries will move: because some have left the window,
        -- or because a charge with a new stamp moves the newest entry to the back.
        if short and newest > cut and (oldest <= cut or newest ~= stamp and asked ~= COUNTED) then
          short, st[VALUE] = false, call('GETRANGE', key, '0', ('%d'):format(set[RINGS] - 1))
        end
        if newest <= cut or oldest <= cut then
          drop_left(st, at)
          sum = st[o + SUM]
        end
        if asked == COUNTED or asked == HOLDING then
          if st[o + NEWEST] > now + LONGEST_HOLD or set[at + TICK] > 0 then error('rare') end
          held = sum
        else
          local left = cap - sum - held
          if left < cost then equal = 0 elseif left < equal * cost then equal = math.floor(left / cost) end
          held = 0
        end
      end
      if unit > 0 then
        local m, tick = set[at + METER], set[at + TICK]
        local level, ticks = st[m + LEVEL], math.floor(now / tick) - math.floor(st[m + LEVEL_AT] / tick)
        if value ~= '' and st[m + LEVEL_UNIT] ~= unit or st[m + LEVEL_AT] > now then error('rare') end
        if not (level >= 0 and level <= FAR and level % 1 == 0) then error('damaged') end
        level = math.max(0, level - ticks * set[at + RATE]) -- it falls with every tick
        if level > (cap - cost) * unit then equal = 0 end
        st[m + LEVEL], st[m + LEVEL_AT], st[m + LEVEL_UNIT] = level, now, unit
      end
    end
  end
  return st, equal
end
