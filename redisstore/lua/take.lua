-- take decides requests in order, each on its own: if one fails, the others do not.
--
-- KEYS     per run of equal requests
--            per part its state (state.lua) or its holders (holders.lua)
--            if bans apply: per claim the ban of its subject, then per claim its strikes
--            with a request id: the request ids of the first claim
-- ARGV[1]  see start.lua; then the number of runs (2 bytes), and per run
--            PLAIN (1): nothing but the set, the cost and not-after; PLAIN_BANS: a single request
--            for
--              one part under bans; or OTHER
--            set of its first part (1; 0: holders), and its cost, units
--            not-after (0: none)
--            unless it is PLAIN:
--              number of parts (1)
--              number of keys (1)
--              1 if there is a request id (1)
--              number of requests (2)
--              length of the rest (2)
--              of holders their capacity and window
--              per further part its claim (1), set (1), cost, of holders their capacity and window
--              unless the rest ends here:
--                number of claims (1)
--                mode (1)
--                1 to lower the cost to what there is room for (1)
--                1 if bans apply (1)
--                claims that are shared (2, the lowest bit for the first)
--                denials that lead to a ban (1; 0: none does)
--                longest wait, or the wait of a FORCE
--                end of the booking to move up (0: none)
--                life of the request id
--                length of the lease (0: none)
--                grace: how long a booking may be used
--                within: how long denials count
--                forgive: how long a ban's level is kept
--                charge id (8)
--                number of durations of bans (1), durations
--                of a FORCE how long ago its units were used, and for how long meters have
--                refilled them
--                of a booking to move up, per part with a state the generation that it was booked
--                in (4)
--                with a request id, the length of its note (2), and the note (ids.lua)
-- ARGV[2…] the request ids
-- Reply    call id (8), now; then per run one or more answers, which together answer its requests:
--            CHARGED (1), of a run of several how many were allowed (2); per part the number of the
--              set that its state has (1), and what was written: from generation to end of heads
--            LATE (1): it came after its not-after
--            FAILED (1), length of a message (2), message
--            or else
--              flags (1)
--              deciding claim (1)
--              retry-after
--              time of the charge (0: none)
--              units charged to the first claim
--              with the flag BANNED, how long the ban lasts
--              per part its generation (4, not of holders), and per limit that is asked about, in
--              the order of its set, used, reset-after, retry-after
--              with the flag DIRECTORIES, per part with a state the length of its directory (1; 0:
--              that of the set), and the directory
--              with the flag RECALLED, the length of what the id remembers (2), and that (ids.lua)

-- read_options reads what a run says beyond its parts.
local function read_options(r, args, at, has_id)
  local o, steps = { age = 0, refilled = 0, durations = {} }, nil
  o.claims, o.mode, o.fit, o.bans_on, o.shared, o.after, at = struct.unpack('<BBBBI2B', args, at)
  o.longest, o.booked, o.life, o.lease, o.grace, o.within, o.forgive, at = struct.unpack('<ddddddd', args, at)
  o.charge_id, steps, at = struct.unpack('<c8B', args, at)
  for i = 1, steps do o.durations[i], at = struct.unpack('<d', args, at) end
  if o.mode == FORCE then o.age, o.refilled, at = struct.unpack('<dd', args, at) end
  for i = 1, o.booked > 0 and #r or 0 do
    if r[i].set then r[i].booked_in, at = struct.unpack('<I4', args, at) end
  end
  if has_id then o.note = struct.unpack('<I2c0', args, at) end
  return o
end

-- take_plain decides one request that has one part and no options. It returns the answer, or nil
-- and the state if decide is to answer: it charges nothing, or is denied under bans.
local function take_plain(key, set, cost, bans, now, generation)
  local st, free = read_state(key, set, cost, 1, now, generation)
  if cost == 0 or free == 0 and bans then return nil, st end
  if free == 0 then
    local text, wait = usage(st, cost, now)
    return struct.pack('<BBdddI4', 0, 1, wait, 0, 0, st.value ~= '' and st[GENERATION] or 0) .. text
  end
  charge(st, cost, now)
  return struct.pack('Bc1', CHARGED, st.set[NUMBER]) .. write(st, now)
end

-- read_run reads a run that is not plain, from an offset on, into r. Base is the number of keys
-- before its own. It returns whether it has a request id.
local function read_run(r, args, at, sets, base)
  local parts, _, has_id, rest
  parts, _, has_id, r.equal, rest, at = struct.unpack('<BBBI2I2', args, at)
  local ends = at + rest
  for i = 1, parts do
    local part = r[i]
    if i > 1 then
      local which
      part = { key = KEYS[base + i], retry = 0 }
      part.claim, which, part.cost, at = struct.unpack('<BBd', args, at)
      part.set, r[i] = sets[which], part
    end
    if not part.set then part.cap, part.window, at = struct.unpack('<dd', args, at) end
  end
  if at < ends then r.options = read_options(r, args, at, has_id == 1) end
  r.ban_keys = base + parts
  return has_id == 1
end

local plain = { mode = TAKE, fit = 0, bans_on = 0, after = 0, booked = 0, lease = 0, age = 0, refilled = 0 }
local base, next_id, decide, whole = 0, 2, nil, nil -- the keys before a run's own, and the next request id
local out, runs = { struct.pack('<c8d', args, now) }, nil
runs, pos = struct.unpack('<I2', args, pos)
for run = 1, runs do
  local kind, which, cost, late, ok, reply, st
  kind, which, cost, late, pos = struct.unpack('<BBdd', args, pos)
  local key, set, from, keys, has_id = KEYS[base + 1], sets[which], pos, 1, false
  if kind ~= PLAIN then
    local rest
    keys, rest, pos = struct.unpack('<BxxxI2', args, pos + 1)
    pos = pos + rest
  end
  if kind ~= OTHER and (late == 0 or now <= late) and (kind == PLAIN or not redis.pcall('GET', KEYS[base + 2])) then
    ok, reply, st = pcall(take_plain, key, set, cost, kind == PLAIN_BANS, now, generation)
  end
  if ok and reply then
    out[run + 1] = reply
  else
    local answers, answered = {}, nil
    local r = { { claim = 1, set = set, cost = cost, key = key, st = ok and st or nil, free = 0, retry = 0 },
      late = late, equal = 1, options = plain, charged = cost, flags = 0, decider = 1, retry = 0, at = 0 }
    if kind ~= PLAIN then has_id = read_run(r, args, from, sets, base) end
    if has_id then r.id, r.id_key, next_id = ARGV[next_id], KEYS[base + keys], next_id + 1 end
    decide = decide or make_decide()
    repeat -- those that were allowed leave the others to be decided after them
      ok, reply, answered = pcall(decide, r, now, generation)
      if not ok and not r.writing and not r.whole then -- it is rare, or a state is damaged
        whole = whole or make_whole()
        whole.looking, r.whole = r.options.mode == PEEK, whole
        r.flags, r.decider, r.retry, r.at = 0, 1, 0, 0
        ok, reply, answered = pcall(decide, r, now, generation)
      end
      if not ok then
        local message = type(reply) == 'table' and reply.err or reply
        reply, answered = struct.pack('<BI2', FAILED, #message) .. message, r.equal
      end
      answers[#answers + 1], r.equal = reply, r.equal - answered
      r.flags, r.decider, r.retry, r.at, r.writing, r[1].st = 0, 1, 0, 0, false, nil
    until r.equal == 0
    out[run + 1] = table.concat(answers)
  end
  base = base + keys
end
return table.concat(out)
