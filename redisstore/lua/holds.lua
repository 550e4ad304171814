-- holds keeps the open holds of a state. See docs/rules.md. They are a hash. The field of a charge
-- id has the time at which the hold expires, the time until which it can be settled, and the cost
-- that heartbeats have reported. If there have been too many holds, the field with the empty name
-- has the earliest end of a hold.

-- put_hold writes the hold of a charge, unless it has ended. `first` is true if it is known to be
-- the first hold.
local function put_hold(key, id, expires, ends, reported, first)
  if ends <= now then return end
  local text = struct.pack('<ddd', expires, ends, reported)
  if type(redis.pcall('HSET', key, id, text)) == 'table' then -- not a hash
    redis.call('DEL', key)
    redis.call('HSET', key, id, text)
  end
  if first then
    redis.call('PEXPIRE', key, ttl((ends - now) * 9 / 8))
  else
    keep(key, ends - now)
  end
end

-- holds_free returns the instant at which a state has room for another hold: now, or when one of
-- the holds ends. It drops ended holds once there are too many.
local function holds_free(key)
  local n = redis.pcall('HLEN', key)
  if type(n) == 'table' or n < MAX_HOLDS then return now end
  local known, first = redis.call('HGET', key, ''), FAR
  if known and #known == 8 and struct.unpack('<d', known) > now and n > MAX_HOLDS then
    return (struct.unpack('<d', known))
  end
  local all, ended = redis.call('HGETALL', key), {}
  for i = 1, #all, 2 do
    local ends = #all[i + 1] == 24 and select(2, struct.unpack('<dd', all[i + 1])) or 0
    if ends > now then first = math.min(first, ends) else ended[#ended + 1] = all[i] end
  end
  for i = 1, #ended, 1000 do redis.call('HDEL', key, unpack(ended, i, math.min(i + 999, #ended))) end
  if #all / 2 - #ended < MAX_HOLDS then return now end
  redis.call('HSET', key, '', struct.pack('<d', first))
  return first
end
