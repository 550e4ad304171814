-- sliding and fixed: a log of (stamp, units), see docs/rules.md.
--
-- The state is one string: a head, the newest entries (back, up to 8), the oldest
-- (front, up to 8, right-aligned), then a ring of blocks of 8 entries between
-- them, then bookings. A decision as a rule reads and writes the head and the two
-- ends only, however long the log: a block is read when the front is used up and
-- written when the back is full. What needs more is in log_whole.lua.
--
--   head   'L', bytes per count, keep, entries in front, in back, first block,
--          blocks, block slots (1 byte each), bookings (2), last, kept, sum (7 each)
--   entry  stamp (7 bytes), units (bytes per count)
--
-- For speed, arguments of commands are strings where they can be (Redis formats
-- numbers as floats), and l is made in one go, with no more than 16 fields.

local HEAD, HEAD_FORMAT = 31, '>BBBBBBBBI2I7I7I7'

-- log_open reads the ends of the log under key, drops what has left the window and
-- returns the limit l: what it says, how many entries its front and back hold, its
-- ring, the sum of its units, and s, the ends as read (nil if there is no log).
-- After moving, l.moved says where front and back are instead.
-- A fixed window is a log with one slice per window and no span.
local function log_open(key, cost, cap, window, times, fixed)
  local span, slice, width, upto = times * window, 0, 1, '158'
  if cap > 125 then -- stint.Resolution
    slice = math.ceil(span / 125)
    if cap < 4294967296 then width, upto = 4, '206' else width, upto = 7, '254' end
  end
  if fixed then span, slice = 0, window end
  local s = try('GETRANGE', key, '0', upto)
  local sum, nf, nb, first, blocks, slots, moved, odd = 0, 0, 0, 0, 0, 0, nil, false
  if s ~= '' then
    if type(s) == 'table' or #s < HEAD or s:byte() ~= 76 then
      rest().discard(key)
      s = ''
    else
      local size, _, stored, keep, booked, last, kept = 7 + width
      _, stored, keep, nf, nb, first, blocks, slots, booked, last, kept, sum = unpack_at(HEAD_FORMAT, s)
      odd = stored ~= width or booked > 0 or now < last or nf > 8 or nb > 8 or blocks > slots
        or (times < keep and now - kept <= keep * window)
        or #s < HEAD + (nf > 0 and 16 or nb) * size
      local format, cut = width == 1 and '>I7I1' or width == 4 and '>I7I4' or '>I7I7', now - span
      local front, at = s, HEAD + (16 - nf) * size + 1
      while not odd do
        if nf > 0 then
          local e, n = unpack_at(format, front, at)
          if e > cut then break end
          nf, at, sum = nf - 1, at + size, sum - n
          if moved then moved.at = at end
        elseif blocks > 0 then
          local from = HEAD + (16 + first * 8) * size
          front, at = call('GETRANGE', key, from, from + 8 * size - 1), 1
          moved = { front = front, at = at, back_at = HEAD + 1 }
          odd = #front < 8 * size
          nf, first, blocks = 8, (first + 1) % slots, blocks - 1
        elseif nb > 1 then
          front, at = s, HEAD + 1
          moved = { front = front, at = at, back_at = HEAD + 1 + (nb - 1) * size }
          nf, nb = nb - 1, 1
        elseif nb == 1 and unpack_at(format, s, moved and moved.back_at or HEAD + 1) > cut then
          break
        else
          s, sum, nb, first, slots, moved = '', 0, 0, 0, 0, nil
          break
        end
      end
    end
  end
  local l = {
    key = key, cost = cost, cap = cap, times = times, claim = 0, retry = 0,
    span = span, slice = slice, width = width, s = s,
    sum = sum, nf = nf, nb = nb, first = first, blocks = blocks, slots = slots,
  }
  if moved then l.moved = moved end
  if odd then rest().log.load(l) end
  return l
end

-- log_earliest is the first instant from t on at which cost more fit, −1 for never.
local function log_earliest(l, t, cost)
  local cap, left = l.cap, l.sum
  if cap == 0 or cost > cap then return -1 end
  if not l.at then
    local room = cap - cost
    if left <= room then return t end
    local span, width, nf, front, at = l.span, l.width, l.nf, l.s, nil
    if l.moved then front, at = l.moved.front, l.moved.at else at = HEAD + (16 - nf) * (7 + width) + 1 end
    local format = width == 1 and '>I7I1' or width == 4 and '>I7I4' or '>I7I7'
    for i = 0, nf - 1 do
      local e, n = unpack_at(format, front, at + i * (7 + width))
      if e > t - span then
        if left <= room then return t end
        t = e + span
      end
      left = left - n
    end
    if left <= room then return t end
    rest().log.load(l)
  end
  return rest().log.earliest(l, t, cost)
end

-- log_charge adds the cost at now.
local function log_charge(l)
  if l.at then return rest().log.charge(l) end
  local width, nb, slice, n, s, moved = l.width, l.nb, l.slice, l.cost, l.s, l.moved
  local size, e, back, back_at = 7 + width, now, '', moved and moved.back_at or HEAD + 1
  local format = width == 1 and '>I7I1' or width == 4 and '>I7I4' or '>I7I7'
  if slice > 0 then e = now - now % slice + slice end
  if nb > 0 then
    local newest, units = unpack_at(format, s, back_at + (nb - 1) * size)
    if newest >= e then
      e, n, nb = newest, units + n, nb - 1
    elseif nb == 8 then
      local full = s:sub(back_at, back_at + 8 * size - 1)
      if l.nf == 0 and l.blocks == 0 then
        moved = { front = full, at = 1 }
        l.nf = 8
      elseif l.blocks < l.slots then
        call('SETRANGE', l.key, HEAD + (16 + (l.first + l.blocks) % l.slots * 8) * size, full)
        l.blocks = l.blocks + 1
      else
        rest().log.load(l)
        return rest().log.charge(l)
      end
      nb = 0
    end
    if nb > 0 then back = s:sub(back_at, back_at + nb * size - 1) end
  end
  l.sum, l.nb = l.sum + l.cost, nb + 1
  local written = pack(HEAD_FORMAT, 76, width, l.times, l.nf, nb + 1, l.first, l.blocks, l.slots, 0, now, now, l.sum)
    .. back .. pack(format, e, n)
  if moved then
    written = written .. ('\0'):rep((15 - nb - l.nf) * size) .. moved.front:sub(moved.at, moved.at + l.nf * size - 1)
    l.moved = nil
  end
  local ttl = ('%d'):format(math.ceil((e - now + l.span) / 1000) + 1000)
  if s == '' then
    call('SET', l.key, written, 'PX', ttl)
  else
    call('SETRANGE', l.key, '0', written)
    call('PEXPIRE', l.key, ttl)
  end
  l.s = written
end
