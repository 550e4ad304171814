-- limits has functions for states that a plain take rarely needs. make_limits (script.go) returns
-- them. They ignore bookings; bookings.lua has the rules for bookings.

local limits = { other_set = nil, piece = nil, add_block = nil, usage_of = nil, usage = nil } -- preallocate the fields

-- other_set returns the set that replaces `set` (sets.lua) for a state with the given directory. If
-- there is no state yet, directory is ''. other_set reads the other set once, and stores it in
-- set[directory].
function limits.other_set(set, directory, now)
  local text, at = ARGV[1], set[OTHERS]
  while at and not set[directory] do
    local size, from = unpack_at('<I2', text, at)
    if size == 0 then break end
    if directory == '' or directory == unpack_at('Bc0', text, from) then set[directory] = read_set(text, from, now) end
    at = from + size
  end
  return set[directory] or error('rare')
end

-- slot_of returns the offsets of the first and the last byte of a slot in a limit's ring, as text.
local function slot_of(st, at, slot)
  local set = st[SET]
  local ring = set[RINGS]
  for before = LIMITS, at - 1, STRIDE do
    if set[before + WIDTH] > 0 then
      ring = ring + math.floor(st[set[before + LOG] + SHAPE] / SHAPE_SLOTS) * BLOCK * set[before + WIDTH]
    end
  end
  local size = BLOCK * set[at + WIDTH]
  return ('%d'):format(ring + slot * size), ('%d'):format(ring + slot * size + size - 1)
end

-- piece returns a string that contains piece k of the entries of a limit, and the positions of the
-- first and the last byte of the piece in the string. It returns nil if there is no piece k. Piece
-- 0 is the front, followed by the blocks of the ring, the back, and the newest entry. If only the
-- heads of the state were read, piece reads the state up to its rings.
function limits.piece(st, at, k)
  local set = st[SET]
  local o, width = set[at + LOG], set[at + WIDTH]
  local shape = st[o + SHAPE]
  if #st[VALUE] == set[HEADS] then st[VALUE] = call('GETRANGE', st[KEY], '0', ('%d'):format(set[RINGS] - 1)) end
  if k == 0 then
    local front = st[FRONTS] and st[FRONTS][at]
    if front then return front, 1, #front end
    local ends = set[at + FRONT] + BLOCK * width
    return st[VALUE], ends - shape % SHAPE_BACK * width + 1, ends
  end
  local slots, blocks = math.floor(shape / SHAPE_SLOTS), math.floor(shape / SHAPE_BLOCKS) % 32
  if k <= blocks then
    local first = math.floor(shape / SHAPE_FIRST) % 32
    return call('GETRANGE', st[KEY], slot_of(st, at, (first + k - 1) % slots)), 1, BLOCK * width
  elseif k == blocks + 1 then
    local back = set[at + BACK]
    return st[VALUE], back + 1, back + math.floor(shape / SHAPE_BACK) % BLOCK * width
  elseif k == blocks + 2 then
    return pack(set[at + ENTRY], st[o + NEWEST], st[o + NEWEST_UNITS]), 1, width
  end
end

-- add_block adds the back of a log and one more entry as a block. If the front is empty, the block
-- becomes the front, otherwise the last block of the ring.
function limits.add_block(st, at, entry)
  local back, o = st[SET][at + BACK], st[SET][at + LOG]
  local block = st[VALUE]:sub(back + 1, back + BACK_MOST * #entry) .. entry
  local shape = st[o + SHAPE] - BACK_MOST * SHAPE_BACK
  if shape % SHAPE_BACK == 0 then
    st[FRONTS] = st[FRONTS] or {}
    st[FRONTS][at], st[o + SHAPE] = block, shape + BLOCK
    return
  end
  local first, blocks = math.floor(shape / SHAPE_FIRST) % 32, math.floor(shape / SHAPE_BLOCKS) % 32
  local slots = math.floor(shape / SHAPE_SLOTS)
  if blocks == slots or blocks == MOST_BLOCKS then error('rare') end -- the ring is full
  st[BLOCKS] = st[BLOCKS] or {}
  st[BLOCKS][slot_of(st, at, (first + blocks) % slots)] = block
  st[o + SHAPE] = shape + SHAPE_BLOCKS
end

-- usage_of returns the usage of a limit: used, reset-after, and retry-after for a cost. retry-after
-- is 0 if the cost fits or is -FAR. held is the number of held units, which count as used.
function limits.usage_of(st, at, cost, now, held)
  local set = st[SET]
  local cap, unit, o, used, reset, wait = set[at + CAP], set[at + UNIT], set[at + LOG], 0, 0, 0
  if cost > cap or cap == 0 and cost >= 0 then wait = NEVER end
  if held > 0 and wait == 0 and st[o + SUM] + held > cap - cost then
    if not st[WHOLE] then error('rare') end -- the wait depends on when holds expire
    wait = 1
  end
  if set[at + WIDTH] > 0 and st[o + SUM] > 0 then
    used, reset = st[o + SUM], math.min(FAR, st[o + NEWEST] + set[at + SPAN]) - now
    if used > cap - cost and wait == 0 then
      local left, k, text, from, ends = used, 0, limits.piece(st, at, 0)
      while text and left > cap - cost do -- the oldest entries must leave, one after another
        if from > ends then
          k = k + 1
          text, from, ends = limits.piece(st, at, k)
        else
          local stamp, units
          stamp, units, from = unpack_at(set[at + ENTRY], text, from)
          left, wait = left - units, stamp + set[at + SPAN] - now
        end
      end
      if wait < 1 or wait > FAR then wait = 1 end -- only in a damaged state
    end
  end
  if unit > 0 and st[set[at + METER] + LEVEL] > 0 then
    local level, rate, tick = st[set[at + METER] + LEVEL], set[at + RATE], set[at + TICK]
    local ticks, over = math.floor(now / tick), level - (cap - cost) * unit
    used = math.max(used, math.ceil(level / unit))
    reset = math.max(reset, math.min(FAR, (ticks + math.ceil(level / rate)) * tick) - now)
    if over > 0 and wait >= 0 then
      local til = (ticks + math.ceil(over / rate)) * tick
      wait = til > FAR and NEVER or math.max(wait, til - now)
    end
  end
  return used + held, reset, wait
end

-- usage packs the usage of each requested limit. It also returns the longest retry-after for a
-- cost.
function limits.usage(st, cost, now)
  local set, out, longest, held, goes = st[SET], '', 0, 0, 0
  for at = LIMITS, set[LAST_LIMIT], STRIDE do
    local asked = set[at + ASKED]
    if asked == COUNTED or asked == HOLDING then
      held, goes = st[set[at + LOG] + SUM], st[set[at + LOG] + NEWEST]
    elseif asked > 0 then
      local used, reset, wait = limits.usage_of(st, at, cost, now, held)
      if held > 0 then reset, held = math.max(reset, goes - now), 0 end
      out = pack('<c0ddd', out, used, reset, wait)
      if wait == NEVER or longest == NEVER then longest = NEVER else longest = math.max(longest, wait) end
    end
  end
  return out, longest
end
