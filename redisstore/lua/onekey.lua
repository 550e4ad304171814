-- onekey does one step of what take.lua or amend.lua does in one call: the part that concerns a
-- single key other than the state. While a slot of a Cluster is being moved, calls with several
-- keys are refused; see migrating.go.
--
-- KEYS[1]  the ban, the strikes, the request ids or the settled charges
-- ARGV[1]  see start.lua; then the step (1 byte), and what it reads
-- ARGV[2]  request id, if the step is about one
-- Reply    call id, now, three numbers, and a text if the step has one
-- @include start

local G = general(now, generation, sets)
local max, min = math.max, math.min
local key, id = KEYS[1], ARGV[2]
local step
step, pos = unpack_at('B', args, pos)
local a, b, c, text = 0, 0, 0, ''

if step == SEE_BAN then
  -- Replies until, forgive, level; zeros if there is no ban.
  local ban = G.ban_open(key, try('GET', key))
  if ban then a, b, c = ban.til, ban.forgive, ban.level end

elseif step == STRIKE then
  -- Reads the ban as above, after (1 byte), within, forgive, number of durations (1), durations.
  -- Replies the ban that this leads to.
  local til, forgave, level, steps
  local policy = { durations = {} }
  til, forgave, level, policy.after, policy.within, policy.forgive, steps, pos = unpack_at('<dddBddB', args, pos)
  for i = 1, steps do policy.durations[i], pos = unpack_at('<d', args, pos) end
  local ban = G.strike(key, til > 0 and { til = til, forgive = forgave, level = level } or nil, policy)
  if ban then a, b, c = ban.til, ban.forgive, ban.level end

elseif step == SET_BAN then
  -- Reads until, forgive, level. A ban that ends later stays.
  local til, forgive, level = unpack_at('<ddd', args, pos)
  local ban = G.ban_open(key, try('GET', key))
  if not ban or ban.til < til then G.ban_save(key, { til = til, forgive = forgive, level = level }) end

elseif step == SEE_ID then
  -- Reads the life, and 1 to count a repeat (1 byte). Replies the id's time, 0 if it is not known,
  -- its repeats, and what it remembers of its charge.
  local life, count = unpack_at('<dB', args, pos)
  local at, repeats, til = G.id_open(key, id, life)
  if at then
    a, b, text = at, repeats, G.id_charge(key, id, til)
    if count == 1 and repeats < MAX_REPEATS and at - now < ID_STEP then call('ZINCRBY', key, '1', id) end
  end

elseif step == RECORD_ID then
  -- Reads the id's time, its life, and what it remembers of its charge.
  local at, life, from = unpack_at('<dd', args, pos)
  G.id_record(key, id, at, life, args:sub(from))

elseif step == DROP_ID then
  -- Reads the life. Replies the repeats; if there are none, the id is forgotten.
  local life = unpack_at('<d', args, pos)
  local _, repeats = G.id_open(key, id, life)
  a = repeats or 0
  if a == 0 then G.id_forget(key, id) end

elseif step == MARK then
  -- Reads the charge's id (8 bytes), its time, and for how long after that it can be settled.
  -- Replies 1 if it was not.
  local charge, at, horizon = unpack_at('<c8dd', args, pos)
  if type(try('ZSCORE', key, charge)) == 'table' then G.discard(key) end
  a = call('ZADD', key, 'NX', at, charge)
  if call('ZCARD', key) > MAX_SETTLED then call('ZREMRANGEBYRANK', key, 0, 0) end
  call('PEXPIRE', key, max(call('PTTL', key), G.ttl(max(0, at - now) + horizon)))

elseif step == SEE_RESET then
  -- Reads the time of a charge, the length of how the key of its state ends (1 byte), and that.
  -- Replies 1 if the charge was lost in a reset.
  local at, name = unpack_at('<dBc0', args, pos)
  if G.was_reset(key, name, LATE_SETTLE, at) then a = 1 end
end
return pack('<c8dddd', args, now, a, b, c) .. text
