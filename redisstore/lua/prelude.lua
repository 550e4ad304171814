-- What every script shares. Numbers travel packed and big-endian, so that no
-- digit of a microsecond is lost on the way; times are microseconds.
--
-- Redis makes every function of a script, and a cell for every local that one of
-- them uses, anew at each call: that is dear. So all functions stand in one, rest(),
-- which makes them and returns them in a table, R. The files from shared.lua to ids.lua
-- are its body. The scripts themselves are straight code, and decide.lua answers a common
-- request without calling rest().

-- now is the instant of the call; if it only looks, nothing is written.
local function rest(now, looking)
local R = {}
function R.look(on) looking = on end
