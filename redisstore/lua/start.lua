-- start begins every script about limits. A script consists of several of these files, one after
-- another. Some files form the body of a function make_…; script.go lists these functions and the
-- files of each script. Names in capitals are numbers (numbers.lua).
--
-- To follow the decision of a plain take, read these parts in this order:
--
--   read_set (sets.lua)     reads the limits from the arguments, as arrays of the fields that
--                           numbers.lua lists
--   the end of take.lua     loops over the runs of requests
--   take_plain (take.lua)   decides a run, with the next three functions
--   read_state (state.lua)  reads the usage of the limits, drops the entries that have left the
--                           window, and compares the remaining usage with the cost
--   charge (charge.lua)     adds the cost
--   write (charge.lua)      stores the result
--
-- limits.lua has the parts that a plain take rarely needs: the ring of a log, other sets, and the
-- usage that a denial shows. The header of state.lua explains sliding windows, fixed windows and
-- buckets. All other requests are in decide.lua and the files that it names. Settlements begin at
-- the end of amend.lua, and settle.lua has their rules.
--
-- After any error before the first write, such as error('rare'), the request is decided once more
-- with whole states (whole.lua); the text of the error does not matter.
--
-- The layouts of arguments and replies in these files give sizes in bytes. A number without a size
-- is a little-endian double, which is whole and at most 2^53. Times and durations are microseconds.
--
-- ARGV[1]  call id (8 bytes)
--          clock (0: use the server's; only tests send another)
--          generation of states that the call creates (4): a number that distinguishes a state from
--          an earlier state with the same key that was lost or reset
--          number of runs or amendments (2); scripts without any ignore it
--          sets of limits (sets.lua)
--          the rest, which the last file of the script describes
--
-- Redis creates the functions of a script, and a cell for each outer local that they use, again at
-- every call. So functions use few outer locals, get other values as parameters, and create few
-- tables. A table with preallocated fields does not grow when these are set. Storing a library
-- function in a local costs less than looking it up several times. In frequent commands, arguments
-- are strings, because Redis formats numbers as floats, which takes longer.

local call, pack, unpack_at = redis.call, struct.pack, struct.unpack
local args = ARGV[1]
local now, generation, several, asked_sets, pos = unpack_at('<dI4I2B', args, 9)
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
