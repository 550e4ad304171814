-- take decides requests in order, each on its own: one that fails does not concern the others.
--
-- KEYS     those of each run of equal requests: the state of each part (state.lua) or its holders
--          (concurrency.lua); if bans are looked for, per claim its subject's ban, then per
--          claim its subject's strikes; with a request id the ids of the first claim
-- ARGV[1]  see start.lua; number of runs (2 bytes); per run its length and how many such requests there are (2 each), number of
--          its keys (1), 1 if it has a request id, number of parts, kind (1 each), not-after (0: none);
--          per part its claim, set (1 each; 0: holders) and cost, of holders capacity and window; and unless the kind is 0 what
--          decide.lua wants to know
-- ARGV[2…] the request ids
-- Reply    call id, now; per run as often as it takes to answer all of the run:
--          64, and for a run of several how many were allowed (2 bytes); per part the number of the set that the state
--            has (1) and what was written to it, from its generation to the end of its heads
--          16: the request came too late
--          255, length of a message (2), message: it failed
--          or what decide.lua says
--
-- Of kind 0 and 2 are plain takes of a cost above 0, with 2 bans are looked for. As a rule all
-- is done here: the front of each state is read and written once. What is unusual takes
-- the general path in decide.lua, before anything is written: bookings, leases and debts ahead of now, a
-- clock that stepped back, other limits in the state than those known, a ban, a ring to be made smaller.
--
-- For speed, arguments of commands are strings where they can be: Redis formats numbers as floats.

local FAR = 9007199254740992
-- A state that was read is an array: key, set, the value's front, front entries that moved, whether
-- only the heads were read; then the fields that FORMAT names.
local KEY, SET, S, MOVED, PART, GENERATION, WRITTEN, EXPIRES, FIELDS = 1, 2, 3, 4, 5, 6, 7, 8, 9

local G -- the general path, once it is needed

local function decide(from, base, equal, id)
  local parts, kind, late, pos = unpack_at('<BBd', args, from)
  if late > 0 and now > late then return '\16' end
  local usual, many = kind % 2 == 0, equal > 1
  local states, f, denied, rewrite = parts > 1 and {}, nil, false, false

  -- Read every state and drop what has left its windows.
  for part = 1, usual and parts or 0 do
    local _, which, cost
    _, which, cost, pos = unpack_at('<BBd', args, pos)
    local set, key = sets[which], KEYS[base + part]
    local s = try('GETRANGE', key, '0', set[LAST])
    if s == '' then
      f = { key, set, s, false, false, generation, 0, 0 }
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
    else
      f = nil
      if type(s) == 'string' and #s > 1 then
        local sig = set[SIG]
        if #s < #sig or s:sub(1, #sig) ~= sig then
          -- Another set of limits on the same subject, by another process for instance.
          set = set[OTHERS] and set[OTHERS][s:sub(1, 2 + 8 * s:byte(2))]
          if set then s = call('GETRANGE', key, '0', set[LAST]) end
        end
        if set and #s >= set[HEADS] then
          f = { key, set, s, false, #s == set[HEADS] and set[LAST] ~= set[ALL], unpack_at(set[FORMAT], s, #set[SIG] + 1) }
          if f[WRITTEN] > now then f = nil end
        end
      end
    end
    if not f then
      usual = false
      break
    end
    local o, at = FIELDS, LIMITS
    for i = 1, set[N] do
      local asked = set[at + ASKED] == 1
      if set[at + WIDTH] > 0 then
        local newest, cut, p = f[o + 1], set[at + CUT], f[o + 4]
        if not asked then
          rewrite = rewrite or newest <= cut and set[at + METER] == 0
        else
          if newest > set[at + STAMP] or p % 131072 >= 118784 then usual = false end
          if f[o + 3] <= cut then
            if newest <= cut then
              rewrite = rewrite or p >= 131072
              f[o], f[o + 1], f[o + 3], f[o + 4] = 0, 0, FAR, p - p % 131072
            else
              -- One by one, a block at a time from the ring.
              if f[PART] then f[S], f[PART] = call('GETRANGE', key, '0', set[ALL]), false end
              local s, w, entry, sum, nf = f[S], set[at + WIDTH], set[at + ENTRY], f[o], p % 16
              local from, from_at, oldest = s, set[at + OLD] + (8 - nf) * w + 1, newest
              while true do
                if nf > 0 then
                  local stamp, units = unpack_at(entry, from, from_at)
                  if stamp > cut then
                    oldest = stamp
                    break
                  end
                  sum, nf, p, from_at = sum - units, nf - 1, p - 1, from_at + w
                else
                  local nb, blocks = floor(p / 16) % 8, floor(p / 4096) % 32
                  if blocks > 0 then
                    local first, slots, ring = floor(p / 128) % 32, floor(p / 131072), set[FRONT]
                    local q, a = FIELDS, LIMITS
                    for _ = 1, i - 1 do
                      if set[a + WIDTH] > 0 then
                        ring = ring + floor(f[q + 4] / 131072) * 8 * set[a + WIDTH]
                        q = q + 5
                      end
                      q, a = q + set[a + METER], a + STRIDE
                    end
                    ring = ring + first * 8 * w
                    from, from_at = call('GETRANGE', key, ('%d'):format(ring), ('%d'):format(ring + 8 * w - 1)), 1
                    nf, p = 8, p + 8 - 4096 + ((first + 1) % slots - first) * 128
                  elseif nb > 0 then
                    from, from_at = s:sub(set[at + BACK] + 1, set[at + BACK] + nb * w), 1
                    nf, p = nb, p - 15 * nb
                  else
                    break
                  end
                end
              end
              if from ~= s then
                local moved = f[MOVED] or {}
                moved[i], f[MOVED] = from:sub(from_at), moved
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
        if set[at + UNIT] > 0 then
          local unit, tick = set[at + UNIT], set[at + TICK]
          if f[o + 2] ~= unit then usual = false end
          local level = f[o] - (floor(now / tick) - floor(f[o + 1] / tick)) * set[at + RATE]
          if level < 0 then level = 0 end
          f[o], f[o + 1] = level, now
          local full = set[at + CAP] * unit
          if cost > set[at + CAP] or level > full - cost * unit then
            denied = true
          end
        end
        o = o + 3
      end
      at = at + STRIDE
    end
    if states then states[part] = f end
  end
  if usual and kind == 2 then
    local claims, _, _, _, shared, after = unpack_at('<BBBBI2B', args, pos)
    usual = not (denied and after > 0)
    for c = 1, usual and claims or 0 do
      if shared % 2 == 0 and try('GET', KEYS[base + parts + c]) then usual = false end
      shared = floor(shared / 2)
    end
  end
  if not usual or rewrite and not denied then
    G = G or general(now, generation, sets)
    return G.decide(from, base, equal, id)
  end

  if denied then
    -- When does each limit have room?
    local retry, decider, answers = 0, nil, {}
    pos = from + 10
    for part = 1, parts do
      local claim, _, cost
      claim, _, cost, pos = unpack_at('<BBd', args, pos)
      f = states and states[part] or f
      local set, key = f[SET], f[KEY]
      local o, at, answer = FIELDS, LIMITS, pack('<I4', f[GENERATION])
      for i = 1, set[N] do
        local asked, cap, used, reset, wait = set[at + ASKED] == 1, set[at + CAP], 0, 0, 0
        if cost > cap then wait = -1 end
        if set[at + WIDTH] > 0 then
          if asked then
            local left, room = f[o], cap - cost
            used = left
            if left > 0 then reset = f[o + 1] + set[at + SPAN] - now end
            if left > room and wait == 0 then
              -- The oldest must leave, one after the other.
              if f[PART] then f[S], f[PART] = call('GETRANGE', key, '0', set[ALL]), false end
              local w, entry, span, p = set[at + WIDTH], set[at + ENTRY], set[at + SPAN] - now, f[o + 4]
              local nf, nb, first, blocks, slots = p % 16, floor(p / 16) % 8, floor(p / 128) % 32, floor(p / 4096) % 32, floor(p / 131072)
              local from, from_at, k = f[MOVED] and f[MOVED][i], 1, 0
              if not from then from, from_at = f[S], set[at + OLD] + (8 - nf) * w + 1 end
              repeat
                for _ = 1, nf do
                  local stamp, units
                  stamp, units, from_at = unpack_at(entry, from, from_at)
                  left, wait = left - units, stamp + span
                  if left <= room then break end
                end
                if left > room then
                  if k < blocks then
                    local ring = set[FRONT] + (first + k) % slots * 8 * w
                    local q, a = FIELDS, LIMITS
                    for _ = 1, i - 1 do
                      if set[a + WIDTH] > 0 then
                        ring = ring + floor(f[q + 4] / 131072) * 8 * set[a + WIDTH]
                        q = q + 5
                      end
                      q, a = q + set[a + METER], a + STRIDE
                    end
                    from, from_at, nf, k = call('GETRANGE', key, ('%d'):format(ring), ('%d'):format(ring + 8 * w - 1)), 1, 8, k + 1
                  elseif nb > 0 then
                    from, from_at, nf, nb = f[S], set[at + BACK] + 1, nb, 0
                  else
                    left, wait = 0, f[o + 1] + span
                  end
                end
              until left <= room
            end
          end
          o = o + 5
        end
        if set[at + METER] > 0 then
          if set[at + UNIT] > 0 then
            local level, unit, rate, tick = f[o], set[at + UNIT], set[at + RATE], set[at + TICK]
            local ticks = floor(now / tick)
            used = math.max(used, math.ceil(level / unit))
            if level > 0 then reset = math.max(reset, (ticks + math.ceil(level / rate)) * tick - now) end
            local over = level - (cap - cost) * unit
            if over > 0 and wait >= 0 then wait = math.max(wait, (ticks + math.ceil(over / rate)) * tick - now) end
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
    return pack('<BBddd', 0, decider, retry, 0, 0) .. table.concat(answers)
  end

  -- Charge. The newest entry of a log is in its head; the one before joins the back, and with eight
  -- there they leave for the ring as a block.
  local reply = many and pack('<BI2', 64, equal) or '\64'
  pos = from + 10
  for part = 1, parts do
    local _, cost
    _, _, cost, pos = unpack_at('<BBd', args, pos)
    cost = cost * equal
    f = states and states[part] or f
    local set, key = f[SET], f[KEY]
    local s, cursor, body, moved, need, renew = f[S], set[HEADS], '', f[MOVED], set[NEED], false
    local o, at = FIELDS, LIMITS
    for i = 1, set[N] do
      if set[at + WIDTH] > 0 then
        if set[at + ASKED] == 1 then
          local stamp, newest = set[at + STAMP], f[o + 1]
          f[o] = f[o] + cost
          if newest == stamp then
            f[o + 2] = f[o + 2] + cost
          else
            if newest > 0 then
              if f[PART] then s, f[PART] = call('GETRANGE', key, '0', set[ALL]), false end
              local w, p = set[at + WIDTH], f[o + 4]
              local e, nf, nb = pack(set[at + ENTRY], newest, f[o + 2]), p % 16, floor(p / 16) % 8
              local to = set[at + BACK] + nb * w
              if nb < 7 then
                if #s < to then s = s .. ('\0'):rep(to - #s) end
                body, cursor = body .. s:sub(cursor + 1, to) .. e, to + w
                f[o + 4] = p + 16
              else
                local block = s:sub(to - 7 * w + 1, to) .. e
                if nf == 0 then
                  moved = moved or {}
                  moved[i] = block
                  f[o + 4] = p - 104
                else
                  local first, blocks, slots, ring = floor(p / 128) % 32, floor(p / 4096) % 32, floor(p / 131072), set[FRONT]
                  local q, a = FIELDS, LIMITS
                  for _ = 1, i - 1 do
                    if set[a + WIDTH] > 0 then
                      ring = ring + floor(f[q + 4] / 131072) * 8 * set[a + WIDTH]
                      q = q + 5
                    end
                    q, a = q + set[a + METER], a + STRIDE
                  end
                  if blocks == slots then
                    -- A larger ring: everything is written anew, with the oldest block in the first slot.
                    local most = floor((math.min(set[at + CAP], 126) - 1) / 8)
                    local more = math.max(blocks + 1, math.min(most, math.max(2, 2 * slots)))
                    local v, cut, ends = call('GET', key), ring + first * 8 * w, ring + slots * 8 * w
                    if #v < ring then v = v .. ('\0'):rep(ring - #v) end
                    call('SET', key, v:sub(1, ring) .. v:sub(cut + 1, ends) .. v:sub(ring + 1, cut) .. block
                      .. ('\0'):rep((more - slots - 1) * 8 * w) .. v:sub(ends + 1))
                    renew = true
                    f[o + 4] = p - 112 - first * 128 + 4096 + (more - slots) * 131072
                  else
                    call('SETRANGE', key, ('%d'):format(ring + (first + blocks) % slots * 8 * w), block)
                    f[o + 4] = p - 112 + 4096
                  end
                end
              end
            else
              f[o + 3] = stamp
            end
            f[o + 1], f[o + 2] = stamp, cost
          end
        end
        o = o + 5
      end
      if set[at + METER] > 0 then
        if set[at + UNIT] > 0 then
          local level = f[o] + cost * set[at + UNIT]
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
      f[EXPIRES], renew = need + floor((need - now) / 8), true
    end
    f[WRITTEN] = now
    local heads = pack(set[FORMAT], spread(f, GENERATION, o - 1))
    if s == '' then
      call('SET', key, set[SIG] .. heads, 'PX', ('%d'):format((f[EXPIRES] - now) / 1000 + 1))
    else
      call('SETRANGE', key, set[FROM], body == '' and heads or heads .. body)
      if renew then call('PEXPIRE', key, ('%d'):format((f[EXPIRES] - now) / 1000 + 1)) end
    end
    reply = reply .. set[NUMBER] .. heads
  end
  return reply
end

local runs, base, ids, out = nil, 0, 1, { pack('<c8d', args, now) }
runs, pos = unpack_at('<I2', args, pos)
for _ = 1, runs do
  local length, equal, keys, has_id, from = unpack_at('<I2I2BB', args, pos)
  ids = ids + has_id
  repeat
    local ok, reply = pcall(decide, from, base, equal, has_id == 1 and ARGV[ids])
    if not ok and type(reply) == 'string' then
      -- The state is damaged: the general path sees that, and begins a new one.
      G = G or general(now, generation, sets)
      ok, reply = pcall(G.decide, from, base, equal, has_id == 1 and ARGV[ids])
    end
    if not ok then
      if type(reply) == 'table' then reply = reply.err end
      reply = pack('<BI2', 255, #reply) .. reply
    end
    out[#out + 1] = reply
    -- Those of a run that were allowed leave the others to be decided after them.
    local flag, allowed = reply:byte(), equal
    if equal > 1 and flag == 64 then
      allowed = unpack_at('<I2', reply, 2)
    elseif equal > 1 and flag % 2 == 1 and flag < 64 then
      allowed = unpack_at('<d', reply, 19) / unpack_at('<d', args, from + 12)
    end
    equal = equal - allowed
  until equal == 0
  base, pos = base + keys, from + length
end
return table.concat(out)
