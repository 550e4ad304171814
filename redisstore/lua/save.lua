-- save writes states as a whole (whole.lua).

-- slots_for returns how many slots the ring of a log needs: twice the number of its blocks, but no
-- more than the limit can fill.
local function slots_for(set, at, blocks)
  if blocks == 0 then return 0 end
  local most = RESOLUTION + 1
  if set[at + SLICE] == 0 then
    most = math.min(set[at + CAP] or most, most)
  elseif set[at + SPAN] == 0 then
    most = 1
  end
  return math.max(blocks, math.min(math.floor((most - 1) / BLOCK), math.max(2, blocks * 2)))
end

-- needs returns the time until which a limit must be kept. A bucket is kept for at least twice its
-- refill time, as in sets.lua.
local function needs(c)
  local set, at, st = c.st[SET], c.at, c.st
  local newest, til = st[set[at + LOG] + NEWEST], now
  if newest > 0 then til = newest + set[at + SPAN] + (c.algorithm >= HELD and c.charges and 2 * c.window or 0) end
  local _, e = W.last_booking(c)
  if e > 0 then til = math.max(til, stamp_of(set, at, e) + set[at + SPAN]) end
  if set[at + UNIT] > 0 then
    local level, led_at = W.lead(c)
    til = math.max(til, W.falls_to(c, level, math.max(led_at, now), 0) + set[at + TICK])
    if set[at + WIDTH] == 0 then
      til = math.max(til, now + (2 * math.ceil(set[at + CAP] * set[at + UNIT] / set[at + RATE]) + 1) * set[at + TICK])
    end
  end
  return til + KEPT
end

local function has_held(c)
  local st, set = c.st, c.st[SET]
  for _, h in ipairs(st.counts) do
    if h.algorithm == c.algorithm + HELD and h.window == c.window
      and st[set[h.at + LOG] + NEWEST] > set[h.at + CUT] then return true end
  end
  return false
end

-- to_keep returns the limits of a state that must be stored. For a requested limit that has not
-- changed, it returns the stored version. A changed limit stays even if it has no usage left, so
-- that the state keeps its generation.
local function to_keep(st)
  local kept, stored = {}, nil
  for _, c in ipairs(st.counts) do
    if c.main then c.changed = c.main.changed end
    if st[SET][c.at + ASKED] == 1 and not c.changed then
      stored = stored or W.read(st[KEY])
      c = W.find(stored, c.algorithm, c.window)
    end
    local own, at, set = c.st, c.at, c.st[SET]
    local o, m = set[at + LOG], set[at + METER]
    if c.began and c.began ~= own[o + OLDEST] then
      if own[o + NEWEST] > 0 then
        own[FRONTS][at] = struct.pack(set[at + ENTRY], c.began, 0) .. own[FRONTS][at]
      else
        own[o + NEWEST] = c.began
      end
      own[o + OLDEST] = c.began
    end
    local log = own[o + NEWEST] > 0
    if not c.changed and c.booked == '' and own[o + NEWEST] <= set[at + CUT] then
      log, own[o + SUM], own[o + NEWEST], own[o + NEWEST_UNITS], own[o + OLDEST] = false, 0, 0, 0, FAR
      own[FRONTS][at] = ''
    end
    local metered = own[m + LEVEL_UNIT] > 0 and (set[at + WIDTH] == 0 or own[m + LEVEL] > 0 or has_held(c))
    if c.changed and not c.main and (set[at + WIDTH] > 0 or set[at + UNIT] > 0) or c.booked ~= '' or log
      or metered then kept[#kept + 1] = c end
  end
  table.sort(kept, function(a, b)
    if a.window ~= b.window then return a.window < b.window end
    if a.algorithm % HELD ~= b.algorithm % HELD then return a.algorithm % HELD < b.algorithm % HELD end
    return a.algorithm > b.algorithm -- held units come before their limit
  end)
  return kept
end

-- pack_log returns the head, the front and the ring of a log. Its back is empty.
local function pack_log(c)
  local st, set, at = c.st, c.st[SET], c.at
  local o, width, text = set[at + LOG], set[at + WIDTH], st[FRONTS][at]
  local n = #text / width
  local front = n == 0 and 0 or (n - 1) % BLOCK + 1
  local blocks = (n - front) / BLOCK
  local slots = slots_for(set, at, blocks)
  local shape = front + SHAPE_BLOCKS * blocks + SHAPE_SLOTS * slots
  return struct.pack('<ddddI4', st[o + SUM], st[o + NEWEST], st[o + NEWEST_UNITS], st[o + OLDEST], shape),
    ('\0'):rep((BLOCK - front) * width) .. text:sub(1, front * width),
    text:sub(front * width + 1) .. ('\0'):rep((slots - blocks) * BLOCK * width)
end

local function pack_bookings(c)
  local out, set = struct.pack('<I2d', #c.booked / BOOKED, c.booked_sum), c.st[SET]
  if c.st[set[c.at + METER] + LEVEL_UNIT] > 0 then
    if set[c.at + UNIT] > 0 then W.lead(c) end
    out = out .. struct.pack('<ddd', unpack(c.led or { 0, 0, 0 }))
  end
  return out .. c.booked
end

-- save writes a state, without the limits that no longer count. If no limit counts, it removes the
-- key.
function W.save(st)
  st.stepped = false
  local kept, need, booked, logs = to_keep(st), 0, false, false
  if #kept > 255 then error({ err = 'ERR more than 255 limits on one subject, scope and name' }) end
  for _, c in ipairs(kept) do
    need = math.max(need, needs(c))
    booked, logs = booked or c.booked ~= '', logs or c.st[FRONTS][c.at] ~= ''
  end
  st.saved = ''
  if #kept == 0 then return redis.call('DEL', st[KEY]) end
  local directory, heads, backs, fronts, rings, tail = {}, {}, '', '', '', ''
  for i, c in ipairs(kept) do
    local set, m = c.st[SET], c.st[SET][c.at + METER]
    local width, metered = set[c.at + WIDTH], c.st[m + LEVEL_UNIT] > 0
    local kind = c.algorithm + (metered and HAS_METER or 0) + (c.algorithm >= HELD and c.charges and CHARGES or 0)
    heads[i] = ''
    if width > 0 then
      local head, front, ring = pack_log(c)
      kind = kind + ENTRY_WIDTH * (width - ENTRY_STAMP)
      heads[i], backs = head, backs .. ('\0'):rep(BACK_MOST * width)
      fronts, rings = fronts .. front, rings .. ring
    end
    if metered then heads[i] = heads[i] .. struct.pack('<ddd', unpack(c.st, m, m + METER_FIELDS - 1)) end
    if booked then tail = tail .. pack_bookings(c) end
    directory[i] = struct.pack('>BI7', kind, c.window)
  end
  st[EXPIRES] = math.min(MAX_UNITS, math.max(st[EXPIRES], need))
  st.saved = struct.pack('BB', booked and BOOKED_STATE or PLAIN_STATE, #kept) .. table.concat(directory)
  local value = st.saved .. struct.pack('<I4dd', st[GENERATION], now, st[EXPIRES]) .. table.concat(heads)
  if logs or booked then value = value .. backs .. fronts .. rings .. tail end
  redis.call('SET', st[KEY], value, 'PX', ttl(math.max(0, st[EXPIRES] - now)))
end

-- save_once writes a state unless it has been written, because several claims may share a state.
function W.save_once(st)
  if st.saved == nil then W.save(st) end
end

-- heal writes the stored state with its times moved back, if the clock stepped back.
function W.heal(st)
  local stored = st.stepped and W.read(st[KEY])
  if stored and stored.stepped then W.save(stored) end
end
