-- base: functions of other files that decisions in full need, and that take.lua passes on. A
-- function that named them itself would cost every call an allocation for each.

local read_state, usage, charge, write, piece, drop_left, leak, add, usage_of = unpack(base)
