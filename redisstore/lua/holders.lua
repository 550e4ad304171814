-- holders: those of a concurrency limit, see docs/rules.md. They are a sorted set, scored by when
-- they lose their place. In a table they have key, cap, window, held, how many there are, and
-- stepped if the clock stepped back.

holders = {}

-- open reads the holders of a limit.
function holders.open(key, cap, window, looking)
  local c = { key = key, cap = cap, window = window, held = 0, stepped = false }
  local ahead = redis.pcall('ZCOUNT', key, ('%d'):format(now + window + 1), '+inf')
  if type(ahead) == 'table' then
    if not looking then redis.call('DEL', key) end -- it is no sorted set
    return c
  end
  c.held, c.stepped = redis.call('ZCOUNT', key, ('%d'):format(now + 1), '+inf'), ahead > 0
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

-- expiry is when the nth of the living holders to go loses its place.
local function expiry(c, n)
  local found = redis.call('ZRANGEBYSCORE', c.key, ('%d'):format(now + 1), '+inf', 'WITHSCORES', 'LIMIT',
    ('%d'):format(n - 1), '1')
  return math.min(tonumber(found[2]), now + c.window)
end

function holders.resets(c)
  if c.held == 0 then return 0 end
  return expiry(c, c.held) - now
end

function holders.fits(c, n) return c.cap > 0 and c.held - c.cap + math.min(n, 1) <= 0 end

-- earliest is when a request that does not fit does.
function holders.earliest(c, n)
  if c.cap == 0 then return NEVER end
  return math.max(now, expiry(c, c.held - c.cap + math.min(n, 1)))
end

-- hold gives the holder of an id a place from now on.
function holders.hold(c, id)
  holders.heal(c)
  redis.call('ZREMRANGEBYSCORE', c.key, '-inf', ('%d'):format(now))
  redis.call('ZADD', c.key, ('%d'):format(now + c.window), id)
  redis.call('PEXPIRE', c.key, ttl(c.window))
end

-- extend renews the place of a holder, or gives it back to one that has lost it if that may be.
function holders.extend(c, id, may_retake)
  local held = redis.call('ZSCORE', c.key, id)
  if (not held or tonumber(held) <= now) and not may_retake() then return false end
  holders.hold(c, id)
  return true
end

-- release removes a living holder. It reports whether there was one.
function holders.release(c, id)
  local held = redis.call('ZSCORE', c.key, id)
  if not held or tonumber(held) <= now then return false end
  holders.heal(c)
  redis.call('ZREM', c.key, id)
  return true
end
