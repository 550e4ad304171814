-- holders keeps the holders of a concurrency limit. See docs/rules.md. They are a sorted set,
-- scored by the time at which they lose their place. The table c of a limit has these fields:
--
--   key, cap, window
--   held              number of holders
--   gone              number of former holders that have lost their place
--   resets            time until the last holder loses its place
--   stepped           true if the clock stepped back

local holders = { open = nil, heal = nil, earliest = nil, release = nil, hold = nil } -- preallocate the fields

function holders.open(key, cap, window, looking)
  local c = { key = key, cap = cap, window = window, held = 0, gone = 0, resets = 0, stepped = false }
  local last = redis.pcall('ZRANGE', key, '-1', '-1', 'WITHSCORES')
  if last.err then
    if not looking then redis.call('DEL', key) end -- not a sorted set
  elseif last[2] then
    local left = math.max(0, tonumber(last[2]) - now)
    c.resets, c.stepped = math.min(left, window), left > window
    c.gone = redis.call('ZCOUNT', key, '-inf', ('%d'):format(now))
    c.held = redis.call('ZCARD', key) - c.gone
  end
  return c
end

-- heal shortens places that would last longer than a window because the clock stepped back.
function holders.heal(c)
  if not c.stepped then return end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', c.key, now + c.window + 1, '+inf')) do
    redis.call('ZADD', c.key, now + c.window, id)
  end
  c.stepped = false
end

-- earliest returns the instant at which a request fits: now, or when enough current holders have
-- lost their places.
function holders.earliest(c, n)
  if c.cap == 0 then return NEVER end
  local gone = c.held - c.cap + math.min(n, 1)
  if gone <= 0 then return now end
  local found = redis.call('ZRANGEBYSCORE', c.key, ('(%d'):format(now), '+inf', 'WITHSCORES', 'LIMIT',
    ('%d'):format(gone - 1), '1')
  return math.max(now, math.min(tonumber(found[2]), now + c.window))
end

-- clean heals c, and removes holders that have lost their places. Call it before every change.
local function clean(c)
  holders.heal(c)
  if c.gone > 0 then redis.call('ZREMRANGEBYSCORE', c.key, '-inf', ('%d'):format(now)) end
end

function holders.release(c, id)
  clean(c)
  redis.call('ZREM', c.key, id)
end

-- hold gives an id a place for a window from now.
function holders.hold(c, id)
  clean(c)
  redis.call('ZADD', c.key, ('%d'):format(now + c.window), id)
  redis.call('PEXPIRE', c.key, ttl(c.window))
  c.held, c.resets = c.held + 1, c.window
end
