-- inspect shows what a subject has used of some limits, and its ban. It writes nothing.
--
-- KEYS     one key per limit, then the subject's ban and its strikes
-- ARGV[1]  call id, clock, how many places to show at most (2 bytes), spec of each limit (limit.lua)
-- Reply    call id, now, the ban's end (0: none in force), its level, strikes; then per limit used, reset-after, retry-after,
--          how many places are not shown, number of entries (2 bytes), and of each entry its time, when it
--          leaves the window, and its units

local HEAD, HEAD_FORMAT = 38, '>BBBBBBBBI2I7I7I7I7'

local R = rest(now, true)
local most, pos = unpack_at('>I2', args, 17)
local count = #KEYS - 2
local out = {}

-- show adds an entry to those of a limit.
local function show(entries, at, til, units) entries[#entries + 1] = pack('>i8i8i8', at, til, units) end

local til, level = 0, 0
local ban = R.ban_open(KEYS[count + 1], try('GET', KEYS[count + 1]))
if ban then til, level = ban.til > now and ban.til or 0, ban.level end

-- A log of strikes does not say for how long they count. The last was written when it
-- was counted, and its key expires a second after it counts no more.
local strikes = 0
local log = try('GETRANGE', KEYS[count + 2], '0', HEAD - 1)
if type(log) == 'string' and #log == HEAD then
  local _, _, _, _, _, _, _, _, _, last, _, _, expires = unpack_at(HEAD_FORMAT, log)
  local l = R.open_limit(pack('>Bi8i8i8i8', 0, 1, expires - 1000000 - last, 1, 0), 1, KEYS[count + 2], 0)
  strikes = l.of.used(l)
end
out[1] = pack('>c8i8i8i8i8', args, now, til, level, strikes)

for i = 1, count do
  local l = R.open_limit(args, pos + (i - 1) * 33, KEYS[i], 1)
  local entries, hidden = {}, 0
  if l.places and l.held > 0 then
    hidden = math.max(0, l.held - most)
    local held = call('ZRANGEBYSCORE', l.key, now + 1, '+inf', 'WITHSCORES', 'LIMIT', hidden, most)
    for j = 2, #held, 2 do show(entries, 0, math.min(tonumber(held[j]), now + l.window), 1) end
  elseif l.at then -- a log
    for j = 1, #l.at do
      local stamp = l.at[j]
      if stamp > now - l.span then show(entries, l.fixed and stamp - l.window or stamp, stamp + l.span, l.n[j]) end
    end
    for j = 1, #l.booked_at do
      local at = l.booked_at[j]
      local stamp = l.slice == 0 and at or at - at % l.slice + l.slice
      show(entries, at, stamp + l.span, l.booked_n[j])
    end
  end
  local room = l.of.earliest(l, now, 1)
  out[#out + 1] = pack('>i8i8i8i8I2', math.min(l.of.used(l), 2 ^ 53), l.of.reset(l), room < 0 and room or room - now, hidden, #entries)
  out[#out + 1] = table.concat(entries)
end
return table.concat(out)
