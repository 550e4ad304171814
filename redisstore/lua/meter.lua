-- meter: that of one limit, see docs/rules.md. l.level, as of l.at, rises by l.unit per unit and
-- falls by l.rate per l.tick.

-- leak returns the level at t, given that at another instant. After a step back of the clock that
-- may be later: a booking that had come by then is before it.
local function leak(l, level, at, t)
  if t <= at then return level end
  return max(0, level - (floor(t / l.tick) - floor(at / l.tick)) * l.rate)
end

-- falls_to is when a level at t has fallen to what is given as room.
local function falls_to(l, level, t, room)
  if level <= room then return t end
  return (floor(t / l.tick) + ceil((level - room) / l.rate)) * l.tick
end

-- lead returns level and instant of the meter, led through all bookings. That is remembered with
-- them, for there may be many: l.led is { level, at, rate }.
local function lead(l)
  if l.led and l.led[3] == l.rate then return l.led[1], l.led[2] end
  local level, at, i = l.level, l.at, 0
  local t, _, n = booking(l, 0)
  while t do
    level, at, i = min(MAX_UNITS, leak(l, level, at, t) + n * l.unit), max(at, t), i + 1
    t, _, n = booking(l, i)
  end
  l.led = { level, at, l.rate }
  return level, at
end

-- convert_meter follows a limit whose Max has changed.
local function convert_meter(l, unit)
  if l.stored_unit ~= unit then
    l.level, l.led, l.stored_unit = min(ceil(l.level / l.stored_unit), floor(MAX_UNITS / unit)) * unit, nil, unit
  end
end

-- meter_fits reports whether n more fit now, beside all that is booked.
local function meter_fits(l, n)
  local full, level, at, i = l.cap * l.unit, l.level + n * l.unit, now, 0
  if l.level > full - n * l.unit then return false end
  local t, _, units = booking(l, 0)
  while t do
    level = leak(l, level, at, t)
    if level == 0 then return true end -- what is taken now is forgotten by then
    if units * l.unit > full - level then return false end
    level, at, i = level + units * l.unit, t, i + 1
    t, _, units = booking(l, i)
  end
  return true
end

-- meter_earliest is the first instant from t on at which n more fit; t is not before the last
-- booking.
local function meter_earliest(l, t, n)
  local level, at = lead(l)
  return falls_to(l, leak(l, level, at, t), t, (l.cap - n) * l.unit)
end

-- meter_at returns the units used at t, and when they are forgotten; t is not before the last
-- booking.
local function meter_at(l, t)
  local level, at = lead(l)
  level = leak(l, level, at, t)
  return ceil(level / l.unit), falls_to(l, level, t, 0)
end
