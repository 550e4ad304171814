-- concurrency: a sorted set of holders, scored by when they lose their place, see
-- docs/rules.md.

local H = {}
R.holders = H

function H.open(l)
  local ahead = try('ZRANGEBYSCORE', l.key, now + l.window + 1, '+inf')
  l.held = 0
  if ahead.err then return R.discard(l.key) end
  if not looking then
    for _, id in ipairs(ahead) do -- the clock has stepped back
      call('ZADD', l.key, now + l.window, id)
    end
    call('ZREMRANGEBYSCORE', l.key, '-inf', now)
  end
  l.held = call('ZCOUNT', l.key, now + 1, '+inf')
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

-- charge gives the holder a place, or renews it.
function H.charge(l, id)
  call('ZADD', l.key, now + l.window, id)
  call('PEXPIRE', l.key, ttl(l.window))
  l.held = l.held + 1
end

function H.extend(l, id)
  if not call('ZSCORE', l.key, id) then return false end
  H.charge(l, id)
  return true
end

function H.release(l, id)
  return call('ZREM', l.key, id) == 1
end

-- settle gives the place back if the true cost is nothing.
function H.settle(l, _, delta, id)
  return delta == -l.cost and H.release(l, id)
end
