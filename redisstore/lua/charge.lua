-- charge: units are added to the limits that are asked about, and their state is written.

-- push moves the newest entry of the ith limit into the back. If that is full, they all become a
-- block: the front if that is empty, else the last one in the ring.
local function push(st, i, at, o)
  local set, shape = st.set, st[o + SHAPE]
  local width, back, n = set[at + WIDTH], set[at + BACK], math.floor(shape / SHAPE_BACK) % BLOCK
  local entry = struct.pack(set[at + ENTRY], st[o + NEWEST], st[o + NEWEST_UNITS])
  if n < BACK_MOST then
    st[o + SHAPE] = shape + SHAPE_BACK
    return put(st, back + n * width, entry)
  end
  local block = read_on(st):sub(back + 1, back + n * width) .. entry
  shape = shape - BACK_MOST * SHAPE_BACK
  if shape % SHAPE_BACK == 0 then
    st.fronts, shape = st.fronts or {}, shape + BLOCK
    st.fronts[i] = block
  else
    local first, blocks = math.floor(shape / SHAPE_FIRST) % 32, math.floor(shape / SHAPE_BLOCKS) % 32
    local slots = math.floor(shape / SHAPE_SLOTS)
    if blocks == slots or blocks == MOST_BLOCKS then error('rare') end -- the ring is full
    st.blocks, shape = st.blocks or {}, shape + SHAPE_BLOCKS
    st.blocks[slot_of(st, i, (first + blocks) % slots)] = block
  end
  st[o + SHAPE] = shape
end

-- charge adds units to the limits of a state that are asked about. It also finds out until when the
-- state must be kept.
local function charge(st, units, now)
  local set, o, at = st.set, FIRST_HEAD, LIMITS
  local need = set[NEED]
  if st.rewrite then error('rare') end
  for i = 1, set[N] do
    local asked = set[at + ASKED] == 1
    if set[at + WIDTH] > 0 then
      if asked then
        local stamp, newest = set[at + STAMP], st[o + NEWEST]
        st[o + SUM] = st[o + SUM] + units
        if newest == stamp then
          st[o + NEWEST_UNITS] = st[o + NEWEST_UNITS] + units
        else
          if newest > stamp then error('rare') end -- something is charged ahead
          if newest > 0 then push(st, i, at, o) else st[o + OLDEST] = stamp end
          st[o + NEWEST], st[o + NEWEST_UNITS] = stamp, units
        end
      end
      o = o + LOG_FIELDS
    end
    if set[at + METER] > 0 then
      local unit = set[at + UNIT]
      if asked and unit > 0 then
        local level = st[o + LEVEL] + units * unit
        st[o + LEVEL] = level
        need = math.max(need, now + (math.ceil(level / set[at + RATE]) + 1) * set[at + TICK] + KEPT)
      elseif asked and set[at + WIDTH] == 0 then
        error('rare') -- it is never refilled
      end
      o = o + METER_FIELDS
    end
    at = at + STRIDE
  end
  st.need = need
end

-- write writes a state, and returns what a reply may have of it: from its generation to the end of
-- the heads. The TTL is set an eighth ahead, so that not every charge has to.
local function write(st, now)
  local set, need, renew = st.set, st.need, nil
  if st[EXPIRES] < need then
    st[EXPIRES] = math.min(FAR, need + math.floor((need - now) / 8))
    renew = ('%d'):format((st[EXPIRES] - now) / 1000 + 1)
  end
  st[WRITTEN] = now
  local heads = struct.pack(set[FORMAT], unpack(st))
  if st.value == '' then
    redis.call('SET', st.key, set[SIG] .. heads, 'PX', renew)
    return heads
  end
  for i = 1, st.fronts and set[N] or 0 do
    local front, at = st.fronts[i], LIMITS + (i - 1) * STRIDE
    if front then put(st, set[at + OLD] + BLOCK * set[at + WIDTH] - #front, front) end
  end
  if st.blocks then
    for slot, block in pairs(st.blocks) do redis.call('SETRANGE', st.key, slot, block) end
  end
  redis.call('SETRANGE', st.key, set[FROM], heads .. st.body)
  if renew then redis.call('PEXPIRE', st.key, renew) end
  return heads
end
