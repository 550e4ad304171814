-- table keeps a table of rows, each with a name and a text. A call writes rows, or returns the rows
-- that have changed since a version.
--
-- A version is life * LIFE + changes * STEP + tag. `life` is set when the table is created, or
-- created again after it was lost. With every change, `changes` grows and `tag` is set again.
-- `life` and `tag` are random, so that an older copy of the table gets different versions once it
-- changes.
--
-- KEYS[1]  the rows by name, and the version by the empty name
-- KEYS[2]  a sorted set of recent changes, scored by version: the name of each changed row, and for
--          each version a member that is a zero byte and the version. Names of rows do not begin
--          with a zero byte
-- ARGV[1]  write, restore or read
-- ARGV[2]  the version that the caller knows, 0 if none: read returns the changes since then
-- ARGV[3]  for write and restore, a random number below 2^32
-- ARGV[4…] for write and restore, per row its name and its text; an empty text removes the row.
--          Restore writes only missing rows
-- Reply    for write and restore, the new version if the caller knew the previous one, else
--          ARGV[2]. For read, the version, then whole if the caller must read all rows, or lost if
--          the table never had the version that the caller knows; else per changed row its name
--          and its text, empty if the row was removed

local CHANGES = 10000 -- maximum number of remembered changes
local STEP, LIFE = 2 ^ 14, 2 ^ 34

local rows, changes, seen = KEYS[1], KEYS[2], tonumber(ARGV[2])
local version = tonumber(redis.call('HGET', rows, '') or 0)
local function text(v) return ('%d'):format(v) end

if ARGV[1] ~= 'read' then
  local random, known = tonumber(ARGV[3]), seen == version
  if version == 0 then
    version = (1 + math.floor(random / STEP)) * LIFE
    redis.call('DEL', changes)
  end
  local new = text(version - version % STEP + STEP + random % STEP)
  for i = 4, #ARGV, 2 do
    local name = ARGV[i]
    if ARGV[1] == 'write' or redis.call('HEXISTS', rows, name) == 0 then
      if ARGV[i + 1] == '' then redis.call('HDEL', rows, name) else redis.call('HSET', rows, name, ARGV[i + 1]) end
      redis.call('ZADD', changes, new, name)
    end
  end
  redis.call('ZADD', changes, new, '\0' .. new)
  redis.call('ZREMRANGEBYRANK', changes, 0, -CHANGES - 1)
  redis.call('HSET', rows, '', new)
  return { known and new or ARGV[2] }
end

local out = { text(version) }
if seen == version and version > 0 then return out end
if seen == 0 or not redis.call('ZSCORE', changes, '\0' .. text(seen)) then
  local oldest = tonumber(redis.call('ZRANGE', changes, 0, 0, 'WITHSCORES')[2] or version)
  local same = math.floor(seen / LIFE) == math.floor(version / LIFE)
  out[2] = (seen == 0 or same and seen <= oldest) and 'whole' or 'lost'
  return out
end
local names = redis.call('ZRANGEBYSCORE', changes, '(' .. text(seen), '+inf')
for i = 1, #names do
  if names[i]:byte() ~= 0 then
    out[#out + 1] = names[i]
    out[#out + 1] = redis.call('HGET', rows, names[i]) or ''
  end
end
return out
