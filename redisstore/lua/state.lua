-- state: that of a subject in one scope, all limits of one name except concurrency limits, in one
-- string. As a rule only its beginning is read and written, as here. Otherwise see whole.lua.
--
--   directory  PLAIN_STATE or, if anything is booked, BOOKED_STATE; number of limits (1 byte); of
--              each its kind (1) and its window (7, big-endian), in order of windows, then of
--              algorithms. Kind: algorithm, HAS_METER if it has one, ENTRY_WIDTH times the bytes of
--              an entry less its stamp (0: no log)
--   header     generation (4 bytes), the clock at the last write, when the key expires
--   heads      per limit: of a log its sum, the stamp and the units of its newest entry, its oldest
--              stamp (FAR if it is empty), its shape (4 bytes: nf, nb, first, blocks and slots, see
--              numbers.lua); of a meter level, at, unit
--   back       per log up to 7 entries older than the newest, in order: nb of them
--   front      per log up to 8 entries, the oldest, right-aligned: nf of them
--   ring       per log slots for blocks of 8 entries, those between front and back; blocks of them
--              are in use, from the one numbered first on. Only if nf > 0.
--   bookings   if there are any, per limit: how many (2 bytes), the sum of their units; of a meter
--              the level, instant and rate with which it leaves the last of them; then the records
--              (bookings.lua)
--
-- Numbers are little-endian doubles unless stated otherwise. An entry is its stamp (7 bytes,
-- big-endian) and its units. The string may end before anything that is not in use.
--
-- A state st is an array (numbers.lua) of
--
--   KEY, SET  its key; the set of its limits (sets.lua)
--   VALUE     what was read of it; '' if there was none
--   BODY      what has changed behind the heads
--   FRONTS    by the number of a limit: fronts that have changed; false if there are none
--   BLOCKS    by offset: blocks to be added to rings; false if there are none
--   REWRITE   true if it can only be written as a whole
--
-- and of header and heads. The ith limit of a state is set[at + …], from LIMITS on, and st[o + …].

-- put notes that there is a text at an offset behind the heads, and behind what was put before.
local function put(st, at, text)
  local value, cursor = st[VALUE], st[SET][HEADS] + #st[BODY]
  if #value < at then value = value .. ('\0'):rep(at - #value) end
  st[BODY] = st[BODY] .. value:sub(cursor + 1, at) .. text
end

-- slot_of returns where a slot of the ring of the ith limit begins, and where it ends.
local function slot_of(st, i, slot)
  local set, o, at = st[SET], FIRST_HEAD, LIMITS
  local ring = set[FRONT]
  for _ = 1, i - 1 do
    if set[at + WIDTH] > 0 then
      ring, o = ring + math.floor(st[o + SHAPE] / SHAPE_SLOTS) * BLOCK * set[at + WIDTH], o + LOG_FIELDS
    end
    o, at = o + set[at + METER], at + STRIDE
  end
  local size = BLOCK * set[at + WIDTH]
  return ('%d'):format(ring + slot * size), ('%d'):format(ring + slot * size + size - 1)
end

-- piece returns a piece of the ith limit's entries: a text, and where they begin and end in it. It
-- returns nil if there is none. 0 is the front, then come the blocks of the ring, the back, and the
-- newest entry. If only the heads of the state were read, it is read up to its rings.
local function piece(st, i, at, o, k)
  local set, shape = st[SET], st[o + SHAPE]
  local width = set[at + WIDTH]
  if #st[VALUE] == set[HEADS] then st[VALUE] = redis.call('GETRANGE', st[KEY], '0', set[ALL]) end
  if k == 0 then
    local front = st[FRONTS] and st[FRONTS][i]
    if front then return front, 1, #front end
    local ends = set[at + OLD] + BLOCK * width
    return st[VALUE], ends - shape % SHAPE_BACK * width + 1, ends
  end
  local slots, blocks = math.floor(shape / SHAPE_SLOTS), math.floor(shape / SHAPE_BLOCKS) % 32
  if k <= blocks then
    local first = math.floor(shape / SHAPE_FIRST) % 32
    return redis.call('GETRANGE', st[KEY], slot_of(st, i, (first + k - 1) % slots)), 1, BLOCK * width
  elseif k == blocks + 1 then
    local back = set[at + BACK]
    return st[VALUE], back + 1, back + math.floor(shape / SHAPE_BACK) % BLOCK * width
  elseif k == blocks + 2 then
    return struct.pack(set[at + ENTRY], st[o + NEWEST], st[o + NEWEST_UNITS]), 1, width
  end
end

-- drop_old drops what has left the window of the ith limit: not all of it has. What is left of a
-- piece becomes the front.
local function drop_old(st, i, at, o)
  local set, shape = st[SET], st[o + SHAPE]
  local entry, width, cut, sum = set[at + ENTRY], set[at + WIDTH], set[at + CUT], st[o + SUM]
  local k, text, ends, stamp, units = 0, st[VALUE], set[at + OLD] + BLOCK * width, nil, nil
  local from = ends - shape % SHAPE_BACK * width + 1
  while true do
    if from > ends then
      k = k + 1
      text, from, ends = piece(st, i, at, o, k)
    else
      stamp, units = struct.unpack(entry, text, from)
      if stamp > cut then break end
      sum, from = sum - units, from + width
    end
  end
  if sum < st[o + NEWEST_UNITS] then error('damaged') end
  local n = (ends - from + 1) / width
  if k > 0 then
    local first, blocks = math.floor(shape / SHAPE_FIRST) % 32, math.floor(shape / SHAPE_BLOCKS) % 32
    if k <= blocks then
      local slots = math.floor(shape / SHAPE_SLOTS)
      shape = shape + ((first + k) % slots - first) * SHAPE_FIRST - k * SHAPE_BLOCKS
    else
      if k > blocks + 1 then n = 0 end -- the newest is in the head
      shape = shape - (math.floor(shape / SHAPE_BACK) % BLOCK) * SHAPE_BACK - blocks * SHAPE_BLOCKS
    end
    st[FRONTS] = st[FRONTS] or {}
    st[FRONTS][i] = n > 0 and text:sub(from, ends) or ''
  end
  st[o + SUM], st[o + OLDEST], st[o + SHAPE] = sum, stamp, shape - shape % SHAPE_BACK + n
end

-- read_state reads the beginning of a state, and brings the limits that are asked about up to date.
-- It also returns how many of so many requests of a cost fit.
local function read_state(key, set, cost, equal, now, generation)
  local value = redis.pcall('GETRANGE', key, '0', set[LAST])
  local from, rewrite = value, false
  if value == '' then
    from = set[SIG] .. ('\0'):rep(set[HEADS] - #set[SIG])
  elseif type(value) ~= 'string' then
    error('damaged')
  elseif value:find(set[SIG], 1, true) ~= 1 then -- another process, for instance, has other limits
    set = set[OTHERS] and set[OTHERS][value:sub(1, DIRECTORY_START + DIRECTORY_LIMIT * (value:byte(2) or 0))]
    if not set then error('rare') end
    value = redis.call('GETRANGE', key, '0', set[LAST])
    from = value
  end
  local st = { key, set, value, '', false, false, false, struct.unpack(set[FORMAT], from, #set[SIG] + 1) }
  if st[WRITTEN] > now then error('rare') end -- the clock stepped back
  if value == '' then st[GENERATION] = generation end
  local o, at, free = FIRST_HEAD, LIMITS, equal
  for i = 1, set[N] do
    local asked, width, cap = set[at + ASKED] == 1, set[at + WIDTH], set[at + CAP]
    if asked and (cost > cap or cap == 0) then free = 0 end
    if width > 0 then
      local sum, newest, cut = st[o + SUM], st[o + NEWEST], set[at + CUT]
      if not asked then
        rewrite = rewrite or newest <= cut and set[at + METER] == 0
      else
        if not (sum >= st[o + NEWEST_UNITS] and sum <= FAR and newest <= FAR and sum % 1 + newest % 1 == 0) then
          error('damaged')
        end
        if set[at + UNIT] < 0 and newest > set[at + RATE] and (newest ~= set[at + STAMP] or st[o + OLDEST] ~= newest) then
          error('rare') -- the period that runs is another calendar's
        end
        if newest <= cut then
          local shape = st[o + SHAPE]
          rewrite = rewrite or shape >= SHAPE_SLOTS -- the ring is too large
          st[o + SUM], st[o + NEWEST], st[o + OLDEST], st[o + SHAPE] = 0, 0, FAR, shape - shape % SHAPE_SLOTS
        else
          local oldest = st[o + OLDEST]
          if (oldest <= cut or newest ~= set[at + STAMP]) and #st[VALUE] == set[HEADS] then -- entries are to be moved
            st[VALUE] = redis.call('GETRANGE', key, '0', set[ALL])
          end
          if oldest <= cut then drop_old(st, i, at, o) end
        end
        local left = cap - st[o + SUM]
        if left < cost then free = 0 elseif left < free * cost then free = math.floor(left / cost) end
      end
      o = o + LOG_FIELDS
    end
    if set[at + METER] > 0 then
      local unit, tick, level = set[at + UNIT], set[at + TICK], st[o + LEVEL]
      if asked and unit > 0 then
        if value == '' then st[o + LEVEL_UNIT] = unit end
        if st[o + LEVEL_UNIT] ~= unit or not (level >= 0 and level <= FAR and level % 1 == 0
          and st[o + LEVEL_AT] <= now) then error('rare') end
        level = level - (math.floor(now / tick) - math.floor(st[o + LEVEL_AT] / tick)) * set[at + RATE]
        if level < 0 then level = 0 end
        st[o + LEVEL], st[o + LEVEL_AT] = level, now
        if level > (cap - cost) * unit then free = 0 end
      end
      o = o + METER_FIELDS
    end
    at = at + STRIDE
  end
  st[REWRITE] = rewrite
  return st, free
end
