-- ids: the request ids of a subject in a scope, see docs/rules.md. They are a sorted set, scored by
-- when they end (time + life), rounded up to a multiple of ID_STEP, plus the number of repeats.

-- id_open returns the id's time and repeats if it is in force.
function G.id_open(key, id, life)
  local score = try('ZSCORE', key, id)
  if not score then return end
  if type(score) == 'table' then return discard(key) end
  score = tonumber(score)
  local repeats = score % ID_STEP
  local at = score - repeats - life
  if at > now - life and at <= now + life then return at, repeats end
end

function G.id_record(key, id, at, life)
  call('ZREMRANGEBYSCORE', key, '-inf', now - now % ID_STEP + ID_STEP - 1)
  call('ZADD', key, ceil((at + life) / ID_STEP) * ID_STEP, id)
  if call('ZCARD', key) > MAX_IDS then call('ZREMRANGEBYRANK', key, 0, 0) end
  call('PEXPIRE', key, max(call('PTTL', key), ttl(at - now + life)))
end
