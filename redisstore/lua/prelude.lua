-- What every script shares. Numbers travel packed and big-endian, so that no
-- digit of a microsecond is lost on the way; times are microseconds.
--
-- Redis makes every function of a script, and a cell for every local that one of
-- them uses, anew at each call: that is dear. So all functions stand in one, rest(),
-- which makes them on first use and returns them in a table, R. The files from
-- shared.lua to ids.lua are its body. The scripts themselves are straight code, and
-- take.lua answers a common decision without calling rest().

-- The instant of this call, and whether it only looks: then nothing is written.
local now, looking

local made
local function rest()
if made then return made end
local R = {}
made = R
