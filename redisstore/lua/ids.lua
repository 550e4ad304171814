-- ids: the request ids of a subject in a scope, see docs/rules.md. They are a sorted set, scored by
-- when they end (time + life), rounded up to a multiple of ID_STEP, plus the number of repeats.
--
-- What an id remembers of its charge is a member of its own: the beginning of the id's hash, then
-- ID (8 bytes), time, units of the first claim, the note of the request, and the generations of its
-- states (4 each); see internal/contract/recall.go. It has the same end, plus ID_STEP - 1.

local function hash_of(id) return redis.sha1hex(id):sub(1, ID_HASH) end

-- charge_member returns the member with the charge of an id that ends then, if there is one.
local function charge_member(key, id, til)
  local hash = hash_of(id)
  for _, member in ipairs(call('ZRANGEBYSCORE', key, til + ID_STEP - 1, til + ID_STEP - 1)) do
    if member:sub(1, ID_HASH) == hash then return member end
  end
end

-- id_open returns the id's time, repeats and end if it is in force.
function G.id_open(key, id, life)
  local score = try('ZSCORE', key, id)
  if not score then return end
  if type(score) == 'table' then return discard(key) end
  score = tonumber(score)
  local repeats = score % ID_STEP
  local at = score - repeats - life
  if at > now - life and at <= now + life then return at, repeats, score - repeats end
end

-- id_charge returns what an id that ends then remembers of its charge; '' if it does not.
function G.id_charge(key, id, til)
  return (charge_member(key, id, til) or ''):sub(ID_HASH + 1)
end

-- id_forget removes an id and its charge.
function G.id_forget(key, id)
  local score = tonumber(call('ZSCORE', key, id) or 0)
  call('ZREM', key, id, charge_member(key, id, score - score % ID_STEP) or id)
end

function G.id_record(key, id, at, life, charge)
  call('ZREMRANGEBYSCORE', key, '-inf', now - now % ID_STEP + ID_STEP - 1)
  local til = ceil((at + life) / ID_STEP) * ID_STEP
  call('ZADD', key, til, id, til + ID_STEP - 1, hash_of(id) .. charge)
  while call('ZCARD', key) > 2 * MAX_IDS do G.id_forget(key, call('ZRANGE', key, 0, 0)[1]) end
  call('PEXPIRE', key, max(call('PTTL', key), ttl(at - now + life)))
end

-- id_rebook has an id, if it is known, remember another charge.
function G.id_rebook(key, id, charge)
  local score = try('ZSCORE', key, id)
  if not score or type(score) == 'table' then return end
  local til = score - score % ID_STEP
  local old = charge_member(key, id, til)
  if old then call('ZREM', key, old) end
  call('ZADD', key, til + ID_STEP - 1, hash_of(id) .. charge)
end
