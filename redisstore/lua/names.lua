-- names changes the sealed data keys, see namekey.go, if they are still as they were seen.
--
-- KEYS[1]  their hash
-- ARGV[1]  a field that was seen, and ARGV[2] its value; '' if there were none
-- ARGV[3]  a field to set, and ARGV[4] its value; '' if there is none
-- ARGV[5…] fields to remove
-- Reply    1 if it was done, else 0

local now, found = redis.call('HGETALL', KEYS[1]), ARGV[1] == ''
if found and #now > 0 then return 0 end
for i = 1, #now, 2 do
  if now[i] == ARGV[1] then found = now[i + 1] == ARGV[2] end
end
if not found then return 0 end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], ARGV[3], ARGV[4]) end
if #ARGV > 4 then redis.call('HDEL', KEYS[1], unpack(ARGV, 5)) end
return 1
