-- present says that a process is there, for ten seconds, and counts those that are.
--
-- KEYS[1]  the processes, scored by when they were last heard of, in milliseconds
-- ARGV[1]  id of the process
-- Reply    how many there are

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local key = KEYS[1]
if type(redis.pcall('ZREMRANGEBYSCORE', key, '-inf', ('%d'):format(now - 10000))) == 'table' then redis.call('DEL', key) end
redis.call('ZADD', key, ('%d'):format(now), ARGV[1])
redis.call('PEXPIRE', key, '11000')
-- A clock that stepped back must not keep the dead alive; but that of a new master may be
-- a little behind.
redis.call('ZREMRANGEBYSCORE', key, ('(%d'):format(now + 10000), '+inf')
return redis.call('ZCARD', key)
