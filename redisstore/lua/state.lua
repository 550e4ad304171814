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
-- A state st is an array of header and heads, as the set's FORMAT reads them (numbers.lua). It also
-- has
--
--   key, set  its key; the set of its limits (sets.lua)
--   value     what was read of it; '' if there was none
--   body      what has changed behind the heads
--   fronts    by the number of a limit: fronts that have changed
--   blocks    by offset: blocks to be added to rings
--   need      until when it must be kept
--   rewrite   true if it should be written as a whole
--
-- The ith limit of a state is set[at + …], from LIMITS on, and st[o + …].

-- read_on reads a state up to its rings, if only the heads were read.
local function read_on(st)
  if #st.value == st.set[HEADS] then st.value = redis.call('GETRANGE', st.key, '0', st.set[ALL]) end
  return st.value
end

-- put notes that there is a text at an offset behind the heads, and behind what was put before.
local function put(st, at, text)
  local value, cursor = read_on(st), st.set[HEADS] + #st.body
  if cursor < at then
    if #value < at then value = value .. ('\0'):rep(at - #value) end
    text = value:sub(cursor + 1, at) .. text
  end
  st.body = st.body .. text
end

-- slot_of returns where a slot of the ring of the ith limit begins, and where it ends.
local function slot_of(st, i, slot)
  local set, o, at = st.set, FIRST_HEAD, LIMITS
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

-- piece returns a piece of the ith limit's entries, nil if there is none: 0 is the oldest. They are
-- the front, the blocks of the ring, the back, and the newest entry.
local function piece(st, i, at, o, k)
  local set = st.set
  local shape, width = st[o + SHAPE], set[at + WIDTH]
  if k == 0 then
    local front = set[at + OLD] + BLOCK * width
    return st.fronts and st.fronts[i] or read_on(st):sub(front - shape % SHAPE_BACK * width + 1, front)
  end
  local blocks = math.floor(shape / SHAPE_BLOCKS) % 32
  if k <= blocks then
    local first, slots = math.floor(shape / SHAPE_FIRST) % 32, math.floor(shape / SHAPE_SLOTS)
    return redis.call('GETRANGE', st.key, slot_of(st, i, (first + k - 1) % slots))
  elseif k == blocks + 1 then
    local back, n = set[at + BACK], math.floor(shape / SHAPE_BACK) % BLOCK
    return read_on(st):sub(back + 1, back + n * width)
  elseif k == blocks + 2 then
    return struct.pack(set[at + ENTRY], st[o + NEWEST], st[o + NEWEST_UNITS])
  end
end

-- drop_old drops what has left the window of the ith limit: not all of it has. What is left of a
-- piece becomes the front.
local function drop_old(st, i, at, o)
  local set = st.set
  local entry, width, cut, sum = set[at + ENTRY], set[at + WIDTH], set[at + CUT], st[o + SUM]
  local k, from, stamp, units = 0, 1, nil, nil
  local entries = piece(st, i, at, o, 0)
  while true do
    if from > #entries then
      k, from = k + 1, 1
      entries = piece(st, i, at, o, k)
    else
      stamp, units = struct.unpack(entry, entries, from)
      if stamp > cut then break end
      sum, from = sum - units, from + width
    end
  end
  local shape, n = st[o + SHAPE], (#entries - from + 1) / width
  if k > 0 then
    local first, blocks = math.floor(shape / SHAPE_FIRST) % 32, math.floor(shape / SHAPE_BLOCKS) % 32
    if k <= blocks then
      local slots = math.floor(shape / SHAPE_SLOTS)
      shape = shape + ((first + k) % slots - first) * SHAPE_FIRST - k * SHAPE_BLOCKS
    else
      if k > blocks + 1 then n = 0 end -- the newest is in the head
      shape = shape - (math.floor(shape / SHAPE_BACK) % BLOCK) * SHAPE_BACK - blocks * SHAPE_BLOCKS
    end
    st.fronts = st.fronts or {}
    st.fronts[i] = n > 0 and entries:sub(from) or ''
  end
  st[o + SUM], st[o + OLDEST], st[o + SHAPE] = sum, stamp, shape - shape % SHAPE_BACK + n
end

-- other_set returns the set of a state that does not have just the limits of a set, by another
-- process for instance, and its value.
local function other_set(key, set, value)
  if type(value) ~= 'string' or not set[OTHERS] then error('rare') end
  set = set[OTHERS][value:sub(1, DIRECTORY_START + DIRECTORY_LIMIT * (value:byte(2) or 0))]
  if not set then error('rare') end
  return set, redis.call('GETRANGE', key, '0', set[LAST])
end

-- read_state reads the beginning of a state, and brings the limits that are asked about up to date.
-- It also returns how many of so many requests of a cost fit.
local function read_state(key, set, cost, equal, now, generation)
  local value = redis.pcall('GETRANGE', key, '0', set[LAST])
  local from = value
  if value == '' then
    from = set[SIG] .. ('\0'):rep(set[HEADS] - #set[SIG])
  elseif type(value) ~= 'string' or value:find(set[SIG], 1, true) ~= 1 then
    set, value = other_set(key, set, value)
    from = value
  end
  local st = { key = key, set = set, value = value, body = '', fronts = nil, blocks = nil, need = 0, rewrite = false,
    struct.unpack(set[FORMAT], from, #set[SIG] + 1) }
  if st[WRITTEN] > now then error('rare') end -- the clock stepped back
  if value == '' then st[GENERATION] = generation end
  local o, at, free = FIRST_HEAD, LIMITS, equal
  for i = 1, set[N] do
    local asked, width, cap = set[at + ASKED] == 1, set[at + WIDTH], set[at + CAP]
    if asked and (cost > cap or cap == 0) then free = 0 end
    if width > 0 then
      local sum, newest, cut = st[o + SUM], st[o + NEWEST], set[at + CUT]
      if not asked then
        st.rewrite = st.rewrite or newest <= cut and set[at + METER] == 0
      else
        if not (sum >= st[o + NEWEST_UNITS] and sum <= FAR and newest <= FAR and sum % 1 + newest % 1 == 0) then
          error('damaged')
        end
        if newest <= cut then
          local shape = st[o + SHAPE]
          st.rewrite = st.rewrite or shape >= SHAPE_SLOTS -- the ring is too large
          st[o + SUM], st[o + NEWEST], st[o + OLDEST], st[o + SHAPE] = 0, 0, FAR, shape - shape % SHAPE_SLOTS
        elseif st[o + OLDEST] <= cut then
          drop_old(st, i, at, o)
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
        if st[o + LEVEL_UNIT] ~= unit or not (level >= 0 and level <= FAR and level % 1 == 0) then error('rare') end
        level = level - (math.floor(now / tick) - math.floor(st[o + LEVEL_AT] / tick)) * set[at + RATE]
        if level < 0 then level = 0 end
        st[o + LEVEL], st[o + LEVEL_AT] = level, now
        if level > (cap - cost) * unit then free = 0 end
      end
      o = o + METER_FIELDS
    end
    at = at + STRIDE
  end
  return st, free
end
