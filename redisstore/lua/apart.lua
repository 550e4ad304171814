-- apart does one step of what take.lua, or amend.lua, does in one call: what concerns a single key beside the state. While a
-- slot of a Cluster is being moved, a call with several keys is refused; see apart.go.
--
-- KEYS[1]  the ban, the strikes, the request ids of a scope, or its settled charges
-- ARGV[1]  see start.lua; which step (1 byte), what it wants to know
-- ARGV[2]  request id, if the step is about one
-- Reply    call id, now, three numbers

local SEE_BAN, STRIKE, SET_BAN, SEE_ID, RECORD_ID, DROP_ID, MARK = 0, 1, 2, 3, 4, 5, 6

local G = general(now, generation, sets)
local max, min = math.max, math.min
local key, id = KEYS[1], ARGV[2]
local step
step, pos = unpack_at('B', args, pos)
local a, b, c = 0, 0, 0

if step == SEE_BAN then
  -- Replies until, forgive, level.
  local ban = G.ban_open(key, try('GET', key))
  if ban then a, b, c = ban.til, ban.forgive, ban.level end

elseif step == STRIKE then
  -- Wants the ban as above, after (1 byte), within, forgive, number of durations (1), durations. Replies the ban that
  -- this leads to.
  local til, forgave, level, steps
  local policy = { durations = {} }
  til, forgave, level, policy.after, policy.within, policy.forgive, steps, pos = unpack_at('<dddBddB', args, pos)
  for i = 1, steps do policy.durations[i], pos = unpack_at('<d', args, pos) end
  local ban = G.strike(key, til > 0 and { til = til, forgive = forgave, level = level } or nil, policy)
  if ban then a, b, c = ban.til, ban.forgive, ban.level end

elseif step == SET_BAN then
  -- Wants until, forgive, level. One that ends later stays.
  local til, forgive, level = unpack_at('<ddd', args, pos)
  local ban = G.ban_open(key, try('GET', key))
  if not ban or ban.til < til then G.ban_save(key, { til = til, forgive = forgive, level = level }) end

elseif step == SEE_ID then
  -- Wants the life, and whether to count a repeat (1 byte). Replies the id's time, 0 if it is not known, and its repeats.
  local life, count = unpack_at('<dB', args, pos)
  local at, repeats = G.id_open(key, id, life)
  if at then
    a, b = at, repeats
    if count == 1 and repeats < 8 and at - now < 16 then call('ZINCRBY', key, '1', id) end -- stint.MaxRepeats
  end

elseif step == RECORD_ID then
  local at, life = unpack_at('<dd', args, pos)
  G.id_record(key, id, at, life)

elseif step == DROP_ID then
  -- Wants the life. Replies the repeats; with none the id is forgotten.
  local life = unpack_at('<d', args, pos)
  local _, repeats = G.id_open(key, id, life)
  a = repeats or 0
  if a == 0 then try('ZREM', key, id) end

elseif step == MARK then
  -- Wants the charge's id (8 bytes), its time, and for how long after that it could be settled. Replies 1 if it was not.
  local charge, at, horizon = unpack_at('<c8dd', args, pos)
  if type(try('ZSCORE', key, charge)) == 'table' then G.discard(key) end
  a = call('ZADD', key, 'NX', at, charge)
  if call('ZCARD', key) > 1000 then call('ZREMRANGEBYRANK', key, 0, 0) end -- stint.MaxSettled
  call('PEXPIRE', key, max(call('PTTL', key), G.ttl(max(0, at - now) + horizon)))
end
return pack('<c8dddd', args, now, a, b, c)
