-- names changes the sealed data keys, see namekey.go, if they are still as they were seen.
--
-- KEYS[1]  their hash
-- ARGV[1]  a field that was seen; '' if there were none
-- ARGV[2]  its value
-- ARGV[3]  a field to set; '' if there is none
-- ARGV[4]  its value
-- ARGV[5…] fields to remove
-- Reply    1 if it was done, else 0

local key, seen, seen_value, field, value = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local stored = redis.call('HGETALL', key)

local same = seen == '' and #stored == 0
for i = 1, #stored, 2 do
  if stored[i] == seen then same = stored[i + 1] == seen_value end
end
if not same then return 0 end
if field ~= '' then redis.call('HSET', key, field, value) end
if #ARGV > 4 then redis.call('HDEL', key, unpack(ARGV, 5)) end
return 1
