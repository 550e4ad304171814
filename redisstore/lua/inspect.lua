-- inspect shows what a subject has used of some limits, and its ban. It writes nothing.
--
-- KEYS     the subject's ban, its strikes, then the state or the holders of each part
-- ARGV[1]  see start.lua; then
--            how many entries to show at most (2 bytes)
--            number of parts (1), and per part its set (1; 0: holders), of holders their capacity
--            and window
-- Reply    call id (8), now, the ban's end (0: none in force), its level, strikes; then per limit,
--          in the order of the sets,
--            used, reset-after, retry-after
--            number of holders that are not shown
--            number of entries (2), and per entry its time, when it leaves the window, its units
-- @include start

local G = general(now, generation, sets)
G.look(true)
local most, parts
most, parts, pos = unpack_at('<I2B', args, pos)
local out = { '' }

local til, level = 0, 0
local ban = G.ban_open(KEYS[1], try('GET', KEYS[1]))
if ban then til, level = ban.til > now and ban.til or 0, ban.level end

-- show adds a limit to the reply.
local function show(l, of, hidden, entries)
  local retry = 0
  if not of.fits(l, 1) then
    retry = of.earliest(l, math.max(now, l.booked and G.last_booking(l) or 0), 1)
    if retry > 0 then retry = retry - now end
  end
  local used, reset = G.bounded(of.used(l), 0), G.bounded(of.reset(l), 0)
  out[#out + 1] = pack('<ddddI2', used, reset, G.bounded(retry, NEVER), hidden, #entries)
  out[#out + 1] = table.concat(entries)
end

for p = 1, parts do
  local which
  which, pos = unpack_at('B', args, pos)
  if which == 0 then
    local cap, window
    cap, window, pos = unpack_at('<dd', args, pos)
    local l, entries = G.open_holders(KEYS[2 + p], cap, window, 1), {}
    local hidden = math.max(0, l.held - most)
    local held = l.held > 0 and call('ZRANGEBYSCORE', l.key, now + 1, '+inf', 'WITHSCORES', 'LIMIT', hidden, most) or {}
    for j = 2, #held, 2 do
      entries[j / 2] = pack('<ddd', 0, math.min(tonumber(held[j]), now + window), 1)
    end
    show(l, l.of, hidden, entries)
  else
    local _, asked = G.open_state(KEYS[2 + p], sets[which], 1)
    for _, l in ipairs(asked) do
      local entries = {}
      G.each(l, function(at, ends, units)
        entries[#entries + 1] = pack('<ddd', G.bounded(at, 0), G.bounded(ends, 0), G.bounded(units, 0))
      end)
      show(l, G.L, 0, entries)
    end
  end
end

-- A log of strikes does not say for how long they count; its window is that of the policy that
-- counted the last.
local _, strikes = G.open_strikes(KEYS[2])
out[1] = pack('<c8dddd', args, now, til, level, strikes.sum)
return table.concat(out)
