-- ids keeps the request ids of a subject in a scope. See docs/rules.md. They are a sorted set,
-- scored by their end (time + life), rounded up to a multiple of ID_STEP, plus the number of
-- repeats.
--
-- The charge of a request with an id is a separate member: the beginning of the id's hash, then the
-- charge id (8 bytes), time, units of the first claim, the note of the request, and the generations
-- of its states (4 each); see internal/contract/recall.go. Its score is the same end plus
-- ID_STEP - 1.

local ids = { open = nil, charge = nil, forget = nil, record = nil, prolong = nil, rebook = nil } -- preallocate the fields

local function hash_of(id) return redis.sha1hex(id):sub(1, ID_HASH) end

-- charge_member returns the member with the charge of an id that ends at til, if there is one.
local function charge_member(key, id, til)
  local hash, score = hash_of(id), ('%d'):format(til + ID_STEP - 1)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, score, score)) do
    if member:sub(1, ID_HASH) == hash then return member end
  end
end

-- open returns the id's time, repeats and end if it is in force.
function ids.open(key, id, life)
  local score = redis.pcall('ZSCORE', key, id)
  if not score or type(score) == 'table' then return end
  local repeats = score % ID_STEP
  local at = score - repeats - life
  if at > now - life and at <= now + life then return at, repeats, score - repeats end
end

-- charge returns the charge of the request with an id that ends at til, or '' if there is none.
function ids.charge(key, id, til)
  return (charge_member(key, id, til) or ''):sub(ID_HASH + 1)
end

function ids.forget(key, id)
  local score = tonumber(redis.call('ZSCORE', key, id) or 0)
  redis.call('ZREM', key, id, charge_member(key, id, score - score % ID_STEP) or id)
end

-- record stores the id of a request that was charged at the time `at`, and its charge.
function ids.record(key, id, at, life, charged)
  local over = redis.pcall('ZREMRANGEBYSCORE', key, '-inf', ('%d'):format(now - now % ID_STEP + ID_STEP - 1))
  if type(over) == 'table' then redis.call('DEL', key) end -- not a sorted set
  local til = math.ceil((at + life) / ID_STEP) * ID_STEP
  redis.call('ZADD', key, ('%d'):format(til), id, ('%d'):format(til + ID_STEP - 1), hash_of(id) .. charged)
  while redis.call('ZCARD', key) > 2 * MAX_IDS do ids.forget(key, redis.call('ZRANGE', key, '0', '0')[1]) end
  keep(key, at - now + life)
end

-- prolong extends an id that is in force, so that it stays in force for a full life from now.
function ids.prolong(key, id, life)
  local _, repeats, til = ids.open(key, id, life)
  local longer = math.ceil((now + life) / ID_STEP) * ID_STEP
  if not til or longer <= til then return end
  local charged = charge_member(key, id, til)
  redis.call('ZADD', key, ('%d'):format(longer + repeats), id)
  if charged then redis.call('ZADD', key, ('%d'):format(longer + ID_STEP - 1), charged) end
  keep(key, life)
end

-- rebook replaces the charge that is stored for a known id.
function ids.rebook(key, id, charged)
  local score = redis.pcall('ZSCORE', key, id)
  if not score or type(score) == 'table' then return end
  local til = score - score % ID_STEP
  local old = charge_member(key, id, til)
  if old then redis.call('ZREM', key, old) end
  redis.call('ZADD', key, til + ID_STEP - 1, hash_of(id) .. charged)
end
