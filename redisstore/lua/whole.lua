-- whole reads and writes states as a whole. This file and those up to the end of make_whole
-- (script.go) are for rare cases: bookings, a clock that stepped back, entries ahead of now, limits
-- that a state does not have yet, a ring that must grow. W is the table of functions that
-- make_whole returns; if W.looking is true, nothing is written.
--
-- A state that was read as a whole is an array like other states (state.lua), so the same functions
-- drop entries, charge and settle. It has fields for the log and the meter of every limit: without
-- a log, WIDTH is 0; without a meter, LEVEL_UNIT is 0. It also has these named fields:
--
--   counts        the tables of its limits, in order
--   stepped       true if the clock stepped back
--   saved         its directory, once written
--
-- Each limit of such a state has a table c with these fields:
--
--   st, at        its state, and the index of its first field in the set
--   algorithm, window
--   cost          requested units
--   changed       whether it must be written
--   booked, …     its bookings, see bookings.lua
--   held          the table of its held units (held.lua), if there are any. In that table, main is
--                 the table of the limit, and charges reports whether expired units are charged
--   stock         whether the request holds units of it instead of charging them
--
-- In the set of such a state, windows[at] is the window of the limit whose first field has the
-- index `at`.

local W = { looking = false }

-- discard removes a key whose value is damaged or not a state.
local function discard(key)
  if not W.looking then redis.call('DEL', key) end
end

-- valid reports whether v is a number that a script can have written.
local function valid(v) return v >= 0 and v <= MAX_UNITS and v % 1 == 0 end

-- add_limit adds a limit to a state, and returns the limit's table. `kind` and `window` are as in
-- the directory. `heads` has sum, newest stamp, newest units and oldest stamp of the log, and
-- level, time and unit of the meter.
local function add_limit(st, kind, window, heads)
  local set, counts, bytes, algorithm = st[SET], st.counts, math.floor(kind / ENTRY_WIDTH) % 8, kind % HAS_METER
  if kind % CHARGES >= HELD then algorithm = algorithm + HELD end
  local at, o = LIMITS + #counts * STRIDE, FIRST_HEAD + #counts * (LOG_FIELDS + METER_FIELDS)
  local m, span = o + LOG_FIELDS, algorithm < FIXED and window or 0
  set[at + ASKED], set[at + LOG], set[at + METER], set[at + BACK], set[at + FRONT] = 0, o, m, 0, 0
  set[at + CAP], set[at + SPAN], set[at + SLICE] = false, span, (algorithm < FIXED or algorithm >= HELD) and 0 or window
  set[at + WIDTH], set[at + ENTRY] = bytes > 0 and bytes + ENTRY_STAMP or 0, '>I7I' .. bytes
  set[at + UNIT], set[at + RATE], set[at + TICK] = 0, 0, 1
  set[at + CUT], set[at + STAMP] = now - ((algorithm == CALENDAR or kind >= CHARGES) and 2 * window or span), 0
  st[o + SUM], st[o + NEWEST], st[o + NEWEST_UNITS] = heads[1] or 0, heads[2] or 0, heads[3] or 0
  st[o + OLDEST], st[o + SHAPE], st[FRONTS][at] = heads[4] or FAR, 0, ''
  st[m + LEVEL], st[m + LEVEL_AT], st[m + LEVEL_UNIT] = heads[5] or 0, heads[6] or 0, heads[7] or 0
  set[LAST_LIMIT], set.windows[at] = at, window
  counts[#counts + 1] = { st = st, at = at, algorithm = algorithm, window = window, cost = 0, changed = false,
    booked = '', booked_sum = 0, held = false, main = false, charges = kind >= CHARGES, stock = false }
  return counts[#counts]
end

-- make returns a state without limits.
local function make(key, value, created, written, expires)
  local set = { windows = {} }
  set[LAST_LIMIT], set[HEADS], set[NEED] = 0, -1, 0
  return { key, set, value, '', {}, false, W, false, created, written, expires, counts = {} }
end

local function empty(key) return make(key, '', generation, now, 0) end

-- read_head reads the head of a limit, which begins at the offset `at`. It returns the fields of
-- the head, its shape, and the offset of its end, or nil if the head is damaged.
local function read_head(value, at, kind)
  local bytes, shape, heads = math.floor(kind / ENTRY_WIDTH) % 8, 0, {}
  if bytes > 0 then
    heads[1], heads[2], heads[3], heads[4], shape, at = struct.unpack('<ddddI4', value, at)
    if bytes % 2 == 0 or bytes > 7 or not (valid(heads[1]) and valid(heads[2]) and valid(heads[3])) then return nil end
  end
  if math.floor(kind / HAS_METER) % 2 == 1 then
    heads[5], heads[6], heads[7], at = struct.unpack('<ddd', value, at)
    if not (valid(heads[5]) and valid(heads[6]) and valid(heads[7]) and heads[7] > 0) then return nil end
  end
  return heads, shape, at
end

-- read_logs reads the entries of all limits, from the end of the heads on. It returns the offset of
-- the end of the rings, or nil if something is missing.
local function read_logs(st, shapes, heads)
  local set, value, back, front, ring = st[SET], st[VALUE], heads, heads, heads
  for _, c in ipairs(st.counts) do
    local width = set[c.at + WIDTH]
    front, ring = front + BACK_MOST * width, ring + (BACK_MOST + BLOCK) * width
  end
  for i, c in ipairs(st.counts) do
    local shape, width = shapes[i], set[c.at + WIDTH]
    local nf, nb = shape % SHAPE_BACK, math.floor(shape / SHAPE_BACK) % BLOCK
    local first, blocks = math.floor(shape / SHAPE_FIRST) % 32, math.floor(shape / SHAPE_BLOCKS) % 32
    local ends = ring + math.floor(shape / SHAPE_SLOTS) * BLOCK * width
    local cut = ring + first * BLOCK * width
    local til = cut + blocks * BLOCK * width
    local entries = value:sub(front + (BLOCK - nf) * width + 1, front + BLOCK * width)
      .. value:sub(cut + 1, math.min(til, ends)) .. value:sub(ring + 1, ring + math.max(0, til - ends))
      .. value:sub(back + 1, back + nb * width)
    if nf > BLOCK or #entries ~= (nf + nb + blocks * BLOCK) * width or ends > ring and #value < ends then return nil end
    st[FRONTS][c.at] = entries
    back, front, ring = back + BACK_MOST * width, front + BLOCK * width, ends
  end
  return ring
end

-- read_bookings reads the bookings of a state, from the offset `at` on. It returns false if they
-- are damaged.
local function read_bookings(st, at)
  local value = st[VALUE]
  for _, c in ipairs(st.counts) do
    local count
    count, c.booked_sum, at = struct.unpack('<I2d', value, at)
    if not (c.booked_sum >= 0 and c.booked_sum % 1 == 0) then return false end
    if st[st[SET][c.at + METER] + LEVEL_UNIT] > 0 then
      local level, led_at, rate
      level, led_at, rate, at = struct.unpack('<ddd', value, at)
      if not (valid(level) and valid(led_at) and valid(rate)) then return false end
      c.led = { level, led_at, rate }
    end
    c.booked, at = value:sub(at, at + count * BOOKED - 1), at + count * BOOKED
    if #c.booked < count * BOOKED then return false end
  end
  return true
end

-- decode reads the value of a key. It returns nil if the value is not a state or is damaged.
local function decode(key, value)
  local mark, n = value:byte(1, 2)
  if mark ~= PLAIN_STATE and mark ~= BOOKED_STATE then return end
  local created, written, expires, at = struct.unpack('<I4dd', value, DIRECTORY_START + DIRECTORY_LIMIT * n + 1)
  if not (valid(written) and valid(expires)) then return end
  local st, shapes, heads = make(key, value, created, written, expires), {}, nil
  for i = 1, n do
    local kind, window = struct.unpack('>BI7', value, DIRECTORY_START + DIRECTORY_LIMIT * (i - 1) + 1)
    heads, shapes[i], at = read_head(value, at, kind)
    if not heads then return end
    add_limit(st, kind, window, heads)
  end
  local ends = read_logs(st, shapes, at - 1)
  if not ends or mark == BOOKED_STATE and not read_bookings(st, ends + 1) then return end
  return st
end

-- step_back moves the times of a state back by as much as the clock stepped back.
local function step_back(st)
  local set, back = st[SET], st[WRITTEN] - now
  st.stepped = true
  for _, c in ipairs(st.counts) do
    if c.algorithm ~= CALENDAR and c.algorithm < HELD then
      local list, m = {}, set[c.at + METER]
      for stamp, units in W.entries(c) do list[#list + 1] = { math.max(0, stamp - back), units } end
      if set[c.at + WIDTH] > 0 then W.set_entries(c, list) end
      if st[m + LEVEL_UNIT] > 0 then st[m + LEVEL_AT], c.led = math.min(st[m + LEVEL_AT], now), nil end
      W.shift_bookings(c, back)
    end
  end
end

-- read returns the stored state of a key. If the clock stepped back, the times of the state are
-- moved back. If there is no state, or the state is damaged, read returns an empty state.
function W.read(key)
  local value = redis.pcall('GET', key)
  if not value then return empty(key) end
  if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then error(value) end
  local ok, st = pcall(decode, key, value)
  if not ok or not st then
    discard(key)
    return empty(key)
  end
  if st[WRITTEN] > now then step_back(st) end
  return st
end

-- find returns the table of a limit of a state. If the state does not have the limit, find adds it.
function W.find(st, algorithm, window)
  for _, c in ipairs(st.counts) do
    if c.algorithm == algorithm and c.window == window then return c end
  end
  return add_limit(st, algorithm, window, {})
end

-- ask copies the fields of a requested limit from its set to the set of the state.
local function ask(c, set, at)
  local own = c.st[SET]
  for _, field in ipairs({ ASKED, CAP, SPAN, SLICE, UNIT, RATE, TICK, CUT, STAMP }) do
    own[c.at + field] = set[at + field]
  end
  own[c.at + ASKED] = 1
  if set[at + WIDTH] > 0 then W.widen(c.st, c.at, 0, set[at + WIDTH]) end
end

-- refresh updates a limit to now.
local function refresh(c)
  local st, at, set = c.st, c.at, c.st[SET]
  local unit, m = set[at + UNIT], set[at + METER]
  local stored = st[m + LEVEL_UNIT]
  if unit < 0 then W.open_periods(c) end
  if unit > 0 and stored > 0 and stored ~= unit then -- the limit's Max has changed
    st[m + LEVEL] = math.min(math.ceil(st[m + LEVEL] / stored), math.floor(MAX_UNITS / unit)) * unit
    st[m + LEVEL_UNIT], c.led = unit, nil
  end
  if set[at + WIDTH] > 0 then drop_left(st, at) end
  W.take_due(c)
  if c.held then W.open_held(c) end
  if unit > 0 and stored == 0 then -- the meter begins with the sum of the log
    local sum = set[at + WIDTH] > 0 and st[set[at + LOG] + SUM] or 0
    st[m + LEVEL], st[m + LEVEL_AT] = math.min(sum, math.floor(MAX_UNITS / unit)) * unit, now
    st[m + LEVEL_UNIT], c.led = unit, nil
  elseif unit > 0 then
    st[m + LEVEL] = W.leaked(c, st[m + LEVEL], st[m + LEVEL_AT], now)
    st[m + LEVEL_AT] = now
  end
end

-- open returns the state of a key, and the tables of all limits that a set asks about, in their
-- order. It updates these limits to now. If the state was read before, st is that state.
function W.open(key, set, st)
  local counts = {}
  st = st or W.read(key)
  for at = LIMITS, set[LAST_LIMIT], STRIDE do
    if set[at + ASKED] == 1 or set[at + ASKED] == CHECKED then
      local i = (at - LIMITS) / STRIDE
      local kind, window = struct.unpack('>BI7', set[SIG], DIRECTORY_START + DIRECTORY_LIMIT * i + 1)
      local c = W.find(st, kind % HAS_METER, window)
      c.stock = set[at + ASKED] == CHECKED
      c.charges = c.stock and set[at - STRIDE + TICK] > 0
      ask(c, set, at)
      W.find_held(c)
      if not pcall(refresh, c) then -- damaged
        discard(key)
        return W.open(key, set, empty(key))
      end
      counts[#counts + 1] = c
    end
  end
  return st, counts
end

-- strikes returns the state of the strikes, and the table of its only limit. A strike counts for
-- `within` microseconds or, if that is nil, for the window of the last counted strike.
function W.strikes(key, within)
  local st = W.read(key)
  local c = st.counts[1]
  if not c or st[SET][c.at + WIDTH] ~= 8 or c.algorithm ~= SLIDING then
    st = empty(key)
    c = W.find(st, SLIDING, within or 0)
    W.widen(st, c.at, 0, 8)
  end
  local set, at = st[SET], c.at
  c.window, st.counts = within or c.window, { c }
  set[at + SPAN], set[at + CUT], set[at + CAP], set[at + ASKED] = c.window, now - c.window, RESOLUTION, 1
  refresh(c)
  return st, c
end
