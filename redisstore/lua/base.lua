-- base holds the functions of other files that decide.lua and its modules use. take.lua passes them
-- to make_decide in the table base. If make_decide used the locals of these files directly, each of
-- them would cost an allocation per call.

local read_state, charge, write, drop_left, add, make_limits = unpack(base)
local limits -- see state.lua
