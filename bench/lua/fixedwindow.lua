-- A fixed window: the least that a script can count with, and not strict.
--
-- KEYS[1]   the counter
-- ARGV[1]   limit, in units
-- ARGV[2]   window, in milliseconds
--
-- Returns {1 if allowed, units in the window afterwards}.
local used = redis.call('INCR', KEYS[1])
if used == 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {used <= tonumber(ARGV[1]) and 1 or 0, used}
