-- table keeps rows of texts. It writes rows, or answers what has changed since a version.
--
-- A version is the number of a life of the table times LIFE, plus a number that grows with every
-- change. A table that is created has a new life, and so has one that is found to be an older copy.
--
-- KEYS[1]  the rows by name, and the version by the empty name
-- KEYS[2]  the names of rows that changed last, scored by the version that did it
-- ARGV[1]  write, restore or read
-- ARGV[2]  the version that the caller knows, 0 if none: read answers what has changed since
-- ARGV[3]  of write and restore, a random number for a new life
-- ARGV[4…] of write and restore per row its name and its text; an empty text removes it. Restore
--          writes only rows that are not there
-- Reply    the version; of a read, whole if all rows are to be read, or lost if the table has not
--          had the version that the caller knows; else per row that has changed its name and its
--          text, empty if it was removed

local CHANGES = 10000 -- as many are remembered
local LIFE = 4194304

local rows, changes, seen = KEYS[1], KEYS[2], tonumber(ARGV[2])
local version = tonumber(redis.call('HGET', rows, '') or 0)
local same = math.floor(seen / LIFE) == math.floor(version / LIFE)

if ARGV[1] ~= 'read' then
  if version == 0 or same and seen > version then
    version = tonumber(ARGV[3]) * LIFE
    redis.call('DEL', changes)
  end
  local text = ('%d'):format(version + 1)
  for i = 4, #ARGV, 2 do
    local name = ARGV[i]
    if ARGV[1] == 'write' or redis.call('HEXISTS', rows, name) == 0 then
      if ARGV[i + 1] == '' then redis.call('HDEL', rows, name) else redis.call('HSET', rows, name, ARGV[i + 1]) end
      redis.call('ZADD', changes, text, name)
    end
  end
  redis.call('ZREMRANGEBYRANK', changes, 0, -CHANGES - 1)
  redis.call('HSET', rows, '', text)
  return { text }
end

local out = { ('%d'):format(version) }
if seen == version and version > 0 then return out end
if seen > 0 and (not same or seen > version) then
  out[2] = 'lost'
  return out
end
-- Of the version after the one that is known, some changes may be forgotten if there are as many as
-- are remembered.
local oldest = tonumber(redis.call('ZRANGE', changes, 0, 0, 'WITHSCORES')[2] or version + 2)
local forgotten = oldest > seen + 1 or oldest == seen + 1 and redis.call('ZCARD', changes) >= CHANGES
if seen == 0 or forgotten then
  out[2] = 'whole'
  return out
end
local names = redis.call('ZRANGEBYSCORE', changes, ('(%d'):format(seen), '+inf')
for i = 1, #names do
  out[#out + 1] = names[i]
  out[#out + 1] = redis.call('HGET', rows, names[i]) or ''
end
return out
