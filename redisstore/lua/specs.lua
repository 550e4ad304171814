-- specs reads the limits of a call, each of which many of its requests may name.
--
-- In args: number of limits (2 bytes), spec of each (limit.lua)
--
-- A spec s that is a log is an array with the fields named below: where it stands in args,
-- what it says, then what follows from that: how many bytes an entry has, where the ends
-- of the log end, and the formats of an entry and of all that is written at once. Any other has
-- the first field only.

local AT, CAP, TIMES, WINDOW, SPAN, SLICE, SIZE, ENDS, ENTRY, WRITTEN = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10

local specs = {}
local n, pos = unpack_at('>I2', args, 17)
for i = 1, n do
  local algorithm, cap, window, times = unpack_at('>Bi8i8i8', args, pos)
  if algorithm == 0 or algorithm == 2 then -- stint.Sliding, stint.Fixed
    local span, slice = times * window, 0
    if cap > 125 then slice = math.ceil(span / 125) end -- stint.Resolution
    if algorithm == 2 then times, span, slice = 1, 0, window end
    if cap <= 125 then
      specs[i] = { pos, cap, times, window, span, slice, 8, '165', '>I7I1', '>BBBBBBBBI2I7I7I7I7c0I7I1' }
    elseif cap < 4294967296 then
      specs[i] = { pos, cap, times, window, span, slice, 11, '213', '>I7I4', '>BBBBBBBBI2I7I7I7I7c0I7I4' }
    else
      specs[i] = { pos, cap, times, window, span, slice, 14, '261', '>I7I7', '>BBBBBBBBI2I7I7I7I7c0I7I7' }
    end
  else
    specs[i] = { pos }
  end
  pos = pos + 33
end
