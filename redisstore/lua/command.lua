-- command resets, bans or unbans one subject, or gives units back to it.
--
-- KEYS     BAN, UNBAN: the ban, the strikes
--          GIVE_BACK: the states
--          RESET: the settled charges, the request ids, the holders, the states
-- ARGV[1]  see start.lua; then
--            kind (1 byte)
--            length of the ban, or units to give back
--            number of states (1), and per state its set (1)
--            RESET: number of resets to note (1), and per limit (resets.lua)
--              how long to remember the reset
--              length of its name (1), its name
-- Reply    call id (8), now

limits, whole, bans = make_limits(), make_whole(), make_bans()
local kind, amount, states
kind, amount, states, pos = struct.unpack('<BdB', args, pos)
local mark = '!' -- announces a command; '+' announces that units were given back

-- give_back removes up to n units from the meter, and up to n from the entries, the oldest first.
-- It does not change entries ahead of now. It reports whether there was anything to give back.
local function give_back(c, n)
  local st, set, at, list, left = c.st, c.st[SET], c.at, {}, n
  local o, m, unit = set[at + LOG], set[at + METER], set[at + UNIT]
  local ends = stamp_of(set, at, now)
  for stamp, units in whole.entries(c) do
    local back = stamp <= ends and math.min(left, units) or 0
    left = left - back
    if units > back then list[#list + 1] = { stamp, units - back } end
  end
  if left < n then
    whole.set_entries(c, list)
    st[o + SUM], c.changed = st[o + SUM] - (n - left), true
  end
  if unit > 0 and st[m + LEVEL] > 0 then
    st[m + LEVEL], c.led, c.changed = st[m + LEVEL] - math.min(st[m + LEVEL], n * unit), nil, true
  end
  return c.changed
end

-- forget removes limits from a state, with their usage. The state gets a new generation, so earlier
-- charges to it can no longer be amended.
local function forget(st, counts)
  if st[VALUE] == '' then return end
  local gone, left = {}, {}
  for _, c in ipairs(counts) do
    gone[c] = true
    if c.held then gone[c.held] = true end
  end
  for _, c in ipairs(st.counts) do
    if not gone[c] then left[#left + 1] = c end
  end
  st.counts, st[GENERATION] = left, generation
  whole.save(st)
end

-- note_resets records the resets that are listed in args, from the offset `at` on.
local function note_resets(at)
  local notes
  notes, at = struct.unpack('B', args, at)
  for _ = 1, notes do
    local life, name
    life, name, at = struct.unpack('<dBc0', args, at)
    note_reset(KEYS[1], name, life)
  end
end

if kind == BAN then
  local ban = bans.read(KEYS[1]) or { forgive = 0, level = 0 }
  ban.til = math.max(ban.til or 0, now + amount) -- a ban that ends later stays
  bans.save(KEYS[1], ban)
elseif kind == UNBAN then
  redis.call('DEL', unpack(KEYS))
else
  local first = #KEYS - states
  if kind == GIVE_BACK then
    mark = nil
  else
    note_resets(pos + states)
    if first > 1 then redis.call('DEL', unpack(KEYS, 2, first)) end
  end
  for i = 1, states do
    local st, counts = whole.open(KEYS[first + i], sets[args:byte(pos + i - 1)])
    if kind == RESET then
      forget(st, counts)
    else
      local gave = false
      for _, c in ipairs(counts) do gave = give_back(c, amount) or gave end
      if gave then
        mark = '+'
        whole.save(st)
      end
    end
  end
end
if mark then announce(KEYS[1], mark) end
return struct.pack('<c8d', args, now)
