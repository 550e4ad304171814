-- concurrency: a sorted set of holders, scored by when they lose their place, see
-- docs/rules.md.

local H = {}

function H.open(l)
  l.held = 0
  local ahead = try('ZCOUNT', l.key, now + l.window + 1, '+inf')
  if type(ahead) == 'table' then return discard(l.key) end
  l.held = call('ZCOUNT', l.key, now + 1, '+inf')
  l.stepped = ahead > 0
end

-- heal takes the time that the clock stepped back from those who would hold for
-- longer than a window.
function H.heal(l)
  for _, id in ipairs(call('ZRANGEBYSCORE', l.key, now + l.window + 1, '+inf')) do
    call('ZADD', l.key, now + l.window, id)
  end
  l.stepped = false
end

-- expiry is when the nth of the living holders to go loses its place.
local function expiry(l, n)
  local found = call('ZRANGEBYSCORE', l.key, now + 1, '+inf', 'WITHSCORES', 'LIMIT', n - 1, 1)
  return min(tonumber(found[2]), now + l.window)
end

function H.used(l) return l.held end

function H.reset(l)
  if l.held == 0 then return 0 end
  return expiry(l, l.held) - now
end

function H.earliest(l, from, cost)
  if l.cap == 0 then return NEVER end
  local leave = l.held - l.cap + min(cost, 1)
  if leave <= 0 then return from end
  return max(from, expiry(l, leave))
end

-- hold gives the holder a place from now on.
local function hold(l, id)
  H.heal(l)
  call('ZREMRANGEBYSCORE', l.key, '-inf', now)
  call('ZADD', l.key, now + l.window, id)
  call('PEXPIRE', l.key, ttl(l.window))
end

function H.charge(l, _, id)
  hold(l, id)
  l.held = l.held + 1
end

-- extend renews the place of a holder that has not lost it.
function H.extend(l, id)
  local held = call('ZSCORE', l.key, id)
  if not held or tonumber(held) <= now then return false end
  hold(l, id)
  return true
end

function H.release(l, id)
  local held = call('ZSCORE', l.key, id)
  if not held or tonumber(held) <= now then return false end
  H.heal(l)
  call('ZREM', l.key, id)
  return true
end

-- settle gives the place back if the true cost is nothing.
function H.settle(l, _, delta, id)
  return delta == -l.cost and H.release(l, id)
end
