-- command acts on one subject outside of any decision.
--
-- KEYS     ban and unban: the ban, the strikes; give back: the states; reset: the settled charges if places are reset, the
--          request ids, the holders of limits, the states
-- ARGV[1]  see start.lua; kind (1 byte); of a ban its length, or the units that are given back;
--          number of states (1), set of each (1); how many limits have their places reset (1), and of each its window, length of its name (1)
--          and that
-- Reply    call id

local RESET, BAN, GIVE_BACK = 0, 1, 3 -- stint.CommandKind; else Unban

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
  local which, places = pos, nil
  places, pos = unpack_at('B', args, pos + states)
  for i = 1, places do
    local window, limit
    window, limit, pos = unpack_at('<dBc0', args, pos)
    G.note_reset(KEYS[1], limit, window)
  end
  local from = places > 0 and 2 or 1
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
