-- start is the beginning of every script about limits. A script is several of these files, one
-- after the other: script.go lists them, and the functions make_… that some of them are the body
-- of. Names in capitals are numbers (numbers.lua).
--
-- How a request is decided, in the order of reading: the end of take.lua goes through the requests.
-- take_plain there has read_state (state.lua) read what is used of the limits and compare that with
-- the cost, charge (charge.lua) add the cost, and write store the result. The header of state.lua
-- says what a sliding window, a fixed one and a bucket are. What a plain take has not is in
-- decide.lua and the files that it names.
--
-- The layouts of arguments and replies in these files give sizes in bytes. A number without a size
-- is a little-endian double, which is whole and at most 2^53. Times and durations are microseconds.
--
-- ARGV[1]  call id (8 bytes)
--          clock (0: use the server's; only tests send another)
--          generation of states that the call creates (4): a number that tells a state from one
--          that was lost or reset
--          number of runs or amendments (2), if there can be several
--          sets of limits (sets.lua)
--          the rest, which the last file of the script describes
--
-- Redis creates the functions of a script, and a cell for each outer local that they use, again at
-- every call. So functions use few outer locals and get the others as parameters, and make few
-- tables. A table that has room for its fields from the beginning does not grow with each of them.
-- A local for a function of a library costs less than to look that up several times.
-- Arguments of commands are strings, because Redis formats numbers as floats.

local call, pack, unpack_at = redis.call, struct.pack, struct.unpack
local args = ARGV[1]
local now, generation, several, asked_sets, pos = unpack_at('<dI4I2B', args, 9)
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
