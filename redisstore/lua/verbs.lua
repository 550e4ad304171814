-- The verbs that work on all of a limit's state: used, reset, reserve, settle, save.

local function whole(l) return l.of or W end

function R.used(l)
  if not l.of and not l.at then return l.sum end
  return whole(l).used(l)
end

function R.reset(l) return whole(l).reset(l) end

function R.reserve(l, t) return whole(l).reserve(l, t) end

function R.settle(l, t, delta, id) return whole(l).settle(l, t, delta, id) end

function R.save(l) return whole(l).save(l) end
