-- A fixed window with the work that rueidislimiter does: the end of the window in a key
-- beside the counter, and the clock of the caller. Not strict.
--
-- KEYS[1]   the counter
-- KEYS[2]   when its window ends, in milliseconds
-- ARGV[1]   units
-- ARGV[2]   when a window that begins now ends, in milliseconds
-- ARGV[3]   now, in milliseconds
--
-- Returns {units in the window afterwards, when it ends}.
local units, ends, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local known = tonumber(redis.call('GET', KEYS[2]))
if not known or known < now then
  known = ends
  redis.call('SET', KEYS[1], 0, 'PXAT', ends + 1000)
  redis.call('SET', KEYS[2], ends, 'PXAT', ends + 1000)
end
return { redis.call('INCRBY', KEYS[1], units), known }
