-- The sliding window log as it is usually written: a sorted set with one member per request.
--
-- KEYS[1]   the log
-- ARGV[1]   a value that differs between requests of the same microsecond
-- ARGV[2]   limit, in units
-- ARGV[3]   length of the window, in microseconds
--
-- Returns {1 if allowed, else 0; units in the window afterward}.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local window = tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
local used = redis.call('ZCARD', KEYS[1])
if used >= tonumber(ARGV[2]) then
  return {0, used}
end
redis.call('ZADD', KEYS[1], now, time[1] .. '.' .. time[2] .. ':' .. ARGV[1])
redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000) + 1000)
return {1, used + 1}
