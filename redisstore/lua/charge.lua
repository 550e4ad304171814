-- charge adds units to the limits of a state, and writes the state.

-- add adds units to the log of a limit at a stamp. The entry with the newest stamp is in the head.
-- If the new stamp is newer, add moves that entry to the back.
local function add(st, at, stamp, units)
  local set, whole = st[SET], st[WHOLE]
  local o = set[at + LOG]
  local newest, shape = st[o + NEWEST], st[o + SHAPE]
  st[o + SUM] = st[o + SUM] + units
  if newest == stamp then
    units = st[o + NEWEST_UNITS] + units
  elseif newest == 0 then
    st[o + OLDEST] = stamp
  elseif whole then
    if whole.insert(st, at, stamp, units) then return end
  elseif newest > stamp then
    error('rare') -- there is a charge ahead of now
  else
    local entry = pack(set[at + ENTRY], newest, st[o + NEWEST_UNITS])
    local n = (shape % SHAPE_FIRST - shape % SHAPE_BACK) / SHAPE_BACK -- entries in the back
    if n < BACK_MOST then
      put(st, set[at + BACK] + n * #entry, entry)
      st[o + SHAPE] = shape + SHAPE_BACK
    else
      limits = limits or make_limits()
      limits.add_block(st, at, entry)
    end
  end
  st[o + NEWEST], st[o + NEWEST_UNITS] = stamp, units
  if whole then whole.widen(st, at, units) end
end

-- charge adds units to the requested limits of a state. It returns the instant until which the
-- state must be kept.
local function charge(st, units, now)
  local set = st[SET]
  local need = set[NEED]
  if st[REWRITE] then error('rare') end
  for at = LIMITS, set[LAST_LIMIT], STRIDE do
    if set[at + ASKED] % 2 == 1 then -- a charge adds to this limit
      local unit = set[at + UNIT]
      if set[at + WIDTH] > 0 then
        add(st, at, set[at + STAMP], units)
      elseif unit == 0 then
        error('rare') -- it is never refilled
      end
      if unit > 0 then
        local m = set[at + METER]
        local level = st[m + LEVEL] + units * unit
        st[m + LEVEL] = level
        need = math.max(need, now + (math.ceil(level / set[at + RATE]) + 1) * set[at + TICK] + KEPT)
      end
    end
  end
  return need
end

-- write writes a state that must be kept until the instant `need`. It returns the header and the
-- heads, which are part of the answer CHARGED (take.lua). It sets the TTL an eighth longer than
-- needed, so that the next charges do not have to set it.
local function write(st, need, now)
  local set, key, renew = st[SET], st[KEY], nil
  if st[EXPIRES] < need then
    st[EXPIRES] = math.min(FAR, need + math.floor((need - now) / 8))
    renew = ('%d'):format((st[EXPIRES] - now) / 1000 + 1)
  end
  st[WRITTEN] = now
  local heads = pack(set[FORMAT], unpack(st, GENERATION))
  if st[VALUE] == '' then
    call('SET', key, set[SIG] .. heads, 'PX', renew)
    return heads
  end
  if st[FRONTS] then
    for at = LIMITS, set[LAST_LIMIT], STRIDE do
      local front = st[FRONTS][at]
      if front then put(st, set[at + FRONT] + BLOCK * set[at + WIDTH] - #front, front) end
    end
  end
  if st[BLOCKS] then
    for slot, block in pairs(st[BLOCKS]) do call('SETRANGE', key, slot, block) end
  end
  call('SETRANGE', key, '0', set[SIG] .. heads .. st[BODY])
  if renew then call('PEXPIRE', key, renew) end
  return heads
end
