-- What every script shares. Numbers travel packed and big-endian, so that no
-- digit of a microsecond is lost on the way; times are microseconds.
--
-- Redis makes every function of a script, and a cell for every local that one of
-- them uses, anew at each call: that is dear. So what a common decision needs is
-- few functions over few locals, here and in log.lua. All else stands in one
-- function, rest(), which makes it on first use. The files from shared.lua on are
-- its body, and R is what it returns.

local call, try, pack, unpack_at = redis.call, redis.pcall, struct.pack, struct.unpack

-- The instant of this call, and whether it only looks: then nothing is written.
local now, looking

local rest
