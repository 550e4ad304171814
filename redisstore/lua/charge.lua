-- charge: units are added to the limits that are asked about, and their state is written.

-- add_block adds the back of the ith limit and its newest entry as a block: it becomes the front if
-- that is empty, else the last block of the ring. It returns the shape.
local function add_block(st, i, at, shape, entry)
  local back = st[SET][at + BACK]
  local block = st[VALUE]:sub(back + 1, back + BACK_MOST * #entry) .. entry
  shape = shape - BACK_MOST * SHAPE_BACK
  if shape % SHAPE_BACK == 0 then
    st[FRONTS] = st[FRONTS] or {}
    st[FRONTS][i] = block
    return shape + BLOCK
  end
  local first, blocks = math.floor(shape / SHAPE_FIRST) % 32, math.floor(shape / SHAPE_BLOCKS) % 32
  local slots = math.floor(shape / SHAPE_SLOTS)
  if blocks == slots or blocks == MOST_BLOCKS then error('rare') end -- the ring is full
  st[BLOCKS] = st[BLOCKS] or {}
  st[BLOCKS][slot_of(st, i, (first + blocks) % slots)] = block
  return shape + SHAPE_BLOCKS
end

-- charge adds units to the limits of a state that are asked about. It returns until when the state
-- must be kept.
local function charge(st, units, now)
  local set, o, at = st[SET], FIRST_HEAD, LIMITS
  local need = set[NEED]
  if st[REWRITE] then error('rare') end
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
          if newest == 0 then
            st[o + OLDEST] = stamp
          else -- the newest goes to the back
            local shape, entry = st[o + SHAPE], struct.pack(set[at + ENTRY], newest, st[o + NEWEST_UNITS])
            local n = (shape % SHAPE_FIRST - shape % SHAPE_BACK) / SHAPE_BACK
            if n < BACK_MOST then
              put(st, set[at + BACK] + n * #entry, entry)
              st[o + SHAPE] = shape + SHAPE_BACK
            else
              st[o + SHAPE] = add_block(st, i, at, shape, entry)
            end
          end
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
  return need
end

-- write writes a state, which must be kept until then. It returns what a reply may have of it: from
-- its generation to the end of the heads. The TTL is set an eighth ahead, so that not every charge
-- has to.
local function write(st, need, now)
  local set, key, renew = st[SET], st[KEY], nil
  if st[EXPIRES] < need then
    st[EXPIRES] = math.min(FAR, need + math.floor((need - now) / 8))
    renew = ('%d'):format((st[EXPIRES] - now) / 1000 + 1)
  end
  st[WRITTEN] = now
  local heads = struct.pack(set[FORMAT], unpack(st, GENERATION))
  if st[VALUE] == '' then
    redis.call('SET', key, set[SIG] .. heads, 'PX', renew)
    return heads
  end
  for i = 1, st[FRONTS] and set[N] or 0 do
    local front, at = st[FRONTS][i], LIMITS + (i - 1) * STRIDE
    if front then put(st, set[at + OLD] + BLOCK * set[at + WIDTH] - #front, front) end
  end
  if st[BLOCKS] then
    for slot, block in pairs(st[BLOCKS]) do redis.call('SETRANGE', key, slot, block) end
  end
  redis.call('SETRANGE', key, set[FROM], heads .. st[BODY])
  if renew then redis.call('PEXPIRE', key, renew) end
  return heads
end
