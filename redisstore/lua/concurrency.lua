-- concurrency: the holders of a concurrency limit, see docs/rules.md. They are a sorted set, scored
-- by when they lose their place. The verbs in H are those of other limits.

local H = {}

-- open_holders reads the holders of a limit.
local function open_holders(key, cap, window, cost)
  local l = { of = H, key = key, cap = cap, window = window, cost = cost, held = 0 }
  local ahead = try('ZCOUNT', key, now + window + 1, '+inf')
  if type(ahead) == 'table' then
    discard(key)
    return l
  end
  l.held = call('ZCOUNT', key, now + 1, '+inf')
  l.stepped = ahead > 0
  return l
end
G.open_holders = open_holders

-- heal_holders takes the time that the clock stepped back from those who would hold for
-- longer than a window.
local function heal_holders(l)
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

function H.fits(l, n) return l.cap > 0 and l.held - l.cap + min(n, 1) <= 0 end

function H.earliest(l, from, n)
  if l.cap == 0 then return NEVER end
  local leave = l.held - l.cap + min(n, 1)
  if leave <= 0 then return from end
  return max(from, expiry(l, leave))
end

-- hold gives the holder a place from now on.
local function hold(l, id)
  heal_holders(l)
  call('ZREMRANGEBYSCORE', l.key, '-inf', now)
  call('ZADD', l.key, now + l.window, id)
  call('PEXPIRE', l.key, ttl(l.window))
end

function H.charge(l, _, id)
  hold(l, id)
  l.held = l.held + 1
end

-- extend renews the place of a holder, or gives it back to one that has lost it if that may be.
function H.extend(l, id, may_retake)
  local held = call('ZSCORE', l.key, id)
  if (not held or tonumber(held) <= now) and not may_retake() then return false end
  hold(l, id)
  return true
end

-- Resets are noted in the scope's settled charges: the limit, or how the key of the state ends,
-- scored by the time and 2^52, so that none of the charges is above it.

local function reset_of(limit) return 'reset ' .. limit end

-- note_reset notes a reset of a limit for a window, or of a state for LATE_SETTLE.
function G.note_reset(settled, limit, window)
  if type(try('ZSCORE', settled, reset_of(limit))) == 'table' then discard(settled) end
  call('ZADD', settled, now + MAX_UNITS / 2, reset_of(limit))
  call('PEXPIRE', settled, max(call('PTTL', settled), ttl(window)))
end

-- was_reset reports whether what was charged at an instant was lost in a reset less than a window
-- ago.
function G.was_reset(settled, limit, window, at)
  local noted = try('ZSCORE', settled, reset_of(limit))
  if not noted or type(noted) == 'table' then return false end
  noted = tonumber(noted) - MAX_UNITS / 2
  return at <= noted and noted <= now and now < noted + window
end

function H.release(l, id)
  local held = call('ZSCORE', l.key, id)
  if not held or tonumber(held) <= now then return false end
  heal_holders(l)
  call('ZREM', l.key, id)
  return true
end
