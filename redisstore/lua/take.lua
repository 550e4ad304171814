-- take decides requests in order, each on its own: one that fails does not concern the others.
--
-- KEYS     those of each run of equal requests: the state of each part (state.lua) or its holders
--          (concurrency.lua); if bans are looked for, per claim its subject's ban, then per
--          claim its subject's strikes; with a request id the ids of the first claim
-- ARGV[1]  see start.lua; number of runs (2 bytes); per run its kind (1), set (1; 0: holders) and cost of its first part,
--          not-after (0: none); and unless the kind is 0 number of its parts, of its keys, 1 if it has a request
--          id (1 each), how many such requests there are, length of the rest (2 each), and the rest: of holders
--          capacity and window; per further part its claim, set (1 each), cost, capacity and window of holders; of
--          kinds 1 to 3 what decide.lua wants to know
-- ARGV[2…] the request ids
-- Reply    call id, now; per run as often as it takes to answer all of the run:
--          64, and for a run of several how many were allowed (2 bytes); per part the number of the set that the state
--            has (1) and what was written to it, from its generation to the end of its heads
--          16: the request came too late
--          255, length of a message (2), message: it failed
--          or what decide.lua says
--
-- Kind 0 is a plain take of one part and a cost above 0, 4 has several parts or requests, and 2 also looks for bans. As
-- a rule all of that is done here: the front of each state is read and written once. What is unusual takes
-- the general path in decide.lua, before anything is written: kinds 1 and 3 (Peek), bookings, leases and debts ahead of
-- now, a clock that stepped back, other limits in the state than those known, a ban, a ring to be made smaller.
--
-- For speed, arguments of commands are strings where they can be: Redis formats numbers as floats.

-- The fields that FORMAT names.
local GENERATION, WRITTEN, EXPIRES, FIELDS = 1, 2, 3, 4

-- ring_of returns where the ring of a set's ith limit begins.
local function ring_of(set, f, i)
  local ring, o, at = set[FRONT], FIELDS, LIMITS
  for _ = 1, i - 1 do
    if set[at + WIDTH] > 0 then
      ring, o = ring + math.floor(f[o + 4] / 131072) * 8 * set[at + WIDTH], o + 5
    end
    o, at = o + set[at + METER], at + STRIDE
  end
  return ring
end

-- decide answers requests of a run that is at run in args, whose parts but the first are at more. The answer
-- goes to out, behind the first m strings. It returns how many were answered, and how many strings there are then; nothing if
-- that takes the general path. It uses no local of the script, and is given what it needs: a local that a
-- function uses costs a cell at every call.
local function decide(run, base, equal, kind, which, cost, late, parts, more, out, m, now, generation, args, sets, ring_of,
  call, try, pack, unpack_at, floor)
  if late > 0 and now > late then
    out[m + 1] = '\16'
    return equal, m + 1
  end
  local usual, denied, rewrite, total, pos = kind % 2 == 0, false, false, equal, more
  -- A state that was read: its set, key, the front of its value, the fields, entries in front that moved, and whether
  -- only the heads were read. Those of several parts are in states.
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
      local o, at = FIELDS, LIMITS
      for _ = 1, set[N] do
        if set[at + WIDTH] > 0 then
          f[o], f[o + 1], f[o + 2], f[o + 3], f[o + 4] = 0, 0, 0, FAR, 0
          o = o + 5
        end
        if set[at + METER] > 0 then
          f[o], f[o + 1], f[o + 2] = 0, now, set[at + UNIT]
          o = o + 3
        end
        at = at + STRIDE
      end
    elseif type(s) == 'string' and #s > 1 then
      if s:find(set[SIG], 1, true) ~= 1 then
        -- Another set of limits on the same subject, by another process for instance.
        set = set[OTHERS] and set[OTHERS][s:sub(1, 2 + 8 * s:byte(2))]
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
    local o, at = FIELDS, LIMITS
    for i = 1, set[N] do
      local asked, width = set[at + ASKED] == 1, set[at + WIDTH]
      if width > 0 then
        local newest, cut, p = f[o + 1], set[at + CUT], f[o + 4]
        if not asked then
          rewrite = rewrite or newest <= cut and set[at + METER] == 0
        else
          -- A lease, many entries, or something that is not a state.
          if newest > set[at + STAMP] or p % 131072 >= 118784 or f[o] < f[o + 2] or f[o] > FAR
            or f[o] % 1 + newest % 1 ~= 0 then usual = false end
          if f[o + 3] <= cut then
            if newest <= cut then
              rewrite = rewrite or p >= 131072
              f[o], f[o + 1], f[o + 3], f[o + 4] = 0, 0, FAR, p - p % 131072
            else
              -- One by one, a block at a time from the ring.
              if short then s, short = call('GETRANGE', key, '0', set[ALL]), false end
              local entry, sum, nf = set[at + ENTRY], f[o], p % 16
              local from, from_at, oldest = s, set[at + OLD] + (8 - nf) * width + 1, newest
              while true do
                if nf > 0 then
                  local stamp, units = unpack_at(entry, from, from_at)
                  if stamp > cut then
                    oldest = stamp
                    break
                  end
                  sum, nf, p, from_at = sum - units, nf - 1, p - 1, from_at + width
                else
                  local nb, blocks = floor(p / 16) % 8, floor(p / 4096) % 32
                  if blocks > 0 then
                    local first, slots = floor(p / 128) % 32, floor(p / 131072)
                    local ring = ring_of(set, f, i) + first * 8 * width
                    from, from_at = call('GETRANGE', key, ('%d'):format(ring), ('%d'):format(ring + 8 * width - 1)), 1
                    nf, p = 8, p + 8 - 4096 + ((first + 1) % slots - first) * 128
                  elseif nb > 0 then
                    from, from_at = s:sub(set[at + BACK] + 1, set[at + BACK] + nb * width), 1
                    nf, p = nb, p - 15 * nb
                  else
                    break
                  end
                end
              end
              if from ~= s then
                moved = moved or {}
                moved[i] = from:sub(from_at)
              end
              f[o], f[o + 3], f[o + 4] = sum, oldest, p
            end
          end
          local free = set[at + CAP] - f[o]
          if free < cost then
            denied = true
          elseif equal > 1 and free < equal * cost then
            equal = floor(free / cost)
          end
        end
        o = o + 5
      end
      if set[at + METER] > 0 then
        local unit = set[at + UNIT]
        if unit > 0 then
          local tick = set[at + TICK]
          if f[o + 2] ~= unit or f[o] < 0 or f[o] > FAR or f[o] % 1 ~= 0 or f[o + 1] > now then usual = false end
          local level = f[o] - (floor(now / tick) - floor(f[o + 1] / tick)) * set[at + RATE]
          if level < 0 then level = 0 end
          f[o], f[o + 1] = level, now
          if cost > set[at + CAP] or level > (set[at + CAP] - cost) * unit then denied = true end
        end
        o = o + 3
      end
      at = at + STRIDE
    end
    if states then states[part] = { set, key, s, f, moved, short } end
  end
  if usual and kind == 2 then
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
      local o, at, answer = FIELDS, LIMITS, pack('<I4', f[GENERATION])
      for i = 1, set[N] do
        local asked, cap, width, used, reset, wait = set[at + ASKED] == 1, set[at + CAP], set[at + WIDTH], 0, 0, 0
        if cost > cap then wait = -1 end
        if width > 0 then
          if asked then
            local left, room = f[o], cap - cost
            used = left
            if left > 0 then reset = f[o + 1] + set[at + SPAN] - now end
            if left > room and wait == 0 then
              -- The oldest must leave, one after the other.
              if short then s, short = call('GETRANGE', key, '0', set[ALL]), false end
              local entry, span, p = set[at + ENTRY], set[at + SPAN] - now, f[o + 4]
              local nf, nb, first, blocks, slots = p % 16, floor(p / 16) % 8, floor(p / 128) % 32, floor(p / 4096) % 32, floor(p / 131072)
              local from, from_at, k = moved and moved[i], 1, 0
              if not from then from, from_at = s, set[at + OLD] + (8 - nf) * width + 1 end
              repeat
                for _ = 1, nf do
                  local stamp, units
                  stamp, units, from_at = unpack_at(entry, from, from_at)
                  left, wait = left - units, stamp + span
                  if left <= room then break end
                end
                if left > room then
                  if k < blocks then
                    local ring = ring_of(set, f, i) + (first + k) % slots * 8 * width
                    from, from_at, nf, k = call('GETRANGE', key, ('%d'):format(ring), ('%d'):format(ring + 8 * width - 1)), 1, 8, k + 1
                  elseif nb > 0 then
                    from, from_at, nf, nb = s, set[at + BACK] + 1, nb, 0
                  else
                    left, wait = 0, f[o + 1] + span
                  end
                end
              until left <= room
              if wait < 1 or wait > FAR then wait = 1 end -- only a damaged state says so
            end
          end
          o = o + 5
        end
        if set[at + METER] > 0 then
          if set[at + UNIT] > 0 then
            local level, unit, rate, tick = f[o], set[at + UNIT], set[at + RATE], set[at + TICK]
            local ticks = floor(now / tick)
            used = math.max(used, math.ceil(level / unit))
            if level > 0 then reset = math.max(reset, math.min(FAR, (ticks + math.ceil(level / rate)) * tick) - now) end
            local over = level - (cap - cost) * unit
            if over > 0 and wait >= 0 then
              local til = (ticks + math.ceil(over / rate)) * tick
              wait = til > FAR and -1 or math.max(wait, til - now)
            end
          end
          o = o + 3
        end
        if asked then
          answer = pack('<c0ddd', answer, used, reset, wait)
          if wait ~= 0 and not decider then decider = claim end
          if wait < 0 or retry < 0 then retry = -1 elseif wait > retry then retry = wait end
        end
        at = at + STRIDE
      end
      answers[part] = answer
    end
    out[m + 1] = pack('<BBddd', 0, decider, retry, 0, 0) .. table.concat(answers)
    return total, m + 1
  end

  -- Charge. The newest entry of a log is in its head; the one before joins the back, and with eight
  -- there they leave for the ring as a block.
  m = m + 1
  out[m] = total > 1 and pack('<BI2', 64, equal) or '\64'
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
    local o, at = FIELDS, LIMITS
    for i = 1, set[N] do
      local width = set[at + WIDTH]
      if width > 0 then
        if set[at + ASKED] == 1 then
          local stamp, newest = set[at + STAMP], f[o + 1]
          f[o] = f[o] + units
          if newest == stamp then
            f[o + 2] = f[o + 2] + units
          else
            if newest > 0 then
              if short then s, short = call('GETRANGE', key, '0', set[ALL]), false end
              local p = f[o + 4]
              local e, nf, nb = pack(set[at + ENTRY], newest, f[o + 2]), p % 16, floor(p / 16) % 8
              local to = set[at + BACK] + nb * width
              if nb < 7 then
                if #s < to then s = s .. ('\0'):rep(to - #s) end
                body, cursor = body .. s:sub(cursor + 1, to) .. e, to + width
                f[o + 4] = p + 16
              else
                local block = s:sub(to - 7 * width + 1, to) .. e
                if nf == 0 then
                  moved = moved or {}
                  moved[i] = block
                  f[o + 4] = p - 104
                else
                  local first, blocks, slots, ring = floor(p / 128) % 32, floor(p / 4096) % 32, floor(p / 131072), ring_of(set, f, i)
                  if blocks == slots then
                    -- A larger ring: everything is written anew, with the oldest block in the first slot.
                    local most = floor((math.min(set[at + CAP], 126) - 1) / 8)
                    local larger = math.max(blocks + 1, math.min(most, math.max(2, 2 * slots)))
                    local v, cut, ends = call('GET', key), ring + first * 8 * width, ring + slots * 8 * width
                    if #v < ring then v = v .. ('\0'):rep(ring - #v) end
                    call('SET', key, v:sub(1, ring) .. v:sub(cut + 1, ends) .. v:sub(ring + 1, cut) .. block
                      .. ('\0'):rep((larger - slots - 1) * 8 * width) .. v:sub(ends + 1))
                    renew = true
                    f[o + 4] = p - 112 - first * 128 + 4096 + (larger - slots) * 131072
                  else
                    call('SETRANGE', key, ('%d'):format(ring + (first + blocks) % slots * 8 * width), block)
                    f[o + 4] = p - 112 + 4096
                  end
                end
              end
            else
              f[o + 3] = stamp
            end
            f[o + 1], f[o + 2] = stamp, units
          end
        end
        o = o + 5
      end
      if set[at + METER] > 0 then
        if set[at + UNIT] > 0 then
          local level = f[o] + units * set[at + UNIT]
          f[o] = level
          local til = now + (math.ceil(level / set[at + RATE]) + 1) * set[at + TICK] + 1000000
          if til > need then need = til end
        end
        o = o + 3
      end
      at = at + STRIDE
    end
    if moved then
      at = LIMITS
      for i = 1, set[N] do
        local old = moved[i]
        if old and old ~= '' then
          local to = set[at + OLD] + 8 * set[at + WIDTH] - #old
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
  if kind > 0 then
    local has_id, length
    parts, keys, has_id, equal, length, more = unpack_at('<BBBI2I2', args, more)
    ids, ends = ids + has_id, more + length
    id = has_id == 1 and ARGV[ids]
  end
  repeat
    local ok, answered, strings = pcall(decide, pos, base, equal, kind, which, cost, late, parts, more, out, m, now, generation,
      args, sets, ring_of, call, try, pack, unpack_at, floor)
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
      out[m], answered = pack('<BI2', 255, #message) .. message, equal
    end
    -- Those of a run that were allowed leave the others to be decided after them.
    equal = equal - answered
  until equal == 0
  base, pos = base + keys, ends
end
return table.concat(out, '', 1, m)
