-- take decides requests in order, each on its own: if one fails, the others do not.
--
-- KEYS     per run of equal requests
--            per part its state (state.lua) or its holders (concurrency.lua)
--            if bans apply: per claim the ban of its subject, then per claim its strikes
--            with a request id: the request ids of the first claim
-- ARGV[1]  see start.lua; then the number of runs (2 bytes), and per run
--            kind (1)
--            set of its first part (1; 0: holders), and its cost, units
--            not-after (0: none)
--            unless it is KIND_PLAIN:
--              number of parts (1)
--              number of keys (1)
--              1 if there is a request id (1)
--              number of requests (2)
--              length of the rest (2)
--              of holders their capacity and window
--              per further part its claim (1), set (1), cost, of holders their capacity and window
--              of KIND_GENERAL, KIND_BANS and KIND_PEEK what decide.lua reads
-- ARGV[2…] the request ids
-- Reply    call id (8), now; then per run one or more answers, which together answer its requests:
--            CHARGED (1), of a run of several how many were allowed (2); per part the number of the
--              set that its state has (1), and what was written: from generation to end of heads
--            LATE (1): it came after its not-after
--            FAILED (1), length of a message (2), message
--            or what decide.lua answers
--
-- This is the quick path. It reads and writes the front of each state once. It decides KIND_PLAIN
-- (a take of one part), KIND_SEVERAL (of several parts or requests) and KIND_BANS (bans apply).
-- Before anything is written it leaves to the general path (decide.lua) what is unusual: the other
-- kinds, bookings, leases and debts ahead of now, a clock that stepped back, unknown limits in a
-- state, a ban, a ring that should shrink.
--
-- For speed, decide does all of it in one function, which uses no local of the script but is given
-- what it needs: Redis creates functions, and cells for the locals that they use, again at every
-- call. Split by its steps, it took 12 % more instructions. Arguments of commands are strings:
-- Redis formats numbers as floats.
-- @include start

-- ring_of returns where the ring of a set's ith limit begins.
local function ring_of(set, f, i)
  local ring, o, at = set[FRONT], FIRST_HEAD, LIMITS
  for _ = 1, i - 1 do
    if set[at + WIDTH] > 0 then
      ring, o = ring + math.floor(f[o + SHAPE] / SHAPE_SLOTS) * BLOCK * set[at + WIDTH], o + LOG_FIELDS
    end
    o, at = o + set[at + METER], at + STRIDE
  end
  return ring
end

-- decide answers requests of a run that is at run in args, whose parts but the first are at more.
-- The answer goes to out, behind the first m strings. It returns how many requests were answered,
-- and how many strings there are then; nothing if the general path has to decide.
local function decide(run, base, equal, kind, which, cost, late, parts, more, out, m, now,
  generation, args, sets, ring_of, call, try, pack, unpack_at, floor)
  if late > 0 and now > late then
    out[m + 1] = pack('B', LATE)
    return equal, m + 1
  end
  local usual, denied, rewrite, total, pos = kind ~= KIND_GENERAL and kind ~= KIND_PEEK, false, false, equal, more
  -- A state that was read: its set, key, the front of its value, the fields, entries in front that
  -- moved, and whether only the heads were read. Those of several parts are in states.
  local set, key, s, f, moved, short
  local states = parts > 1 and {}

  -- Read every state and drop what has left its windows.
  for part = 1, usual and parts or 0 do
    if part > 1 then
      local _
      _, which, cost, pos = unpack_at('<BBd', args, pos)
    end
    set, key, f, moved, short = sets[which], KEYS[base + part], nil, nil, false
    s = try('GETRANGE', key, '0', set[LAST])
    if s == '' then
      f = { generation, 0, 0 }
      local o, at = FIRST_HEAD, LIMITS
      for _ = 1, set[N] do
        if set[at + WIDTH] > 0 then
          f[o + SUM], f[o + NEWEST], f[o + NEWEST_UNITS], f[o + OLDEST], f[o + SHAPE] = 0, 0, 0, FAR, 0
          o = o + LOG_FIELDS
        end
        if set[at + METER] > 0 then
          f[o + LEVEL], f[o + LEVEL_AT], f[o + LEVEL_UNIT] = 0, now, set[at + UNIT]
          o = o + METER_FIELDS
        end
        at = at + STRIDE
      end
    elseif type(s) == 'string' and #s >= DIRECTORY_START then
      if s:find(set[SIG], 1, true) ~= 1 then
        -- Another set of limits on the same subject, by another process for instance.
        set = set[OTHERS] and set[OTHERS][s:sub(1, DIRECTORY_START + DIRECTORY_LIMIT * s:byte(2))]
        if set then s = call('GETRANGE', key, '0', set[LAST]) end
      end
      if set and #s >= set[HEADS] then
        f = { unpack_at(set[FORMAT], s, #set[SIG] + 1) }
        if f[WRITTEN] > now then f = nil end
        short = #s == set[HEADS]
      end
    end
    if not f then
      usual = false
      break
    end
    local o, at = FIRST_HEAD, LIMITS
    for i = 1, set[N] do
      local asked, width = set[at + ASKED] == 1, set[at + WIDTH]
      if width > 0 then
        local newest, cut, p = f[o + NEWEST], set[at + CUT], f[o + SHAPE]
        if not asked then
          rewrite = rewrite or newest <= cut and set[at + METER] == 0
        else
          -- A lease, many entries, or something that is not a state.
          if newest > set[at + STAMP] or p % SHAPE_SLOTS >= 29 * SHAPE_BLOCKS or f[o + SUM] < f[o + NEWEST_UNITS]
            or f[o + SUM] > FAR or f[o + SUM] % 1 + newest % 1 ~= 0 then usual = false end
          if f[o + OLDEST] <= cut then
            if newest <= cut then
              rewrite = rewrite or p >= SHAPE_SLOTS
              f[o + SUM], f[o + NEWEST], f[o + OLDEST], f[o + SHAPE] = 0, 0, FAR, p - p % SHAPE_SLOTS
            else
              -- The oldest leave one by one: those in the front, then the blocks of the ring, then
              -- the back.
              if short then s, short = call('GETRANGE', key, '0', set[ALL]), false end
              local entry, sum, nf = set[at + ENTRY], f[o + SUM], p % SHAPE_BACK
              local from, from_at, oldest = s, set[at + OLD] + (BLOCK - nf) * width + 1, newest
              while true do
                if nf > 0 then
                  local stamp, units = unpack_at(entry, from, from_at)
                  if stamp > cut then
                    oldest = stamp
                    break
                  end
                  sum, nf, p, from_at = sum - units, nf - 1, p - 1, from_at + width
                else
                  local nb, blocks = floor(p / SHAPE_BACK) % BLOCK, floor(p / SHAPE_BLOCKS) % 32
                  if blocks > 0 then
                    local first, slots = floor(p / SHAPE_FIRST) % 32, floor(p / SHAPE_SLOTS)
                    local ring = ring_of(set, f, i) + first * BLOCK * width
                    from = call('GETRANGE', key, ('%d'):format(ring), ('%d'):format(ring + BLOCK * width - 1))
                    from_at, nf = 1, BLOCK
                    p = p + BLOCK - SHAPE_BLOCKS + ((first + 1) % slots - first) * SHAPE_FIRST
                  elseif nb > 0 then
                    from, from_at = s:sub(set[at + BACK] + 1, set[at + BACK] + nb * width), 1
                    nf, p = nb, p + nb - nb * SHAPE_BACK
                  else
                    break
                  end
                end
              end
              if from ~= s then
                moved = moved or {}
                moved[i] = from:sub(from_at)
              end
              f[o + SUM], f[o + OLDEST], f[o + SHAPE] = sum, oldest, p
            end
          end
          local free = set[at + CAP] - f[o + SUM]
          if free < cost then
            denied = true
          elseif equal > 1 and free < equal * cost then
            equal = floor(free / cost)
          end
        end
        o = o + LOG_FIELDS
      end
      if set[at + METER] > 0 then
        local unit = set[at + UNIT]
        if unit > 0 then
          local tick = set[at + TICK]
          local level = f[o + LEVEL]
          if f[o + LEVEL_UNIT] ~= unit or level < 0 or level > FAR or level % 1 ~= 0
            or f[o + LEVEL_AT] > now then usual = false end
          level = level - (floor(now / tick) - floor(f[o + LEVEL_AT] / tick)) * set[at + RATE]
          if level < 0 then level = 0 end
          f[o + LEVEL], f[o + LEVEL_AT] = level, now
          if cost > set[at + CAP] or level > (set[at + CAP] - cost) * unit then denied = true end
        end
        o = o + METER_FIELDS
      end
      at = at + STRIDE
    end
    if states then states[part] = { set, key, s, f, moved, short } end
  end
  if usual and kind == KIND_BANS then
    local claims, _, _, _, shared, after = unpack_at('<BBBBI2B', args, pos)
    usual = not (denied and after > 0)
    for c = 1, usual and claims or 0 do
      if shared % 2 == 0 and try('GET', KEYS[base + parts + c]) then usual = false end
      shared = floor(shared / 2)
    end
  end
  if not usual or rewrite and not denied then return end

  if denied then
    -- When does each limit have room?
    local retry, decider, claim, answers = 0, nil, 1, {}
    pos = more
    for part = 1, parts do
      if states then
        set, key, s, f, moved, short = unpack(states[part], 1, 6)
        if part == 1 then
          cost = unpack_at('<d', args, run + 2)
        else
          claim, which, cost, pos = unpack_at('<BBd', args, pos)
        end
      end
      local o, at, answer = FIRST_HEAD, LIMITS, pack('<I4', f[GENERATION])
      for i = 1, set[N] do
        local asked, cap, width, used, reset, wait = set[at + ASKED] == 1, set[at + CAP], set[at + WIDTH], 0, 0, 0
        if cost > cap then wait = NEVER end
        if width > 0 then
          if asked then
            local left, room = f[o + SUM], cap - cost
            used = left
            if left > 0 then reset = f[o + NEWEST] + set[at + SPAN] - now end
            if left > room and wait == 0 then
              -- The oldest have to leave, one after the other.
              if short then s, short = call('GETRANGE', key, '0', set[ALL]), false end
              local entry, span, p = set[at + ENTRY], set[at + SPAN] - now, f[o + SHAPE]
              local nf, nb, first = p % SHAPE_BACK, floor(p / SHAPE_BACK) % BLOCK, floor(p / SHAPE_FIRST) % 32
              local blocks, slots = floor(p / SHAPE_BLOCKS) % 32, floor(p / SHAPE_SLOTS)
              local from, from_at, k = moved and moved[i], 1, 0
              if not from then from, from_at = s, set[at + OLD] + (BLOCK - nf) * width + 1 end
              repeat
                for _ = 1, nf do
                  local stamp, units
                  stamp, units, from_at = unpack_at(entry, from, from_at)
                  left, wait = left - units, stamp + span
                  if left <= room then break end
                end
                if left > room then
                  if k < blocks then
                    local ring = ring_of(set, f, i) + (first + k) % slots * BLOCK * width
                    from = call('GETRANGE', key, ('%d'):format(ring), ('%d'):format(ring + BLOCK * width - 1))
                    from_at, nf, k = 1, BLOCK, k + 1
                  elseif nb > 0 then
                    from, from_at, nf, nb = s, set[at + BACK] + 1, nb, 0
                  else
                    left, wait = 0, f[o + NEWEST] + span
                  end
                end
              until left <= room
              if wait < 1 or wait > FAR then wait = 1 end -- only a damaged state says so
            end
          end
          o = o + LOG_FIELDS
        end
        if set[at + METER] > 0 then
          if set[at + UNIT] > 0 then
            local level, unit, rate, tick = f[o + LEVEL], set[at + UNIT], set[at + RATE], set[at + TICK]
            local ticks = floor(now / tick)
            used = math.max(used, math.ceil(level / unit))
            if level > 0 then reset = math.max(reset, math.min(FAR, (ticks + math.ceil(level / rate)) * tick) - now) end
            local over = level - (cap - cost) * unit
            if over > 0 and wait >= 0 then
              local til = (ticks + math.ceil(over / rate)) * tick
              wait = til > FAR and NEVER or math.max(wait, til - now)
            end
          end
          o = o + METER_FIELDS
        end
        if asked then
          answer = pack('<c0ddd', answer, used, reset, wait)
          if wait ~= 0 and not decider then decider = claim end
          if wait < 0 or retry < 0 then retry = NEVER elseif wait > retry then retry = wait end
        end
        at = at + STRIDE
      end
      answers[part] = answer
    end
    out[m + 1] = pack('<BBddd', 0, decider, retry, 0, 0) .. table.concat(answers)
    return total, m + 1
  end

  -- Charge. The newest entry of a log is in its head. The one before it joins the back. If that is
  -- full, they all become a block: the front if that is empty, else the last one in the ring.
  m = m + 1
  out[m] = total > 1 and pack('<BI2', CHARGED, equal) or pack('B', CHARGED)
  pos = more
  for part = 1, parts do
    if states then
      set, key, s, f, moved, short = unpack(states[part], 1, 6)
      if part == 1 then
        cost = unpack_at('<d', args, run + 2)
      else
        local _
        _, _, cost, pos = unpack_at('<BBd', args, pos)
      end
    end
    local units, cursor, body, need, renew = cost * equal, set[HEADS], '', set[NEED], false
    local o, at = FIRST_HEAD, LIMITS
    for i = 1, set[N] do
      local width = set[at + WIDTH]
      if width > 0 then
        if set[at + ASKED] == 1 then
          local stamp, newest = set[at + STAMP], f[o + NEWEST]
          f[o + SUM] = f[o + SUM] + units
          if newest == stamp then
            f[o + NEWEST_UNITS] = f[o + NEWEST_UNITS] + units
          else
            if newest > 0 then
              if short then s, short = call('GETRANGE', key, '0', set[ALL]), false end
              local p = f[o + SHAPE]
              local e = pack(set[at + ENTRY], newest, f[o + NEWEST_UNITS])
              local nf, nb = p % SHAPE_BACK, floor(p / SHAPE_BACK) % BLOCK
              local to = set[at + BACK] + nb * width
              if nb < BACK_MOST then
                if #s < to then s = s .. ('\0'):rep(to - #s) end
                body, cursor = body .. s:sub(cursor + 1, to) .. e, to + width
                f[o + SHAPE] = p + SHAPE_BACK
              else
                local block = s:sub(to - BACK_MOST * width + 1, to) .. e
                if nf == 0 then
                  moved = moved or {}
                  moved[i] = block
                  f[o + SHAPE] = p + BLOCK - BACK_MOST * SHAPE_BACK
                else
                  local first, blocks = floor(p / SHAPE_FIRST) % 32, floor(p / SHAPE_BLOCKS) % 32
                  local slots, ring = floor(p / SHAPE_SLOTS), ring_of(set, f, i)
                  p = p - BACK_MOST * SHAPE_BACK + SHAPE_BLOCKS
                  if blocks == slots then
                    -- A larger ring: everything is written anew, with the oldest block in the first
                    -- slot.
                    local most = floor((math.min(set[at + CAP], RESOLUTION + 1) - 1) / BLOCK)
                    local larger = math.max(blocks + 1, math.min(most, math.max(2, 2 * slots)))
                    local v, cut, ends = call('GET', key), ring + first * BLOCK * width, ring + slots * BLOCK * width
                    if #v < ring then v = v .. ('\0'):rep(ring - #v) end
                    call('SET', key, v:sub(1, ring) .. v:sub(cut + 1, ends) .. v:sub(ring + 1, cut) .. block
                      .. ('\0'):rep((larger - slots - 1) * BLOCK * width) .. v:sub(ends + 1))
                    renew = true
                    f[o + SHAPE] = p - first * SHAPE_FIRST + (larger - slots) * SHAPE_SLOTS
                  else
                    call('SETRANGE', key, ('%d'):format(ring + (first + blocks) % slots * BLOCK * width), block)
                    f[o + SHAPE] = p
                  end
                end
              end
            else
              f[o + OLDEST] = stamp
            end
            f[o + NEWEST], f[o + NEWEST_UNITS] = stamp, units
          end
        end
        o = o + LOG_FIELDS
      end
      if set[at + METER] > 0 then
        if set[at + UNIT] > 0 then
          local level = f[o + LEVEL] + units * set[at + UNIT]
          f[o + LEVEL] = level
          local til = now + (math.ceil(level / set[at + RATE]) + 1) * set[at + TICK] + KEPT
          if til > need then need = til end
        end
        o = o + METER_FIELDS
      end
      at = at + STRIDE
    end
    if moved then
      at = LIMITS
      for i = 1, set[N] do
        local old = moved[i]
        if old and old ~= '' then
          local to = set[at + OLD] + BLOCK * set[at + WIDTH] - #old
          if #s < to then s = s .. ('\0'):rep(to - #s) end
          body, cursor = body .. s:sub(cursor + 1, to) .. old, to + #old
        end
        at = at + STRIDE
      end
    end
    -- The TTL is set an eighth ahead, so that not every charge has to.
    if f[EXPIRES] < need then
      f[EXPIRES], renew = math.min(FAR, need + floor((need - now) / 8)), true
    end
    f[WRITTEN] = now
    local heads = pack(set[FORMAT], unpack(f, 1, o - 1))
    if s == '' then
      call('SET', key, set[SIG] .. heads, 'PX', ('%d'):format((f[EXPIRES] - now) / 1000 + 1))
    else
      call('SETRANGE', key, set[FROM], body == '' and heads or heads .. body)
      if renew then call('PEXPIRE', key, ('%d'):format((f[EXPIRES] - now) / 1000 + 1)) end
    end
    out[m + 1], out[m + 2], m = set[NUMBER], heads, m + 2
  end
  return equal, m
end

local out, m = { pack('<c8d', args, now) }, 1
local G -- the general path, once it is needed
local runs, base, ids = nil, 0, 1
runs, pos = unpack_at('<I2', args, pos)
for _ = 1, runs do
  local kind, which, cost, late, more = unpack_at('<BBdd', args, pos)
  local equal, parts, keys, id, ends = 1, 1, 1, nil, more
  if kind ~= KIND_PLAIN then
    local has_id, length
    parts, keys, has_id, equal, length, more = unpack_at('<BBBI2I2', args, more)
    ids, ends = ids + has_id, more + length
    id = has_id == 1 and ARGV[ids]
  end
  repeat
    local ok, answered, strings = pcall(decide, pos, base, equal, kind, which, cost, late, parts, more, out, m, now,
      generation, args, sets, ring_of, call, try, pack, unpack_at, floor)
    if ok and answered then
      m = strings
    elseif ok or type(answered) == 'string' then
      -- The general path, also if a state is damaged: as a rule it sees that, and begins a new one.
      G = G or general(now, generation, sets)
      ok, out[m + 1], answered = pcall(G.decide, pos, base, equal, id)
      if not ok then answered = out[m + 1] end
      m = m + 1
    else
      m = m + 1
    end
    if not ok then
      local message = type(answered) == 'table' and answered.err or answered
      out[m], answered = pack('<BI2', FAILED, #message) .. message, equal
    end
    -- Those that were allowed leave the others to be decided after them.
    equal = equal - answered
  until equal == 0
  base, pos = base + keys, ends
end
return table.concat(out, '', 1, m)
