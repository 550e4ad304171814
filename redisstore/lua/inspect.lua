-- inspect shows a subject's usage of some limits, and its ban. It writes nothing.
--
-- KEYS     the subject's ban, its strikes, then the state or the holders of each part
-- ARGV[1]  see start.lua; then
--            maximum number of entries to show (2 bytes)
--            number of parts (1), and per part its set (1; 0: holders), for holders their capacity
--            and window
-- Reply    call id (8), now, the ban's end (0: none in force), its level, strikes; then per limit,
--          in the order of the sets,
--            used, reset-after, retry-after, held
--            number of holders not shown
--            number of entries (2), and per entry its time, when it leaves the window, its units

limits, whole, bans, holders = make_limits(), make_whole(), make_bans(), make_holders()
whole.looking = true
local most, parts
most, parts, pos = struct.unpack('<I2B', args, pos)
local out = { '' }

local function show(used, resets, retry, held, hidden, entries)
  out[#out + 1] = struct.pack('<dddddI2', used, resets, retry, held, hidden, #entries) .. table.concat(entries)
end

-- show_holders adds a concurrency limit to the reply, with the holders that keep their places
-- longest.
local function show_holders(key, cap, window)
  local c, entries, held = holders.open(key, cap, window, true), {}, {}
  local hidden = math.max(0, c.held - most)
  if c.held > 0 then
    held = redis.call('ZRANGEBYSCORE', key, now + 1, '+inf', 'WITHSCORES', 'LIMIT', hidden, most)
  end
  for i = 2, #held, 2 do
    entries[i / 2] = struct.pack('<ddd', 0, math.min(tonumber(held[i]), now + window), 1)
  end
  local free = holders.earliest(c, 1)
  show(c.held, c.resets, free == NEVER and NEVER or free - now, 0, hidden, entries)
end

-- show_count adds a limit other than a concurrency limit to the reply.
local function show_count(c)
  local entries, retry = {}, 0
  whole.each(c, function(at, ends, units)
    entries[#entries + 1] = struct.pack('<ddd', bounded(at, 0), bounded(ends, 0), bounded(units, 0))
  end)
  if not whole.fits(c, 1) then retry = whole.earliest(c, math.max(now, (whole.last_booking(c))), 1) end
  show(bounded(whole.used(c), 0), bounded(whole.resets(c, now), 0),
    bounded(retry > 0 and retry - now or retry, NEVER), bounded(whole.held_sum(c), 0), 0, entries)
end

for p = 1, parts do
  local which
  which, pos = struct.unpack('B', args, pos)
  if which == 0 then
    local cap, window
    cap, window, pos = struct.unpack('<dd', args, pos)
    show_holders(KEYS[2 + p], cap, window)
  else
    local _, counts = whole.open(KEYS[2 + p], sets[which])
    for _, c in ipairs(counts) do show_count(c) end
  end
end

local til, level = 0, 0
local ban = bans.read(KEYS[1], true)
if ban then til, level = ban.til > now and ban.til or 0, ban.level end
-- How long strikes count depends on the policy that counted the last strike. The state stores this
-- duration as the window of the log.
local st, strikes = whole.strikes(KEYS[2])
out[1] = struct.pack('<c8dddd', args, now, til, level, st[st[SET][strikes.at + LOG] + SUM])
return table.concat(out)
