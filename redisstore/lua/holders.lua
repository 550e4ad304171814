-- holders keeps the holders of a concurrency limit, see docs/rules.md. They are a sorted set,
-- scored by when they lose their place. The table c of a limit has key, cap and window; held, the
-- number of holders; gone, that of those who have lost their place; resets, the time until the last
-- one goes; and stepped, true if the clock stepped back.

local holders = { open = nil, heal = nil, earliest = nil, release = nil, hold = nil } -- with room for these

-- open reads the holders of a limit.
function holders.open(key, cap, window, looking)
  local c = { key = key, cap = cap, window = window, held = 0, gone = 0, resets = 0, stepped = false }
  local last = redis.pcall('ZRANGE', key, '-1', '-1', 'WITHSCORES')
  if last.err then
    if not looking then redis.call('DEL', key) end -- it is no sorted set
  elseif last[2] then
    local left = math.max(0, tonumber(last[2]) - now)
    c.resets, c.stepped = math.min(left, window), left > window
    c.gone = redis.call('ZCOUNT', key, '-inf', ('%d'):format(now)) -- those who hold can be many more
    c.held = redis.call('ZCARD', key) - c.gone
  end
  return c
end

-- heal takes the time that the clock stepped back from those who would hold for longer than a
-- window.
function holders.heal(c)
  if not c.stepped then return end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', c.key, now + c.window + 1, '+inf')) do
    redis.call('ZADD', c.key, now + c.window, id)
  end
  c.stepped = false
end

-- earliest is when a request fits: now, or when so many of the living have gone.
function holders.earliest(c, n)
  if c.cap == 0 then return NEVER end
  local gone = c.held - c.cap + math.min(n, 1)
  if gone <= 0 then return now end
  local found = redis.call('ZRANGEBYSCORE', c.key, ('(%d'):format(now), '+inf', 'WITHSCORES', 'LIMIT',
    ('%d'):format(gone - 1), '1')
  return math.max(now, math.min(tonumber(found[2]), now + c.window))
end

-- clean does what comes before every change: it also removes those who have lost their place.
local function clean(c)
  holders.heal(c)
  if c.gone > 0 then redis.call('ZREMRANGEBYSCORE', c.key, '-inf', ('%d'):format(now)) end
end

-- release takes the place of an id away.
function holders.release(c, id)
  clean(c)
  redis.call('ZREM', c.key, id)
end

-- hold gives the holder of an id a place from now on.
function holders.hold(c, id)
  clean(c)
  redis.call('ZADD', c.key, ('%d'):format(now + c.window), id)
  redis.call('PEXPIRE', c.key, ttl(c.window))
  c.held, c.resets = c.held + 1, c.window
end
