-- take decides one request.
--
-- KEYS     those of the request, see decide.lua
-- ARGV[1]  call id, which is that of the charge too, clock, specs (specs.lua), request
-- ARGV[2]  request id, if there is one
-- Reply    call id, now, then that of the request

local base, id, id_at, equal, head = 0, ARGV[2], 1, 1, pack('>c8i8', args, now)
local R -- the rest, once it is needed
