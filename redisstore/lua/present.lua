-- present registers a process, counts the registered processes, and detects whether Redis has lost
-- data that the process knew about. A registration lasts for LIFE milliseconds.
--
-- KEYS[1]  the processes, scored by the time of their last calls, in milliseconds; and the mark, a
--          member that begins with MARK, scored by the negative number of calls. A copy of the data
--          has the same mark; after a loss there is a new mark
-- ARGV[1]  id of the process
-- ARGV[2]  a new mark, used if there is none or something was lost
-- ARGV[3]  time of the process's last call, from its reply (0: never)
-- ARGV[4]  the mark from that reply
-- ARGV[5]  the number of calls from that reply
-- Reply    number of processes, now in milliseconds, the mark, number of calls by all processes

local LIFE = 10000
local STAYS = 400 * 24 * 3600 * 1000 -- longer than any window
local MARK = 'memory '

local key, id, told, known, calls = KEYS[1], ARGV[1], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

local lowest = redis.pcall('ZRANGE', key, '0', '0', 'WITHSCORES')
if lowest.err then -- not a sorted set
  redis.call('DEL', key)
  lowest = {}
end
local mark, own, lost = lowest[1] or '', tonumber(redis.call('ZSCORE', key, id) or 0), false
if mark:sub(1, #MARK) ~= MARK then
  mark = MARK .. ARGV[2]
elseif mark == known then -- in an old copy, the count is behind, or the last call of this process is missing
  lost = -tonumber(lowest[2]) < calls or own < told and told > now - LIFE and told <= now + LIFE
end
if lost then
  redis.call('ZREM', key, mark)
  mark = MARK .. ARGV[2]
end
calls = -redis.call('ZINCRBY', key, '-1', mark)

redis.call('ZREMRANGEBYSCORE', key, '0', ('%d'):format(now - LIFE))
redis.call('ZADD', key, ('%d'):format(now), id)
redis.call('PEXPIRE', key, ('%d'):format(STAYS))
-- If the clock stepped back, processes that have ended must not stay registered. But after a
-- failover, the clock may be behind by up to LIFE.
redis.call('ZREMRANGEBYSCORE', key, ('(%d'):format(now + LIFE), '+inf')
return { redis.call('ZCARD', key) - 1, now, mark, calls }
