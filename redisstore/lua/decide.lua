-- decide answers one request, or a run of equal ones: every limit of every claim is
-- charged, or none. It is the body of take.lua and of the loop of batch.lua, which set
-- specs, see specs.lua; pos, where the request begins in args; base, the number of keys before its own; id, its
-- request id, if it has one; id_at, where in args the id of its charge is; equal, how many
-- such requests there are; and head, what the reply begins with.
--
-- Keys     per claim one key per limit; if bans are on, per claim its subject's ban, then
--          per claim its subject's strikes; with a request id the ids of the first claim
-- Request  not-after (0: none), mode, 1 if there is more, claims; per claim its cost, number
--          of limits and which of the specs each is; then the more: longest wait, life of the request id, fit, lease,
--          1 if bans are on, which claims are shared (2 bytes, the lowest bit for the first),
--          ban policy: after (0: none), within, forgive, number of durations, durations
-- Reply    flags (1 allowed, 2 repeat, 4 banned, 16 too late: the rest is missing),
--          deciding claim, retry-after, time of the charge (0: none), units charged to the
--          first claim, number of limits; then for each used, reset-after, retry-after
--
-- Of a run, as many as there is room for are charged together; the others are for another
-- call of decide.
--
-- Sliding and fixed logs (log.lua) are as a rule read and written at their ends only,
-- here: the head, the oldest entries and the newest. Such a limit l is an array with the
-- fields named below; any other is a table with its algorithm in l.of. For speed,
-- arguments of commands are strings where they can be: Redis formats numbers as floats.

local TAKE, PEEK, RESERVE, NEVER = 0, 1, 2, -1 -- stint.Mode, stint.Never
local HEAD, HEAD_FORMAT = 38, '>BBBBBBBBI2I7I7I7I7'

-- An array's fields: its claim, spec, key and cost, then its log: the ends as read, the sum,
-- the entries in front and back, the ring, where front and back start in which string,
-- whether front was moved, the stamp of the newest entry, and when the key expires.
local CLAIM, SPEC, KEY, COST, S, SUM, NF, NB, FIRST, BLOCKS, SLOTS = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
local FRONT, FRONT_AT, BACK_AT, MOVED, NEWEST, EXPIRES, RETRY = 12, 13, 14, 15, 16, 17, 18

local late, mode, more, claims
late, mode, more, claims, pos = unpack_at('>i8BBB', args, pos)
if late > 0 and now > late then return head .. '\16' end
local looking = mode == PEEK
if R then R.look(looking) end

-- Open everything, in the order of the keys.
local limits, count = {}, 0
for c = 1, claims do
  local cost, n
  cost, n, pos = unpack_at('>i8B', args, pos)
  for i = 1, n do
    local which
    which, pos = unpack_at('>I2', args, pos)
    local spec, key = specs[which], KEYS[base + count + 1]
    local l
    if spec[CAP] then
      local s = try('GETRANGE', key, '0', spec[ENDS])
      if s == '' then
        l = { c, spec, key, cost, s, 0, 0, 0, 0, 0, 0, s, 0, 0, false, 0, 0, 0 }
      elseif #s >= HEAD then
        local size, times = spec[SIZE], spec[TIMES]
        local mark, width, keep, nf, nb, first, blocks, slots, booked, last, kept, sum, expires = unpack_at(HEAD_FORMAT, s)
        if mark == 76 and width + 7 == size and booked == 0 and last <= now and nf <= 8 and nb <= 8 and nb > 0 and blocks <= slots
          and (times == keep or times < keep and now - kept > keep * spec[WINDOW])
          and #s >= HEAD + (nf > 0 and 16 or nb) * size then
          -- Drop what has left the window, a block at a time from the ring.
          local format, cut = spec[ENTRY], now - spec[SPAN]
          local front, front_at, back_at, moved = s, HEAD + (16 - nf) * size + 1, HEAD + 1, false
          local newest = unpack_at('>I7', s, HEAD + (nb - 1) * size + 1)
          if newest <= cut then
            s, sum, nf, nb, first, blocks, slots = '', 0, 0, 0, 0, 0, 0
          else
            while true do
              if nf > 0 then
                local stamp, units = unpack_at(format, front, front_at)
                if stamp > cut then break end
                nf, front_at, sum = nf - 1, front_at + size, sum - units
              elseif blocks > 0 then
                local from = HEAD + (16 + first * 8) * size
                front, front_at = call('GETRANGE', key, ('%d'):format(from), ('%d'):format(from + 8 * size - 1)), 1
                if #front < 8 * size then -- cut short: not ours
                  s = nil
                  break
                end
                nf, first, blocks, moved = 8, (first + 1) % slots, blocks - 1, true
              elseif nb > 1 and unpack_at('>I7', s, back_at) <= cut then
                front, front_at, back_at = s, HEAD + 1, HEAD + 1 + (nb - 1) * size
                nf, nb, moved = nb - 1, 1, true
              else
                break
              end
            end
          end
          if s then
            l = { c, spec, key, cost, s, sum, nf, nb, first, blocks, slots, front, front_at, back_at, moved, newest, expires, 0 }
          end
        end
      end
    end
    if not l then
      R = R or rest(now, looking)
      l = R.open_limit(args, spec[AT], key, cost)
      l.claim = c
    end
    count = count + 1
    limits[count] = l
  end
end
local longest, life, fit, lease, bans_on, shared, after, within, forgive, steps = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
if more == 1 then
  longest, life, fit, lease, bans_on, shared, after, within, forgive, steps, pos = unpack_at('>i8i8Bi8BI2Bi8i8B', args, pos)
end
local charged = limits[1].cost or limits[1][COST] -- to the first claim
if equal + fit > 1 then
  -- As much as there is room for, in steps: single units, or equal requests. Equal
  -- requests beside bookings are made one by one.
  local step, room = fit == 1 and 1 or charged, charged * equal
  for i = 1, count do
    local l = limits[i]
    local free
    if not l.of then
      free = l[SPEC][CAP] - l[SUM]
    elseif equal > 1 and l.booked_at[1] then
      free = step
    else
      free = l.cap - l.of.used(l)
    end
    if free < room then room = free end
  end
  charged = room < step and step or room - room % step
  for i = 1, count do
    local l = limits[i]
    if l.of then l.cost = charged else l[COST] = charged end
  end
end
local bans, banned
if bans_on == 1 then
  R = R or rest(now, looking)
  bans, banned = R.bans_open(base + count, claims, shared)
end
local id_key = id and KEYS[base + count + bans_on * 2 * claims + 1]
local seen, repeats
if id_key and not banned and charged > 0 then
  R = R or rest(now, looking)
  seen, repeats = R.id_open(id_key, id, life)
end

local flags, decider, retry, at = 0, 1, 0, 0
if seen and repeats < 8 then -- stint.MaxRepeats
  flags, retry = 2, seen - now >= 16 and seen - now or 0
  if mode ~= TAKE or retry == 0 then
    flags = 3
    if not looking then call('ZINCRBY', id_key, '1', id) end
  end
else
  -- When does each limit have room? t is the first instant that suits all.
  local t, whole, full = now, false, false
  for i = 1, count do
    local l = limits[i]
    local room_at = now
    if not l.of then
      local spec, cost, left = l[SPEC], l[COST], l[SUM]
      local cap = spec[CAP]
      if cap == 0 or cost > cap then
        room_at = NEVER
      elseif left > cap - cost then
        -- The oldest must leave, one after the other: those in front, if there are any, else
        -- those in back.
        local span, size, format, from, at, n = spec[SPAN], spec[SIZE], spec[ENTRY], l[FRONT], l[FRONT_AT], l[NF]
        if n == 0 and l[BLOCKS] == 0 then from, at, n = l[S], l[BACK_AT], l[NB] end
        for i = 1, n do
          local stamp, units = unpack_at(format, from, at)
          room_at, left, at = stamp + span, left - units, at + size
          if left <= cap - cost then break end
        end
        if left > cap - cost then
          local c = l[CLAIM]
          R = R or rest(now, looking)
          l = R.open_limit(args, spec[AT], l[KEY], cost)
          l.claim, limits[i] = c, l
        end
      end
    end
    if l.of then
      room_at, whole = l.of.earliest(l, now, l.cost), true
      local queue = l.booked_at
      if mode == RESERVE and queue and queue[1] and t ~= NEVER then
        if queue[#queue] > t then t = queue[#queue] end -- first come, first served
        full = full or #queue >= 1000 -- stint.MaxBookings
      end
    end
    l[RETRY] = room_at == NEVER and NEVER or room_at - now
    if room_at == NEVER then t = NEVER elseif t ~= NEVER and room_at > t then t = room_at end
  end
  -- Where nothing is booked ahead, room that is there stays there; else look again.
  local before = not whole and t
  while t > now and t ~= before do
    before = t
    for i = 1, count do
      local l = limits[i]
      if l.of then t = math.max(t, l.of.earliest(l, t, l.cost)) end
    end
  end
  retry = t == NEVER and NEVER or t - now
  local allowed = t == now
  if lease > 0 and allowed and not banned then
    for i = 1, count do
      local l = limits[i]
      if l.of and l.of.used(l) + charged > l.cap then -- what is booked stands in the way
        allowed, retry, l[RETRY] = false, lease, lease
      end
    end
  end
  if mode == RESERVE and t > now then
    allowed = not full and retry <= longest
  end

  if banned then
    flags, decider, retry = 4, banned, bans[banned].til - now
  elseif allowed then
    flags = 1
    for i = 1, looking and 0 or count do
      local l = limits[i]
      local cost = l.cost or l[COST]
      if cost > 0 then
        at = t + lease
        local s, nb, stamp, spec = l[S], l[NB], now + lease, l[SPEC]
        if spec and spec[SLICE] > 0 then stamp = stamp - stamp % spec[SLICE] + spec[SLICE] end
        if not l.of and (t > now or nb > 0 and l[NEWEST] > stamp
          or nb == 8 and l[NF] + l[BLOCKS] > 0 and l[BLOCKS] == l[SLOTS]
          or l[BLOCKS] > 28 and l[NF] + nb + l[BLOCKS] * 8 >= 250) then
          -- To book, to charge beside a lease, to make the ring larger or to merge entries
          -- takes all of the log.
          local c, wait = l[CLAIM], l[RETRY]
          R = R or rest(now, looking)
          l = R.open_limit(args, spec[AT], l[KEY], cost)
          l.claim, l[RETRY], limits[i] = c, wait, l
        end
        if t > now then
          l.of.reserve(l, t)
        elseif l.of then
          l.of.charge(l, at, args:sub(id_at, id_at + 7))
        else
          -- Append to the back, or to its newest entry.
          local back_at, size, span, units, sum, back = l[BACK_AT], spec[SIZE], spec[SPAN], cost, l[SUM] + cost, ''
          if nb > 0 then
            if l[NEWEST] == stamp then
              nb = nb - 1
              stamp, units = unpack_at(spec[ENTRY], s, back_at + nb * size)
              units = units + cost
            elseif nb == 8 then
              local block = s:sub(back_at, back_at + 8 * size - 1)
              if l[NF] + l[BLOCKS] == 0 then
                l[FRONT], l[FRONT_AT], l[NF], l[MOVED] = block, 1, 8, true
              else
                local to = HEAD + (16 + (l[FIRST] + l[BLOCKS]) % l[SLOTS] * 8) * size
                call('SETRANGE', l[KEY], ('%d'):format(to), block)
                l[BLOCKS] = l[BLOCKS] + 1
              end
              nb = 0
            end
            if nb > 0 then back = s:sub(back_at, back_at + nb * size - 1) end
          end
          nb = nb + 1
          local nf = l[NF]
          -- The TTL is set an eighth of the span ahead, so that not every charge has to.
          local expires = l[EXPIRES]
          local lasting = s ~= '' and expires >= stamp + span + 1000000
          if not lasting then expires = stamp + span + span / 8 + 1000000 end
          local written = pack(spec[WRITTEN], 76, size - 7, spec[TIMES], nf, nb, l[FIRST], l[BLOCKS], l[SLOTS], 0, now, now, sum,
            expires, back, stamp, units)
          if l[MOVED] then
            written = written .. ('\0'):rep((16 - nb - nf) * size) .. l[FRONT]:sub(l[FRONT_AT], l[FRONT_AT] + nf * size - 1)
          end
          if s == '' then
            call('SET', l[KEY], written, 'PX', ('%d'):format((expires - now) / 1000 + 1))
          else
            call('SETRANGE', l[KEY], '0', written)
            if not lasting then call('PEXPIRE', l[KEY], ('%d'):format((expires - now) / 1000 + 1)) end
          end
          l[SUM], l[NEWEST] = sum, stamp
        end
      end
    end
    if at > 0 and id_key and not seen and charged > 0 then
      R = R or rest(now, looking)
      R.id_record(id_key, id, at, life)
    end
  else
    local l = limits[1]
    for i = count, 1, -1 do
      if limits[i][RETRY] ~= 0 then l = limits[i] end
    end
    decider = l.claim or l[CLAIM]
    if after > 0 and mode == TAKE and (l.cost or l[COST]) > 0 and bans[decider] ~= nil then
      local policy = { after = after, within = within, forgive = forgive, durations = {} }
      for i = 1, steps do policy.durations[i] = unpack_at('>i8', args, pos + (i - 1) * 8) end
      R = R or rest(now, looking)
      local ban = R.strike(KEYS[base + count + claims + decider], bans[decider], policy)
      if ban then
        flags, bans[decider] = 4, ban
        if retry ~= NEVER and ban.til - now > retry then retry = ban.til - now end
      end
    end
  end
end

local reply = pack('>c0BBi8i8i8B', head, flags, decider - 1, retry, at, at > 0 and charged or 0, count)
for i = 1, count do
  local l = limits[i]
  local used, reset = l[SUM], 0
  if l.of then
    used, reset = math.min(l.of.used(l), 2 ^ 53), l.of.reset(l)
  elseif used > 0 then
    reset = l[NEWEST] + l[SPEC][SPAN] - now
  end
  reply = pack('>c0i8i8i8', reply, used, reset, l[RETRY] or 0)
end

-- A clock that stepped back is not forgotten where the request was denied.
if not looking then
  if bans and flags ~= 2 then R.bans_heal(bans, base + count, limits) end
  for i = 1, (flags == 0 or flags == 4 and not banned) and count or 0 do
    local l = limits[i]
    if l.stepped and l.cost > 0 then l.of.heal(l) end
  end
end
return reply
