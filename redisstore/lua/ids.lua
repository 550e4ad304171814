-- Request ids, per subject and scope, see docs/rules.md: a sorted set of ids, scored
-- by their time rounded up to 16 microseconds; the low four bits count the repeats.

local IDS = 1000          -- stint.MaxIDs

-- id_open returns the id's time and repeats if it is in force.
function G.id_open(key, id, life)
  local score = try('ZSCORE', key, id)
  if not score then return end
  if type(score) == 'table' then return discard(key) end
  score = tonumber(score)
  local repeats = score % 16
  local at = score - repeats
  if at > now - life and at <= now + life then return at, repeats end
end

function G.id_record(key, id, at, life)
  local expired = now - life
  call('ZREMRANGEBYSCORE', key, '-inf', expired - expired % 16 + 15)
  call('ZADD', key, ceil(at / 16) * 16, id)
  if call('ZCARD', key) > IDS then call('ZREMRANGEBYRANK', key, 0, 0) end
  call('PEXPIRE', key, max(call('PTTL', key), ttl(at - now + life)))
end
