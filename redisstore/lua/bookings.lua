-- Places booked ahead on one limit: the lists l.booked_at and l.booked_n, in order
-- of time, packed as (time, units) pairs at the end of the limit's state.

local B = { SIZE = 14 }

function B.decode(l, s, from, count)
  l.booked_at, l.booked_n = {}, {}
  for i = 1, count do
    l.booked_at[i], l.booked_n[i] = unpack_at('>I7I7', s, from + (i - 1) * B.SIZE)
  end
end

function B.encode(l)
  local out = {}
  for i = 1, #l.booked_at do out[i] = pack('>I7I7', l.booked_at[i], l.booked_n[i]) end
  return concat(out)
end

function B.shift(l, back)
  for i = 1, #l.booked_at do l.booked_at[i] = l.booked_at[i] - back end
end

-- due removes the first booking if its time has come, and returns it.
function B.due(l)
  if l.booked_at[1] and l.booked_at[1] <= now then
    return remove(l.booked_at, 1), remove(l.booked_n, 1)
  end
end

function B.add(l, t, n)
  local q = #l.booked_at
  if q > 0 and l.booked_at[q] == t then
    l.booked_n[q] = l.booked_n[q] + n
  else
    l.booked_at[q + 1], l.booked_n[q + 1] = t, n
  end
end

-- settle changes the booking at t by delta units; false if there is none.
function B.settle(l, t, delta)
  for i = 1, #l.booked_at do
    if l.booked_at[i] == t then
      local n = l.booked_n[i] + delta
      if n > 0 then
        l.booked_n[i] = n
      else
        remove(l.booked_at, i)
        remove(l.booked_n, i)
      end
      return true
    end
  end
  return false
end

function B.units(l)
  local n = 0
  for i = 1, #l.booked_n do n = n + l.booked_n[i] end
  return n
end
