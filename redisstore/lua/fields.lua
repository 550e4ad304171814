-- Names of numbers. They are replaced by the numbers when scripts are joined, see script.go: a local that a function
-- uses costs Redis a cell at every call, and an instruction at every use.
--
-- The one representation of limits in these scripts: a set, an array with the fields named
-- below, then of each of its limits STRIDE fields from LIMITS on.
--
--   SIG     directory of a state with just these limits (state.lua)
--   N       number of limits
--   FORMAT  struct format of what follows the directory, to the end of the heads
--   FROM    where in the value that begins, as text
--   HEADS   where the heads end, and FRONT where the rings begin
--   LAST    last byte to read at first, and ALL last byte before the rings, as texts
--   NUMBER  number of the set, as a character
--   NEED    until when a state must live that is charged now
--   OTHERS  sets to use instead if the state has another directory, by that

local SIG, N, FORMAT, FROM, HEADS, FRONT, LAST, ALL, NUMBER, NEED, OTHERS, LIMITS =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12

-- Of a limit: whether it is asked about (0 or 1), fields of its meter in the state (0 or 3), capacity, span, slice (0: exact), bytes of an entry
-- (0: it has no log), where back and front of the log are in the value, weight of a unit (0: it
-- asks for no meter), what a tick gives back, length of a tick; then what follows from that and the
-- clock: the last instant that has left the window, the stamp of a charge now, and the
-- format of an entry.
local ASKED, METER, CAP, SPAN, SLICE, WIDTH, BACK, OLD, UNIT, RATE, TICK, CUT, STAMP, ENTRY, STRIDE =
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14

-- The oldest stamp of an empty log.
local FAR = 9007199254740992
