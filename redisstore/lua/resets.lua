-- resets records the resets of concurrency limits in the sorted set of the scope's settled charges.
-- The member for a limit is scored by the time of the reset plus 2^52. No charge has a higher
-- score. So when amend.lua drops the member with the lowest score, it drops charges first.

-- note_reset records a reset of a limit, and keeps the record for a window.
local function note_reset(settled, limit, window)
  if type(redis.pcall('ZSCORE', settled, 'reset ' .. limit)) == 'table' then redis.call('DEL', settled) end
  redis.call('ZADD', settled, now + MAX_UNITS / 2, 'reset ' .. limit)
  keep(settled, window)
end

-- was_reset reports whether a charge made at the time `at` was lost in a reset less than a window
-- ago.
local function was_reset(settled, limit, window, at)
  local noted = redis.pcall('ZSCORE', settled, 'reset ' .. limit)
  if not noted or type(noted) == 'table' then return false end
  noted = noted - MAX_UNITS / 2
  return at <= noted and noted <= now and now < noted + window
end

-- announce publishes on the channel <prefix>:room that the subject of a key may have room again
-- (the mark '+'), or was reset, banned or unbanned ('!'). The message is the mark, then the subject
-- as it is in keys. Without the permission to publish, announce does nothing.
local function announce(key, mark)
  local prefix, subject = key:match('^(.-){(.-)}')
  redis.pcall('PUBLISH', prefix .. 'room', mark .. subject)
end
