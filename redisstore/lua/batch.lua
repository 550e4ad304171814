-- batch decides many requests in order, each on its own: one that fails, because
-- memory is short for instance, does not concern the others.
--
-- KEYS     those of each run of equal requests, see decide.lua
-- ARGV[1]  call id, clock, specs (specs.lua), number of runs; per run the number of its keys, its length,
--          how many such requests there are, 1 if it has a request id, id of its charge, request
-- ARGV[2…] the request ids
-- Reply    call id, now; per run what decide.lua says as often as it takes to answer all
--          of the run, or 255, length of a message, message for those that failed

local R -- the rest, once it is needed
local function decide(pos, base, id, id_at, equal)
  local head = ''
