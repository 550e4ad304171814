-- general returns the functions of the general path, which decides any request on any state.
--
-- Redis creates every function of a script again at each call, and that takes time. So one function
-- creates those of the general path, and is called only if they are needed. The files that it
-- includes are its body: they share its arguments (now, generation, sets), its locals and the table
-- G that it returns.

local function general(now, generation, sets)
-- @include shared
-- @include bookings
-- @include log
-- @include meter
-- @include state
-- @include concurrency
-- @include ban
-- @include ids
-- @include decide
return G
end
