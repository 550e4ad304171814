-- The sliding window log as it is usually written: one sorted set per window,
-- one member per request.
--
-- KEYS[i]        the log of window i
-- ARGV[1]        what tells apart requests of one microsecond
-- ARGV[2i]       limit of window i, in units
-- ARGV[2i + 1]   length of window i, in microseconds
--
-- Returns {1 if allowed, units in the first window afterwards}.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local member = time[1] .. '.' .. time[2] .. ':' .. ARGV[1]
local first
for i = 1, #KEYS do
  local limit, window = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
  redis.call('ZREMRANGEBYSCORE', KEYS[i], 0, now - window)
  local used = redis.call('ZCARD', KEYS[i])
  first = first or used
  if used >= limit then
    return {0, used}
  end
end
for i = 1, #KEYS do
  redis.call('ZADD', KEYS[i], now, member)
  redis.call('PEXPIRE', KEYS[i], math.ceil(ARGV[2 * i + 1] / 1000) + 1000)
end
return {1, first + 1}
