-- whole: states that are read and written as a whole. In a table st: key, whole (true), generation,
-- last, expires, stored and saved, its directory as it was read and as it was written, stepped if
-- the clock stepped back, and counts, all of them in the order of the state.

-- discard removes a key that holds something that is not ours.
local function discard(key)
  if not W.looking then redis.call('DEL', key) end
end

-- whole reports whether a number may be one of ours.
local function whole(v) return v >= 0 and v <= MAX_UNITS and v % 1 == 0 end

-- read_count reads the head of a limit, given by its kind and window. It returns the count, its
-- shape, and where the head ends; nil if it is damaged.
local function read_count(value, at, kind, window)
  local bytes, fixed = math.floor(kind / ENTRY_WIDTH), kind % HAS_METER >= FIXED
  local limit = { algorithm = kind % HAS_METER, window = window, asked = false, unit = 0, entry = '>I7I' .. bytes,
    span = fixed and 0 or window, slice = fixed and window or 0, width = bytes > 0 and bytes + ENTRY_STAMP or 0 }
  local c = { limit = limit, sum = 0, newest = 0, units = 0, level = 0, at = 0, unit = 0, oldest = FAR, entries = '',
    booked = '', booked_sum = 0 }
  local shape = 0
  limit.cut = now - (limit.algorithm == CALENDAR and 2 * window or limit.span)
  if bytes > 0 then
    c.sum, c.newest, c.units, c.oldest, shape, at = struct.unpack('<ddddI4', value, at)
    if bytes % 2 == 0 or bytes > 7 or not (whole(c.sum) and whole(c.newest) and whole(c.units)) then return nil end
  end
  if math.floor(kind / HAS_METER) % 2 == 1 then
    c.level, c.at, c.unit, at = struct.unpack('<ddd', value, at)
    if not (whole(c.level) and whole(c.at) and whole(c.unit) and c.unit > 0) then return nil end
  end
  return c, shape, at
end

-- read_logs reads the entries of all counts, from the end of the heads on. It returns where the
-- rings end; nil if something is not there.
local function read_logs(st, value, shapes, heads)
  local back, front, ring = heads, heads, heads
  for _, c in ipairs(st.counts) do
    front, ring = front + BACK_MOST * c.limit.width, ring + (BACK_MOST + BLOCK) * c.limit.width
  end
  for i, c in ipairs(st.counts) do
    local shape, width = shapes[i], c.limit.width
    local nf, nb = shape % SHAPE_BACK, math.floor(shape / SHAPE_BACK) % BLOCK
    local first, blocks = math.floor(shape / SHAPE_FIRST) % 32, math.floor(shape / SHAPE_BLOCKS) % 32
    local ends = ring + math.floor(shape / SHAPE_SLOTS) * BLOCK * width
    local cut = ring + first * BLOCK * width
    local til = cut + blocks * BLOCK * width
    local entries = value:sub(front + (BLOCK - nf) * width + 1, front + BLOCK * width)
      .. value:sub(cut + 1, math.min(til, ends)) .. value:sub(ring + 1, ring + math.max(0, til - ends))
      .. value:sub(back + 1, back + nb * width)
    if c.newest > 0 then entries = entries .. struct.pack(c.limit.entry, c.newest, c.units) end
    if nf > BLOCK or #entries ~= (nf + nb + blocks * BLOCK + (c.newest > 0 and 1 or 0)) * width
      or ends > ring and #value < ends then return nil end
    if width > 0 then set_entries(c, entries) end
    back, front, ring = back + BACK_MOST * width, front + BLOCK * width, ends
  end
  return ring
end

-- read_bookings reads the bookings of a state, from an offset on. It reports false if they are
-- damaged.
local function read_bookings(st, value, at)
  for _, c in ipairs(st.counts) do
    local count
    count, c.booked_sum, at = struct.unpack('<I2d', value, at)
    if not (c.booked_sum >= 0 and c.booked_sum % 1 == 0) then return false end
    if c.unit > 0 then
      local level, led_at, rate
      level, led_at, rate, at = struct.unpack('<ddd', value, at)
      if not (whole(level) and whole(led_at) and whole(rate)) then return false end
      c.led = { level, led_at, rate }
    end
    c.booked, at = value:sub(at, at + count * BOOKED - 1), at + count * BOOKED
    if #c.booked < count * BOOKED then return false end
  end
  return true
end

-- decode reads a value. It returns nil if that is not a state, or damaged.
local function decode(key, value)
  local mark, n = value:byte(1, 2)
  if mark ~= PLAIN_STATE and mark ~= BOOKED_STATE then return end
  local heads = DIRECTORY_START + DIRECTORY_LIMIT * n
  local st = { key = key, whole = true, stored = value:sub(1, heads), counts = {} }
  local at, shapes = nil, {}
  st.generation, st.last, st.expires, at = struct.unpack('<I4dd', value, heads + 1)
  if not (whole(st.last) and whole(st.expires)) then return end
  for i = 1, n do
    local kind, window = struct.unpack('>BI7', value, DIRECTORY_START + DIRECTORY_LIMIT * (i - 1) + 1)
    local c
    c, shapes[i], at = read_count(value, at, kind, window)
    if not c then return end
    c.st, st.counts[i] = st, c
  end
  local ends = read_logs(st, value, shapes, at - 1)
  if not ends or mark == BOOKED_STATE and not read_bookings(st, value, ends + 1) then return end
  return st
end

-- step_back follows a clock that stepped back.
local function step_back(st)
  local back = st.last - now
  st.stepped = true
  for _, c in ipairs(st.counts) do
    if c.limit.algorithm ~= CALENDAR then
      local out = {}
      each_entry(c, function(stamp, n) out[#out + 1] = struct.pack(c.limit.entry, math.max(0, stamp - back), n) end)
      if c.limit.width > 0 then set_entries(c, table.concat(out)) end
      if c.unit > 0 then c.at, c.led = math.min(c.at, now), nil end
      shift_bookings(c, back)
    end
  end
end

local function empty(key) return { key = key, whole = true, counts = {}, expires = 0 } end

-- read returns the state of a key as it is stored, brought back if the clock stepped back; an empty
-- one if there is none, or if it is damaged.
function W.read(key)
  local value = redis.pcall('GET', key)
  if not value then return empty(key) end
  if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then error(value) end
  local ok, st = pcall(decode, key, value)
  if not ok or not st then
    discard(key)
    return empty(key)
  end
  if st.last > now then step_back(st) end
  return st
end

-- count_of returns the count of a limit in a state, which is new if there is none.
local function count_of(st, kind, window)
  local algorithm, i, c = kind % HAS_METER, 1, st.counts[1]
  while c and (c.limit.window < window or c.limit.window == window and c.limit.algorithm < algorithm) do
    i = i + 1
    c = st.counts[i]
  end
  if c and c.limit.window == window and c.limit.algorithm == algorithm then return c end
  c = read_count('', 1, algorithm, window)
  c.st = st
  table.insert(st.counts, i, c)
  return c
end

-- ask gives a count the limit of a set that is asked about.
local function ask(c, set, at)
  local limit, width = c.limit, set[at + WIDTH]
  limit.asked, limit.cap, limit.span, limit.slice = true, set[at + CAP], set[at + SPAN], set[at + SLICE]
  limit.unit, limit.rate, limit.tick, limit.cut = set[at + UNIT], set[at + RATE], set[at + TICK], set[at + CUT]
  if limit.unit < 0 then -- a calendar limit
    limit.ended, limit.this, limit.following = limit.rate, limit.slice, limit.tick
    limit.unit, limit.rate, limit.tick, limit.slice = 0, 0, 1, limit.window
  end
  if width > 0 then widen(c, 0, width) end
end

-- open returns the state of a key with counts of all limits that a set asks about, and these in
-- their order. They are open. The state may have been read before.
function W.open(key, set, st)
  local counts, at = {}, LIMITS
  st = st or W.read(key)
  for i = 1, set[N] do
    if set[at + ASKED] == 1 then
      local c = count_of(st, struct.unpack('>BI7', set[SIG], DIRECTORY_START + DIRECTORY_LIMIT * (i - 1) + 1))
      ask(c, set, at)
      if not pcall(open, c) then -- it is damaged
        discard(key)
        return W.open(key, set, empty(key))
      end
      counts[#counts + 1] = c
    end
    at = at + STRIDE
  end
  return st, counts
end

-- strikes returns the state and the log of the strikes within so many microseconds, or within as
-- many as when the last one was counted.
function W.strikes(key, within)
  local st = W.read(key)
  local c = st.counts[1]
  if not c or c.limit.width ~= 8 or c.limit.algorithm ~= SLIDING then
    c = count_of(empty(key), SLIDING, within or 0)
    widen(c, 0, 8)
  end
  local limit = c.limit
  within = within or limit.window
  limit.window, limit.span, limit.cut, limit.cap, limit.asked = within, within, now - within, RESOLUTION, true
  st.counts = { c }
  open(c)
  return st, c
end

-- slots_for is how many blocks the ring of a log needs room for: twice what there are, but no more
-- than the limit can fill.
local function slots_for(limit, blocks)
  if blocks == 0 then return 0 end
  local most = RESOLUTION + 1
  if limit.slice == 0 then most = math.min(limit.cap or most, most) elseif limit.span == 0 then most = 1 end
  return math.max(blocks, math.min(math.floor((most - 1) / BLOCK), math.max(2, blocks * 2)))
end

-- needs is until when a count must be kept: a bucket for twice its refill, as in sets.lua.
local function needs(c)
  local limit, til, _, e = c.limit, c.newest > 0 and c.newest + c.limit.span or now, W.last_booking(c)
  if e > 0 then til = math.max(til, stamp_of(limit, e) + limit.span) end
  if limit.unit > 0 then
    local level, at = lead(c)
    til = math.max(til, falls_to(limit, level, math.max(at, now), 0) + limit.tick)
    if limit.width == 0 then
      til = math.max(til, now + (2 * math.ceil(limit.cap * limit.unit / limit.rate) + 1) * limit.tick)
    end
  end
  return til + KEPT
end

-- to_keep returns the counts of a state that still count, those that have not changed as they were.
local function to_keep(st)
  local kept, stored = {}, nil
  for _, c in ipairs(st.counts) do
    local counted = c
    if c.limit.asked and not c.changed then
      stored = stored or W.read(st.key)
      counted = count_of(stored, c.limit.algorithm, c.limit.window)
    end
    local limit, began = counted.limit, counted.began
    if began and began ~= counted.oldest then
      set_entries(counted, struct.pack(limit.entry, began, 0) .. counted.entries)
    end
    local log = counted.entries ~= ''
    if not counted.changed and #counted.booked == 0 and counted.newest <= limit.cut then
      log = false
      if counted.limit.width > 0 then set_entries(counted, '') end
      counted.sum = 0
    end
    if counted.changed and limit.unit > 0 or #counted.booked > 0 or log
      or counted.unit > 0 and (limit.width == 0 or counted.level > 0) then kept[#kept + 1] = counted end
  end
  return kept
end

-- pack_log returns the head, the front and the ring of a log. Its back is empty.
local function pack_log(c)
  local width, limit = c.limit.width, c.limit
  local n = math.max(0, #c.entries / width - 1)
  local front = n == 0 and 0 or (n - 1) % BLOCK + 1
  local blocks = (n - front) / BLOCK
  local slots = slots_for(limit, blocks)
  local shape = front + SHAPE_BLOCKS * blocks + SHAPE_SLOTS * slots
  return struct.pack('<ddddI4', c.sum, c.newest, c.units, c.oldest, shape),
    ('\0'):rep((BLOCK - front) * width) .. c.entries:sub(1, front * width),
    c.entries:sub(front * width + 1, n * width) .. ('\0'):rep((slots - blocks) * BLOCK * width)
end

-- pack_bookings returns the bookings of a count.
local function pack_bookings(c)
  local out = struct.pack('<I2d', #c.booked / BOOKED, c.booked_sum)
  if c.unit > 0 then
    if c.limit.unit > 0 then lead(c) end
    out = out .. struct.pack('<ddd', unpack(c.led or { 0, 0, 0 }))
  end
  return out .. c.booked
end

-- save writes a state, without the limits that count no more.
function W.save(st)
  st.stepped = false
  local kept, need, booked, logs = to_keep(st), 0, false, false
  if #kept > 255 then error({ err = 'ERR more than 255 limits on one subject, scope and name' }) end
  for _, c in ipairs(kept) do
    need = math.max(need, needs(c))
    booked, logs = booked or #c.booked > 0, logs or #c.entries > c.limit.width
  end
  st.saved = ''
  if #kept == 0 then return redis.call('DEL', st.key) end
  local sig, heads, backs, fronts, rings, tail = {}, {}, '', '', '', ''
  for i, c in ipairs(kept) do
    local limit = c.limit
    local kind = limit.algorithm + (c.unit > 0 and HAS_METER or 0)
    heads[i] = ''
    if limit.width > 0 then
      local head, front, ring = pack_log(c)
      kind = kind + ENTRY_WIDTH * (limit.width - ENTRY_STAMP)
      heads[i], backs = head, backs .. ('\0'):rep(BACK_MOST * limit.width)
      fronts, rings = fronts .. front, rings .. ring
    end
    if c.unit > 0 then heads[i] = heads[i] .. struct.pack('<ddd', c.level, c.at, c.unit) end
    if booked then tail = tail .. pack_bookings(c) end
    sig[i] = struct.pack('>BI7', kind, limit.window)
  end
  st.generation = st.generation or generation
  st.expires = math.min(MAX_UNITS, math.max(st.expires, need))
  st.saved = struct.pack('BB', booked and BOOKED_STATE or PLAIN_STATE, #kept) .. table.concat(sig)
  local value = st.saved .. struct.pack('<I4dd', st.generation, now, st.expires) .. table.concat(heads)
  if logs or booked then value = value .. backs .. fronts .. rings .. tail end
  redis.call('SET', st.key, value, 'PX', ttl(math.max(0, st.expires - now)))
end

-- save_once writes a state that several claims may share.
function W.save_once(st)
  if st.saved == nil then W.save(st) end
end

-- heal writes that the clock stepped back, if it did.
function W.heal(st)
  local stored = st.stepped and W.read(st.key)
  if stored and stored.stepped then W.save(stored) end
end
