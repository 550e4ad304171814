-- bucket: a meter that rises by unit per token and leaks rate per microsecond, see
-- docs/rules.md.
--
-- The state is one string: 'B' (1 byte), bookings (2), used, last, unit (7 each),
-- then the bookings.

local BUCKET = 66
local BUCKET_HEAD, BUCKET_FORMAT = 24, '>BI2I7I7I7'

local M = {}

local function leak(used, rate, micros)
  if micros >= ceil(used / rate) then return 0 end
  return used - micros * rate
end

-- decode reads the stored state, brought back if the clock stepped back, and returns
-- level, last and unit; nil if there is no state.
local function decode_bucket(l)
  local s = try('GET', l.key)
  if not s then return end
  if type(s) == 'table' or #s < BUCKET_HEAD or s:byte() ~= BUCKET then return discard(l.key) end
  local _, booked, level, last, unit = unpack_at(BUCKET_FORMAT, s)
  if #s ~= BUCKET_HEAD + booked * B.SIZE or unit == 0 then return discard(l.key) end
  B.decode(l, s, BUCKET_HEAD + 1, booked)
  if now < last then
    B.shift(l, last - now)
    last, l.stepped = now, true
  end
  return level, last, unit
end

function M.open(l)
  l.level, l.booked_at, l.booked_n = 0, {}, {}
  if l.cap == 0 then return end
  local level, last, unit = decode_bucket(l)
  if not level then return end
  if unit ~= l.unit then
    level = min(ceil(level / unit), floor(UNITS / l.unit)) * l.unit
  end
  local t, n = B.due(l)
  while t do
    level, last = leak(level, l.rate, t - last) + n * l.unit, t
    t, n = B.due(l)
  end
  l.level = min(leak(level, l.rate, now - last), UNITS)
end

function M.used(l)
  if l.cap == 0 then return 0 end
  return ceil(l.level / l.unit) + B.units(l)
end

-- reset is the time until the meter, led through all bookings, is empty.
function M.reset(l)
  if l.cap == 0 then return 0 end
  local t, level = now, l.level
  for i = 1, #l.booked_at do
    level = leak(level, l.rate, l.booked_at[i] - t) + l.booked_n[i] * l.unit
    t = l.booked_at[i]
  end
  return t + ceil(level / l.rate) - now
end

function M.earliest(l, from, cost)
  if l.cap == 0 or cost > l.cap then return NEVER end
  local unit, rate, at, n = l.unit, l.rate, l.booked_at, l.booked_n
  local full, weight = l.cap * unit, cost * unit
  local t, level, i = now, l.level, 1
  local function pass() -- the next booking
    level = leak(level, rate, at[i] - t) + n[i] * unit
    t, i = at[i], i + 1
  end
  while at[i] and at[i] <= from do pass() end
  level, t = leak(level, rate, from - t), from
  while true do
    local wait = max(0, ceil((level - (full - weight)) / rate))
    if at[i] and at[i] <= t + wait then
      pass()
    else
      -- There is room at t + wait; is there still at every later booking?
      local meter, s, clash = leak(level, rate, wait) + weight, t + wait, nil
      for j = i, #at do
        meter = leak(meter, rate, at[j] - s) + n[j] * unit
        s = at[j]
        if meter > full then
          clash = j
          break
        end
      end
      if not clash then return t + wait end
      while i <= clash do pass() end
    end
  end
end

function M.save(l)
  l.stepped = false
  local s = pack(BUCKET_FORMAT, BUCKET, #l.booked_at, l.level, now, l.unit) .. B.encode(l)
  local refill = ceil(l.cap * l.unit / l.rate)
  call('SET', l.key, s, 'PX', max(ceil(2 * refill / 1000), ttl(M.reset(l))))
end

-- heal writes the state as it was, but brought back.
function M.heal(l)
  local level, last, unit = decode_bucket(l)
  local s = pack(BUCKET_FORMAT, BUCKET, #l.booked_at, level, last, unit) .. B.encode(l)
  call('SET', l.key, s, 'PX', ttl(2 * ceil(level / l.rate) + M.reset(l)))
end

function M.charge(l)
  l.level = l.level + l.cost * l.unit
  M.save(l)
end

function M.reserve(l, t)
  B.add(l, t, l.cost)
  M.save(l)
end

-- give_back lets the meter fall by up to n units. It reports whether it was not empty.
function M.give_back(l, n)
  if l.level == 0 then return false end
  l.level = l.level - min(l.level, n * l.unit)
  M.save(l)
  return true
end

function M.settle(l, t, delta)
  if l.cap == 0 then return false end
  if t > now then
    if delta > 0 and l.level + (B.units(l) + delta) * l.unit > UNITS then return false end
    if not B.settle(l, t, delta) then return false end
  elseif leak(l.cost * l.unit, l.rate, now - t) == 0 then
    return false
  elseif delta < 0 then
    -- What has been refilled since the charge is not given back a second time.
    l.level = l.level - min(l.level, leak(-delta * l.unit, l.rate, now - t))
  else
    if l.level + delta * l.unit > UNITS then return false end
    l.level = l.level + delta * l.unit
  end
  M.save(l)
  return true
end
