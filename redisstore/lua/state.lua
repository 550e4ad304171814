-- state: that of a subject in one scope, all limits of one name except concurrency limits, in one
-- string. Here it is read and written as a whole; take.lua reads and writes its front, where that
-- is enough.
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
-- Numbers are little-endian doubles unless stated otherwise, entries as in log.lua. The string may
-- end before anything that is not in use.
--
-- In a table st: key, generation, last, expires, and in st.limits a table l per limit: algorithm,
-- window, and the fields that log.lua, meter.lua and bookings.lua name; l.level is nil if it has no
-- meter. A limit that a script asks about also has l.cost, and its capacity, span, slice and meter
-- from the set.

-- slots_for is how many blocks the ring of a log needs room for: twice what there are, but no more
-- than the limit can fill.
local function slots_for(l, blocks)
  if blocks == 0 then return 0 end
  local most = RESOLUTION + 1
  if l.slice == 0 then most = min(l.cap or most, most) elseif l.span == 0 then most = 1 end
  return max(blocks, min(floor((most - 1) / BLOCK), max(2, blocks * 2)))
end

-- decode reads a value into st. It reports false if that is not a state, or damaged.
local function decode(st, s)
  local mark, n = s:byte(1, 2)
  local at = DIRECTORY_START + DIRECTORY_LIMIT * (n or 0) + 1
  if (mark ~= PLAIN_STATE and mark ~= BOOKED_STATE) or #s < at + HEADER_SIZE - 1 then return false end
  st.generation, st.last, st.expires, at = unpack_at('<I4dd', s, at)
  if not (whole(st.last) and whole(st.expires)) then return false end
  local limits, shapes = {}, {}
  for i = 1, n do
    local kind, window = unpack_at('>BI7', s, DIRECTORY_START + DIRECTORY_LIMIT * (i - 1) + 1)
    local algorithm, metered = kind % HAS_METER, floor(kind / HAS_METER) % 2
    local width = floor(kind / ENTRY_WIDTH)
    local l = { algorithm = algorithm, window = window, booked = '', booked_sum = 0, width = 0 }
    if algorithm == FIXED then l.span, l.slice = 0, window else l.span, l.slice = window, 0 end
    if width > 0 then
      width = width + ENTRY_STAMP
      local format = FORMATS[width]
      if not format or #s < at + LOG_HEAD - 1 then return false end
      local sum, newest, units, _, shape
      sum, newest, units, _, shape, at = unpack_at('<ddddI4', s, at)
      if not (whole(sum) and whole(newest) and whole(units)) then return false end
      l.sum, l.width, l.format, l.entries = sum, width, format, ''
      shapes[i] = shape
      if newest > 0 then l.newest = pack(format, newest, units) end
    end
    if metered == 1 then
      if #s < at + METER_HEAD - 1 then return false end
      l.level, l.at, l.stored_unit, at = unpack_at('<ddd', s, at)
      if not (whole(l.level) and whole(l.at) and whole(l.stored_unit) and l.stored_unit > 0) then return false end
    end
    limits[i] = l
  end
  local back, front, ring = at - 1, at - 1, at - 1
  for i = 1, n do
    front, ring = front + BACK_MOST * limits[i].width, ring + (BACK_MOST + BLOCK) * limits[i].width
  end
  for i = 1, n do
    local l, p, w = limits[i], shapes[i], limits[i].width
    if p then
      local nf, nb = p % SHAPE_BACK, floor(p / SHAPE_BACK) % BLOCK
      local first, blocks, slots = floor(p / SHAPE_FIRST) % 32, floor(p / SHAPE_BLOCKS) % 32, floor(p / SHAPE_SLOTS)
      local ends = ring + slots * BLOCK * w
      if nf > BLOCK or blocks > slots or nb > 0 and #s < back + nb * w or nf > 0 and #s < front + BLOCK * w
        or slots > 0 and #s < ends then return false end
      local cut = ring + first * BLOCK * w
      local used = cut + blocks * BLOCK * w
      l.entries = s:sub(front + (BLOCK - nf) * w + 1, front + BLOCK * w)
        .. s:sub(cut + 1, min(used, ends)) .. s:sub(ring + 1, ring + max(0, used - ends))
        .. s:sub(back + 1, back + nb * w) .. (l.newest or '')
      back, front, ring = back + BACK_MOST * w, front + BLOCK * w, ends
    end
  end
  if mark == BOOKED_STATE then
    local pos = ring + 1
    for i = 1, n do
      local l, count = limits[i], nil
      if #s < pos + 9 then return false end
      count, l.booked_sum, pos = unpack_at('<I2d', s, pos)
      if not (l.booked_sum >= 0 and l.booked_sum % 1 == 0) then return false end
      if l.level then
        if #s < pos + METER_HEAD - 1 then return false end
        local level, at, rate = unpack_at('<ddd', s, pos)
        if not (whole(level) and whole(at) and whole(rate)) then return false end
        l.led = { level, at, rate }
        pos = pos + METER_HEAD
      end
      l.booked, pos = s:sub(pos, pos + count * BOOKED - 1), pos + count * BOOKED
      if #l.booked < count * BOOKED then return false end
    end
  end
  st.limits = limits
  return true
end

-- without is an empty state instead of one that is damaged, or is none.
local function without(key)
  discard(key)
  return { key = key, limits = {}, expires = 0 }
end

-- read_state returns the state of a key as it is stored, brought back if the clock stepped back; an
-- empty one if there is none.
local function read_state(key)
  local st = { key = key, limits = {}, expires = 0 }
  local s = try('GET', key)
  if not s then return st end
  if type(s) == 'table' and not s.err:find('WRONGTYPE', 1, true) then error(s) end
  local ok, good = pcall(decode, st, s)
  if not (ok and good) then return without(key) end
  st.stored = s:sub(1, DIRECTORY_START + DIRECTORY_LIMIT * #st.limits)
  if st.last > now then
    local back = st.last - now
    st.stepped = true
    for _, l in ipairs(st.limits) do
      if l.width > 0 then shift_log(l, back) end
      if l.level then l.at, l.led = min(l.at, now), nil end
      shift_bookings(l, back)
    end
  end
  return st
end

-- needs is until when a limit must be kept: a bucket for twice its refill, as in sets.lua.
local function needs(l)
  local til = 0
  if l.width > 0 then
    local newest = entry(l, entry_count(l))
    til = newest and newest + l.span or 0
  end
  local _, e = booking(l, #l.booked / BOOKED - 1)
  if e then til = max(til, stamp(l, e) + l.span) end
  if l.unit then
    if l.width == 0 then til = max(til, now + (2 * ceil(l.cap * l.unit / l.rate) + 1) * l.tick) end
    local level, at = lead(l)
    til = max(til, falls_to(l, level, max(at, now), 0) + l.tick)
  end
  return til
end

-- What opening a limit changes. If nothing else does, it is written as it was.
local OPENED = { 'width', 'format', 'entries', 'sum', 'level', 'at', 'stored_unit', 'led', 'booked', 'booked_sum' }

local function note(l)
  l.before = {}
  for _, field in ipairs(OPENED) do l.before[field] = l[field] end
end

local function as_it_was(l)
  local was = { algorithm = l.algorithm, window = l.window, span = l.span, slice = l.slice }
  for _, field in ipairs(OPENED) do was[field] = l.before[field] end
  return was
end

-- save writes a state, without the limits that count no more.
local function save(st)
  st.stepped = false
  local kept, need, marked = {}, 0, false
  for _, l in ipairs(st.limits) do
    if l.before and not l.changed then l = as_it_was(l) end
    if not l.cost and l.width > 0 and #l.booked == 0 and (entry(l, entry_count(l)) or 0) <= now - l.span then
      l.entries, l.sum = '', 0
    end
    if l.unit or #l.booked > 0 or l.level and (l.width == 0 or l.level > 0) or l.width > 0 and l.entries ~= '' then
      kept[#kept + 1] = l
      need, marked = max(need, needs(l) + KEPT), marked or #l.booked > 0
    end
  end
  if #kept > 255 then error({ err = 'ERR more than 255 limits on one subject, scope and name' }) end
  if #kept == 0 then
    st.saved = nil
    return call('DEL', st.key)
  end
  local sig, whole = { pack('BB', marked and BOOKED_STATE or PLAIN_STATE, #kept) }, marked
  local heads, backs, fronts, rings, tail = { '' }, {}, {}, {}, {}
  for i, l in ipairs(kept) do
    local w = l.width
    local kind = l.algorithm + (l.level and HAS_METER or 0) + (w > 0 and ENTRY_WIDTH * (w - ENTRY_STAMP) or 0)
    sig[i + 1] = pack('>BI7', kind, l.window)
    if w > 0 then
      local q = max(0, entry_count(l) - 1)
      local nf = q == 0 and 0 or (q - 1) % BLOCK + 1
      local blocks = (q - nf) / BLOCK
      local slots = slots_for(l, blocks)
      local newest, units = entry(l, q + 1)
      local shape = nf + SHAPE_BLOCKS * blocks + SHAPE_SLOTS * slots
      heads[#heads + 1] = pack('<ddddI4', l.sum, newest or 0, units or 0, entry(l, 1) or FAR, shape)
      backs[#backs + 1] = ('\0'):rep(BACK_MOST * w)
      fronts[#fronts + 1] = ('\0'):rep((BLOCK - nf) * w) .. l.entries:sub(1, nf * w)
      rings[#rings + 1] = l.entries:sub(nf * w + 1, q * w) .. ('\0'):rep((slots - blocks) * BLOCK * w)
      whole = whole or q > 0
    end
    if l.level then heads[#heads + 1] = pack('<ddd', l.level, l.at, l.stored_unit) end
    if marked then
      tail[#tail + 1] = pack('<I2d', #l.booked / BOOKED, l.booked_sum)
      if l.level then
        if l.unit then lead(l) end
        tail[#tail + 1] = pack('<ddd', unpack(l.led or { 0, 0, 0 }))
      end
      tail[#tail + 1] = l.booked
    end
  end
  st.generation = st.generation or generation
  st.expires = min(MAX_UNITS, max(st.expires, need))
  heads[1] = pack('<I4dd', st.generation, now, st.expires)
  local concat = table.concat
  st.saved = concat(sig)
  local value = st.saved .. concat(heads)
  if whole then value = value .. concat(backs) .. concat(fronts) .. concat(rings) .. concat(tail) end
  call('SET', st.key, value, 'PX', ttl(max(0, st.expires - now)))
end

-- heal writes that the clock stepped back.
local function heal(st)
  local stored = read_state(st.key)
  if stored.stepped then save(stored) end
end

-- fill gives a limit of a state the fields of the set's limit at i.
local function fill(l, set, i, cost)
  l.cap, l.span, l.slice, l.cost = set[i + CAP], set[i + SPAN], set[i + SLICE], cost
  if set[i + WIDTH] > l.width then
    if l.entries then
      widen(l, 256 ^ (set[i + WIDTH] - ENTRY_STAMP - 1))
    else
      l.sum, l.entries, l.width = 0, '', set[i + WIDTH]
      l.format = FORMATS[l.width]
    end
  end
  if set[i + UNIT] > 0 then l.unit, l.rate, l.tick = set[i + UNIT], set[i + RATE], set[i + TICK] end
end

-- open brings a limit up to date.
local function open(l)
  if l.unit and l.level then convert_meter(l, l.unit) end
  if l.width > 0 then drop_old(l) end
  take_due(l, now, function(t, e, n)
    if not l.unit then l.led = nil end
    if l.width > 0 and stamp(l, e) > now - l.span then append(l, stamp(l, e), n) end
    if l.unit and l.level then l.level, l.at = min(MAX_UNITS, leak(l, l.level, l.at, t) + n * l.unit), max(l.at, t) end
  end)
  if l.unit then
    if l.level then
      l.level, l.at = leak(l, l.level, l.at, now), now
    else
      l.level, l.at, l.stored_unit, l.led = min(l.sum or 0, floor(MAX_UNITS / l.unit)) * l.unit, now, l.unit, nil
    end
  end
end

-- open_state returns the state of a key, in which all limits that a set asks about are there and
-- open, and these in their order. It may have been read before.
local open_state
function open_state(key, set, cost, st)
  st = st or read_state(key)
  local asked = {}
  local at = LIMITS
  for i = 1, set[N] do
    if set[at + ASKED] == 1 then
      local kind, window = unpack_at('>BI7', set[SIG], DIRECTORY_START + DIRECTORY_LIMIT * (i - 1) + 1)
      local algorithm = kind % HAS_METER
      local j, l = 1, st.limits[1]
      while l and (l.window < window or l.window == window and l.algorithm < algorithm) do
        j = j + 1
        l = st.limits[j]
      end
      if not l or l.window ~= window or l.algorithm ~= algorithm then
        l = { algorithm = algorithm, window = window, booked = '', booked_sum = 0, width = 0 }
        table.insert(st.limits, j, l)
      end
      note(l)
      fill(l, set, at, cost)
      if not pcall(open, l) then return open_state(key, set, cost, without(key)) end -- it is damaged
      l.st = st
      asked[#asked + 1] = l
    end
    at = at + STRIDE
  end
  return st, asked
end
G.open_state, G.save = open_state, save

-- The verbs of a limit. One without capacity admits nothing, and a bucket that is never refilled
-- has no state.

local L = {}
G.L = L

local function dead(l) return l.width == 0 and not l.unit end

function L.used(l)
  if dead(l) then return 0 end
  return max(l.width > 0 and l.sum or 0, l.unit and ceil(l.level / l.unit) or 0) + l.booked_sum
end

-- reset is the time until nothing is used.
function L.reset(l)
  if dead(l) then return 0 end
  local til = now
  if l.width > 0 then
    local newest = entry(l, entry_count(l))
    local _, e = booking(l, #l.booked / BOOKED - 1)
    til = max(newest and newest + l.span or 0, e and stamp(l, e) + l.span or 0, now)
  end
  if l.unit then
    local level, at = lead(l)
    til = max(til, falls_to(l, leak(l, level, at, max(at, now)), max(at, now), 0))
  end
  return min(til, MAX_UNITS) - now
end

function L.fits(l, n)
  return l.cap > 0 and n <= l.cap and (l.width == 0 or log_fits(l, n)) and (not l.unit or meter_fits(l, n))
end

-- earliest is the first instant from t on at which n more fit; t is not before the last booking.
function L.earliest(l, t, n)
  if l.cap == 0 or n > l.cap then return NEVER end
  if l.width > 0 then t = log_earliest(l, t, n) end
  if l.unit then t = meter_earliest(l, t, n) end
  return t > MAX_UNITS and NEVER or t
end

-- at returns what is used at t, and how long after that nothing is; t is not before the last
-- booking.
function L.at(l, t)
  local used, til = 0, t
  if l.width > 0 then used, til = log_at(l, t) end
  if l.unit then
    local level, empty = meter_at(l, t)
    used, til = max(used, level), max(til, empty)
  end
  return used, min(til, MAX_UNITS) - t
end

-- charge charges the limit's cost now: to its log as of an instant, if that counts, and to its
-- meter without what that has refilled in some time.
function L.charge(l, at, _, refilled)
  if dead(l) then return end
  l.changed = true
  if l.width > 0 and l.cost > 0 and stamp(l, at) > now - l.span then append(l, stamp(l, at), l.cost) end
  if l.unit then
    local weight = min(l.cost, floor(MAX_UNITS / l.unit)) * l.unit - floor(refilled / l.tick) * l.rate
    l.level, l.led = min(MAX_UNITS, l.level + max(0, weight)), nil
  end
end

function L.book(l, t, e)
  l.changed = true
  if l.unit then
    local level, at = lead(l)
    l.led = { min(MAX_UNITS, leak(l, level, at, t) + l.cost * l.unit), t, l.rate }
  else
    l.led = nil
  end
  add_booking(l, t, e, l.cost)
end

-- most_raise is by how many units a charge can be raised at most: a meter only so far above its
-- capacity, and no sum or level past MAX_UNITS.
local function most_raise(l, debt)
  local most = MAX_UNITS
  if l.width > 0 then most = most - l.sum - l.booked_sum end
  if l.unit then
    most = min(most, max(0, l.cap - L.used(l)) + (debt > 0 and debt or l.cap),
      floor((MAX_UNITS - l.level) / l.unit) - l.booked_sum)
  end
  return max(0, most)
end

-- settle changes a charge of l.cost at t. It returns what is charged then, nothing if that was not
-- found.
function L.settle(l, at, cost, debt)
  if dead(l) then return end
  local delta = cost - l.cost
  if delta > 0 then delta = min(delta, most_raise(l, debt)) end
  local i = at > now and find_booking(l, at)
  if i then
    change_booking(l, i, delta)
  elseif l.width > 0 then
    local by = settle_log(l, at, delta)
    if not by then return end
    if l.unit then l.level = max(0, l.level + by * l.unit) end
  else
    local refilled = max(0, floor(now / l.tick) - floor(at / l.tick)) * l.rate
    if refilled >= l.cost * l.unit then return end
    if delta < 0 then
      l.level = l.level - min(l.level, max(0, -delta * l.unit - refilled))
    else
      l.level = l.level + delta * l.unit
    end
  end
  l.led, l.changed = nil, true
  return l.cost + delta
end

-- raise charges now what a charge of l.cost really cost more. It returns what is charged then.
function L.raise(l, cost, debt)
  if dead(l) then return end
  local by = min(cost - l.cost, most_raise(l, debt))
  if l.width > 0 and by > 0 then append(l, stamp(l, now), by) end
  if l.unit then l.level = l.level + by * l.unit end
  l.led, l.changed = nil, true
  return l.cost + by
end

-- give_back gives back up to n units. It reports whether there was anything to give back.
function L.give_back(l, n)
  if dead(l) then return false end
  local gave = l.width > 0 and give_back_log(l, n)
  if l.unit and l.level > 0 then
    l.level, l.led, gave = l.level - min(l.level, n * l.unit), nil, true
  end
  l.changed = gave
  return gave
end

-- each calls f with every entry in the window and every booking of a limit: when it was charged or
-- is booked for, when it leaves the window, and how many units it has. An entry of a fixed window
-- was charged at its start.
function G.each(l, f)
  for i = 1, l.width > 0 and entry_count(l) or 0 do
    local at, units = entry(l, i)
    f(l.span == 0 and at - l.slice or at, at + l.span, units)
  end
  for i = 0, l.width > 0 and #l.booked / BOOKED - 1 or -1 do
    local t, e, n = booking(l, i)
    f(t, stamp(l, e) + l.span, n)
  end
end

-- forget removes limits from a state, and with them the means to amend what was charged to it
-- before.
function G.forget(st, limits)
  if not st.stored then return end
  local left = {}
  for _, l in ipairs(st.limits) do
    local gone = false
    for _, other in ipairs(limits) do gone = gone or other == l end
    if not gone then left[#left + 1] = l end
  end
  st.limits, st.generation = left, generation
  save(st)
end

G.last_booking = last_booking
