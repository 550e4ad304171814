-- present notes that a process is there, and counts those that are. A process counts for LIFE
-- milliseconds.
--
-- KEYS[1]  the processes, scored by when each last called, in milliseconds
-- ARGV[1]  id of the process
-- Reply    number of processes

local LIFE = 10000

local key, id = KEYS[1], ARGV[1]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

local removed = redis.pcall('ZREMRANGEBYSCORE', key, '-inf', ('%d'):format(now - LIFE))
if type(removed) == 'table' then redis.call('DEL', key) end -- it is no sorted set
redis.call('ZADD', key, ('%d'):format(now), id)
redis.call('PEXPIRE', key, ('%d'):format(LIFE + 1000))
-- A clock that stepped back must not keep the dead alive; but that of a new master may be a little
-- behind.
redis.call('ZREMRANGEBYSCORE', key, ('(%d'):format(now + LIFE), '+inf')
return redis.call('ZCARD', key)
