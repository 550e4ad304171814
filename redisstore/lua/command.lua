-- command acts on one subject outside of any decision.
--
-- KEYS     BAN, UNBAN: the ban, the strikes
--          GIVE_BACK: the states
--          RESET: the settled charges, the request ids, the holders, the states
-- ARGV[1]  see start.lua; then
--            kind (1 byte)
--            length of the ban, or units to give back
--            number of states (1), and per state its set (1)
--            number of resets to note (1), and per limit or state (concurrency.lua)
--              for how long
--              length of its name (1), its name
-- Reply    call id (8)
-- @include start

local G = general(now, generation, sets)
local kind, amount, states
kind, amount, states, pos = unpack_at('<BdB', args, pos)
local mark = '!' -- what to announce: a command, or that there is room again
local first = #KEYS - states
if kind == BAN then
  local ban = G.ban_open(KEYS[1], try('GET', KEYS[1])) or { forgive = 0, level = 0 }
  ban.til = math.max(ban.til or 0, now + amount) -- one that ends later stays
  G.ban_save(KEYS[1], ban)
elseif kind == GIVE_BACK or kind == RESET then
  if kind == GIVE_BACK then mark = nil end
  local which, notes = pos, nil
  notes, pos = unpack_at('B', args, pos + states)
  for _ = 1, notes do
    local life, name
    life, name, pos = unpack_at('<dBc0', args, pos)
    G.note_reset(KEYS[1], name, life)
  end
  local from = notes > 0 and 2 or 1
  if first >= from then call('DEL', unpack(KEYS, from, first)) end
  for i = 1, states do
    local set = sets[args:byte(which + i - 1)]
    local st, asked = G.open_state(KEYS[first + i], set, 0)
    if kind == RESET then
      G.forget(st, asked)
    else
      local gave = false
      for _, l in ipairs(asked) do gave = G.L.give_back(l, amount) or gave end
      if gave then
        mark = '+'
        G.save(st)
      end
    end
  end
else
  call('DEL', unpack(KEYS))
end
if mark then G.announce(KEYS[1], mark) end
return pack('<c8', args)
