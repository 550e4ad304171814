-- sliding and fixed: a log of (stamp, units), see docs/rules.md. Here it is read and
-- written as a whole, in the lists l.at and l.n. decide.lua reads and writes its ends
-- only, where they tell enough: without bookings, leases, settlements, clocks that
-- stepped back or limits that changed.
--
-- The state is one string: a head, the newest entries (back, up to 8), the oldest
-- (front, up to 8, right-aligned), then a ring of blocks of 8 entries between them,
-- then bookings:
--
--   head   'L', bytes per count, keep, entries in front, in back, first block,
--          blocks, block slots (1 byte each), bookings (2), last, kept, sum and
--          when the key expires (7 each)
--   entry  stamp (7 bytes), units (bytes per count)

local HEAD, HEAD_FORMAT = 38, '>BBBBBBBBI2I7I7I7I7'
local RESOLUTION = 125    -- stint.Resolution
local ENTRIES = 250       -- the most that mixed limits can leave behind

local W = {}

-- stamp is the instant from which a charge at t counts for a span.
local function stamp(l, t)
  if l.slice == 0 then return t end
  return t - t % l.slice + l.slice
end

-- reach is how long after its stamp an entry is kept.
local function reach(l)
  return l.fixed and 0 or l.keep * l.window
end

-- slots_for is how many blocks the ring needs room for: twice what there are, but
-- no more than the limit can fill.
local function slots_for(l, blocks)
  if blocks == 0 then return 0 end
  local most = l.fixed and 1 or min(l.cap, RESOLUTION + 1)
  return max(blocks, min(floor((most - 1) / 8), max(2, blocks * 2)))
end

local function append(l, e, n)
  local at, units = l.at, l.n
  local q = #at
  while q > 0 and at[q] > e do q = q - 1 end
  if q > 0 and at[q] == e then
    units[q] = units[q] + n
  else
    insert(at, q + 1, e)
    insert(units, q + 1, n)
    if #at > ENTRIES then
      units[2] = units[2] + units[1]
      remove(at, 1)
      remove(units, 1)
    end
  end
  l.sum = l.sum + n
end

-- decode reads the stored state into the lists, brought back if the clock stepped
-- back, and returns keep and kept; nil if there is no state.
local function decode(l)
  l.at, l.n, l.booked_at, l.booked_n = {}, {}, {}, {}
  local s = try('GET', l.key)
  if not s then return end
  if type(s) == 'table' or #s < HEAD or s:byte() ~= 76 then return discard(l.key) end
  local _, width, keep, nf, nb, first, blocks, slots, booked, last, kept = unpack_at(HEAD_FORMAT, s)
  local size = 7 + width
  local ends, ring = HEAD + 16 * size, slots * 8 * size
  local whole = nf > 0 or slots > 0 or booked > 0
  if (width ~= 1 and width ~= 4 and width ~= 7) or nf > 8 or nb > 8 or blocks > slots
    or #s < (whole and ends + ring + booked * B.SIZE or HEAD + nb * size) then
    return discard(l.key)
  end
  local at, units, format = l.at, l.n, '>I7I' .. width
  local function entries(from, count)
    for i = 0, count - 1 do
      at[#at + 1], units[#units + 1] = unpack_at(format, s, from + i * size)
    end
  end
  entries(HEAD + (16 - nf) * size + 1, nf)
  for i = 0, blocks - 1 do entries(ends + (first + i) % slots * 8 * size + 1, 8) end
  entries(HEAD + 1, nb)
  B.decode(l, s, ends + ring + 1, booked)
  l.sum = 0
  for i = 1, #units do l.sum = l.sum + units[i] end
  local behind = last - now
  if behind > 0 then
    for i = 1, #at do at[i] = at[i] - behind end
    B.shift(l, behind)
    kept, l.stepped = kept - behind, true
  end
  return keep, kept
end

-- derive sets what a limit means for its log: a fixed window has one slice per
-- window and no span.
local function derive(l)
  local cap = l.cap
  l.span, l.slice, l.width = l.times * l.window, 0, 1
  if cap > RESOLUTION then
    l.slice, l.width = ceil(l.span / RESOLUTION), cap < 4294967296 and 4 or 7
  end
  if l.fixed then l.span, l.slice = 0, l.window end
end

function W.open(l)
  derive(l)
  l.keep, l.kept = decode(l)
  if not l.keep then
    l.keep, l.kept, l.sum = l.times, now, 0
    return
  end
  local cut = now - reach(l)
  if l.times >= l.keep or now - l.kept > reach(l) then l.keep, l.kept = l.times, now end
  cut = max(cut, now - reach(l))
  local t, n = B.due(l)
  while t do
    append(l, stamp(l, t), n)
    t, n = B.due(l)
  end
  local live = {}
  local at, units = l.at, l.n
  l.at, l.n = live, {}
  for i = 1, #at do
    if at[i] > cut then
      live[#live + 1], l.n[#live + 1] = at[i], units[i]
    else
      l.sum = l.sum - units[i]
    end
  end
  if #live + #l.booked_at == 0 then l.keep, l.kept = l.times, now end
end

function W.save(l)
  local at, units, booked = l.at, l.n, #l.booked_at
  local q, width = #at, l.width
  l.stepped = false
  if q + booked == 0 then return call('DEL', l.key) end
  for i = 1, q do
    while units[i] >= 256 ^ width do width = width == 1 and 4 or 7 end
  end
  local size, format, encoded = 7 + width, '>I7I' .. width, {}
  for i = 1, q do encoded[i] = pack(format, at[i], units[i]) end
  local nb, nf = min(q, 1), max(0, q - 1) % 8
  local blocks = (q - nb - nf) / 8
  local slots = slots_for(l, blocks)
  local newest = max(at[q] or 0, booked > 0 and stamp(l, l.booked_at[booked]) or 0)
  local life = newest - now + max(l.span, reach(l))
  local body = {
    pack(HEAD_FORMAT, 76, width, l.keep, nf, nb, 0, blocks, slots, booked, now, l.kept, l.sum, now + life + 1000000),
    encoded[q] or '',
  }
  if nf > 0 or slots > 0 or booked > 0 then
    body[3] = rep('\0', (16 - nb - nf) * size)
    body[4] = concat(encoded, '', 1, nf + blocks * 8)
    body[5] = rep('\0', (slots - blocks) * 8 * size)
    body[6] = B.encode(l)
  end
  call('SET', l.key, concat(body), 'PX', ttl(life))
end

-- heal writes the state as it was, but brought back.
function W.heal(l)
  l.keep, l.kept = decode(l)
  W.save(l)
end

function W.used(l)
  local used, cut, i = l.sum + B.units(l), now - l.span, 1
  while l.at[i] and l.at[i] <= cut do
    used = used - l.n[i]
    i = i + 1
  end
  return used
end

-- reset is the time until nothing is used.
function W.reset(l)
  if W.used(l) == 0 then return 0 end
  local booked = #l.booked_at
  local newest = max(l.at[#l.at] or 0, booked > 0 and stamp(l, l.booked_at[booked]) or 0)
  return max(0, newest + l.span - now)
end

-- beside is earliest with bookings in the way.
local function beside(l, t, cost)
  local at, units, booked_at, booked_n, span = l.at, l.n, l.booked_at, l.booked_n, l.span
  local room = l.cap - cost
  -- The units in the window: how many entries have left it, how many bookings are
  -- due, and how many of those have left.
  local inside, left, due, past
  local function start() inside, left, due, past = l.sum, 0, 0, 0 end
  local function move(to)
    while booked_at[due + 1] and booked_at[due + 1] <= to do
      due = due + 1
      inside = inside + booked_n[due]
    end
    while at[left + 1] and at[left + 1] <= to - span do
      left = left + 1
      inside = inside - units[left]
    end
    while past < due and stamp(l, booked_at[past + 1]) <= to - span do
      past = past + 1
      inside = inside - booked_n[past]
    end
  end
  local full, next_full = {}, 1 -- the bookings at which cost more do not fit
  start()
  for i = 1, #booked_at do
    move(booked_at[i])
    if inside > room then full[#full + 1] = booked_at[i] end
  end
  start()
  while true do
    move(t)
    while full[next_full] and full[next_full] <= t do next_full = next_full + 1 end
    if inside > room then
      local entry, booking = at[left + 1], past < due and stamp(l, booked_at[past + 1])
      t = min(entry or booking, booking or entry) + span
    elseif full[next_full] and full[next_full] - span < stamp(l, t) then
      t = full[next_full]
    else
      return t
    end
  end
end

-- earliest is the first instant from t on at which cost more fit.
function W.earliest(l, t, cost)
  if l.cap == 0 or cost > l.cap then return NEVER end
  if #l.booked_at > 0 then return beside(l, t, cost) end
  local left, room = l.sum, l.cap - cost
  for i = 1, #l.at do
    if l.at[i] > t - l.span then
      if left <= room then return t end
      t = l.at[i] + l.span
    end
    left = left - l.n[i]
  end
  return t
end

-- charge adds the cost at t: now, or the end of a lease.
function W.charge(l, t)
  append(l, stamp(l, t), l.cost)
  W.save(l)
end

-- reserve books the cost at t, which lies ahead.
function W.reserve(l, t)
  B.add(l, t, l.cost)
  W.save(l)
end

-- give_back takes up to n units off the entries in the window, the oldest first, but
-- not off those that lie ahead. It reports whether there were any.
function W.give_back(l, n)
  local at, units, first, ahead, left = l.at, l.n, 1, stamp(l, now), n
  while at[first] and at[first] <= now - l.span do first = first + 1 end
  while left > 0 and at[first] and at[first] <= ahead do
    local back = min(left, units[first])
    left, l.sum, units[first] = left - back, l.sum - back, units[first] - back
    if units[first] == 0 then
      remove(at, first)
      remove(units, first)
    end
  end
  if left == n then return false end
  W.save(l)
  return true
end

-- settle changes the charge made at t by delta units if it is in the window.
function W.settle(l, t, delta)
  if delta > 0 and l.sum + B.units(l) + delta > UNITS then return false end
  if t > now and B.settle(l, t, delta) then
    W.save(l)
    return true
  end
  local e = stamp(l, t)
  if e <= now - l.span then return false end
  for i = #l.at, 1, -1 do
    if l.at[i] == e then
      local n = max(0, l.n[i] + delta)
      l.n[i], l.sum = n, l.sum + n - l.n[i]
      if n == 0 then
        remove(l.at, i)
        remove(l.n, i)
      end
      W.save(l)
      return true
    end
  end
  return false
end
