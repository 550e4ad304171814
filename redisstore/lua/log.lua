-- sliding and fixed: a log of (stamp, units), see docs/rules.md.
--
-- The state is one string: a head, the newest entries (back, up to 8), the oldest
-- (front, up to 8, right-aligned), then a ring of blocks of 8 entries between
-- them, then bookings. A decision as a rule reads and writes the head and the two
-- ends only, however long the log: a block is read when the front is used up and
-- written when the back is full. The rest is in log_whole.lua.
--
--   head   'L', bytes per count, keep, entries in front, in back, first block,
--          blocks, block slots (1 byte each), bookings (2), last, kept, sum (7 each)
--   entry  stamp (7 bytes), units (bytes per count)

local LOG = 76
local HEAD, HEAD_FORMAT = 31, '>BBBBBBBBI2I7I7I7'
local RESOLUTION = 125    -- stint.Resolution

-- stamp is the instant from which a charge at t counts for a span.
local function stamp(l, t)
  if l.slice == 0 then return t end
  return t - t % l.slice + l.slice
end

local function log_empty(l)
  l.fresh, l.keep, l.kept, l.last, l.sum = true, l.times, now, now, 0
  l.nf, l.nb, l.blocks, l.slots, l.first = 0, 0, 0, 0, 0
  l.back, l.back_at = '', 1
end

local log_whole -- log_whole.lua

local made_log
local function log()
  if made_log then return made_log end
  local L = {}
  made_log = L

  -- open reads the ends of the log and drops what has left the window. Whatever
  -- needs more than the ends loads the whole.
  function L.open(l)
    local width = l.width
    local size = 7 + width
    local s = try('GETRANGE', l.key, 0, HEAD + 16 * size - 1)
    if s == '' then return log_empty(l) end
    if type(s) == 'table' or #s < HEAD or s:byte() ~= LOG then
      discard(l.key)
      return log_empty(l)
    end
    local _, stored, keep, nf, nb, first, blocks, slots, booked, last, kept, sum = unpack_at(HEAD_FORMAT, s)
    if stored ~= width or booked > 0 or now < last or nf > 8 or nb > 8 or blocks > slots
      or (l.times < keep and now - kept <= keep * l.base)
      or #s < HEAD + (nf > 0 and 16 or nb) * size then
      return log_whole().load(l)
    end
    local format, cut = l.format, now - l.span
    local front, front_at = s, HEAD + (16 - nf) * size + 1
    local back_at = HEAD + 1
    while true do
      if nf > 0 then
        local e, n = unpack_at(format, front, front_at)
        if e > cut then break end
        nf, front_at, sum = nf - 1, front_at + size, sum - n
      elseif blocks > 0 then
        local from = HEAD + (16 + first * 8) * size
        front, front_at = call('GETRANGE', l.key, from, from + 8 * size - 1), 1
        if #front < 8 * size then return log_whole().load(l) end
        nf, first, blocks, l.moved = 8, (first + 1) % slots, blocks - 1, true
      elseif nb > 1 then
        front, front_at, back_at = s, back_at, back_at + (nb - 1) * size
        nf, nb, l.moved = nb - 1, 1, true
      elseif nb == 1 and unpack_at(format, s, back_at) > cut then
        break
      else
        return log_empty(l)
      end
    end
    l.keep, l.kept, l.last, l.sum = l.times, now, now, sum
    l.nf, l.nb, l.first, l.blocks, l.slots = nf, nb, first, blocks, slots
    l.front, l.front_at, l.back, l.back_at = front, front_at, s, back_at
  end

  function L.used(l)
    if l.at then return log_whole().used(l) end
    return l.sum
  end

  -- reset is the time until nothing is used.
  function L.reset(l)
    if l.at then return log_whole().reset(l) end
    if l.sum == 0 then return 0 end
    return unpack_at('>I7', l.back, l.back_at + (l.nb - 1) * (7 + l.width)) + l.span - now
  end

  -- earliest is the first instant from t on at which cost more fit.
  function L.earliest(l, t, cost)
    if l.cap == 0 or cost > l.cap then return NEVER end
    if not l.at then
      local left, room, size = l.sum, l.cap - cost, 7 + l.width
      if left <= room then return t end
      for i = 0, l.nf - 1 do
        local e, n = unpack_at(l.format, l.front, l.front_at + i * size)
        if e > t - l.span then
          if left <= room then return t end
          t = e + l.span
        end
        left = left - n
      end
      if left <= room then return t end
      log_whole().load(l)
    end
    return log_whole().earliest(l, t, cost)
  end

  -- charge adds the cost at now.
  function L.charge(l)
    if l.at then return log_whole().charge(l) end
    local width, nb, format = l.width, l.nb, l.format
    local size, e, n = 7 + width, stamp(l, now), l.cost
    local back = ''
    if nb > 0 then
      local newest, units = unpack_at(format, l.back, l.back_at + (nb - 1) * size)
      if newest >= e then
        e, n, nb = newest, units + n, nb - 1
      elseif nb == 8 then
        local full = sub(l.back, l.back_at, l.back_at + 8 * size - 1)
        if l.nf == 0 and l.blocks == 0 then
          l.front, l.front_at, l.nf, l.moved = full, 1, 8, true
        elseif l.blocks < l.slots then
          call('SETRANGE', l.key, HEAD + (16 + (l.first + l.blocks) % l.slots * 8) * size, full)
          l.blocks = l.blocks + 1
        else
          log_whole().load(l)
          return log_whole().charge(l)
        end
        nb = 0
      end
      back = sub(l.back, l.back_at, l.back_at + nb * size - 1)
    end
    nb, back = nb + 1, back .. pack(format, e, n)
    l.sum = l.sum + l.cost
    local s = pack(HEAD_FORMAT, LOG, width, l.keep, l.nf, nb, l.first, l.blocks, l.slots, 0, now, l.kept, l.sum) .. back
    if l.moved then
      s = s .. rep('\0', (8 - nb + 8 - l.nf) * size) .. sub(l.front, l.front_at, l.front_at + l.nf * size - 1)
    end
    l.back, l.back_at, l.nb = back, 1, nb
    if l.fresh then
      call('SET', l.key, s, 'PX', ttl(e - now + l.span))
    else
      call('SETRANGE', l.key, 0, s)
      call('PEXPIRE', l.key, ttl(e - now + l.span))
    end
  end

  return L
end

-- log_limit derives what a limit means for its log. A fixed window is a log with
-- one slice per window and no span.
local function log_limit(l, fixed)
  local cap, width = l.cap, 1
  if cap > RESOLUTION then width = cap < 4294967296 and 4 or 7 end
  l.width, l.format = width, width == 1 and '>I7I1' or width == 4 and '>I7I4' or '>I7I7'
  if fixed then
    l.span, l.base, l.slice, l.most = 0, 0, l.window, 1
  else
    l.span, l.base, l.slice, l.most = l.times * l.window, l.window, 0, cap
    if cap > RESOLUTION then
      l.slice, l.most = ceil(l.span / RESOLUTION), RESOLUTION + 1
    end
  end
  l.of = log()
end
