-- numbers gives names to the numbers in the scripts. No script contains this file: script.go
-- replaces the names with the numbers, because in Redis a local that a function uses costs an
-- allocation at every call.
--
-- Go has its own copy of the first group of numbers. TestNumbers compares the two.

local MAX_UNITS = 9007199254740992 -- stint.MaxUnits, 2^53
local RESOLUTION = 125             -- slices of a sliding window; maximum After of a ban policy (stint.Resolution)
local MAX_BOOKINGS = 1000          -- bookings of a limit
local MAX_ENTRIES = 250            -- entries of a log
local MAX_IDS = 1000               -- request ids of a subject in a scope
local MAX_REPEATS = 8              -- repeats of a request id
local MAX_SETTLED = 1000           -- settled charges of a subject in a scope
local MAX_KNOWN = 27               -- limits in a directory that a reply may contain
local MAX_HOLDS = 20000            -- open holds of a state
local LONGEST_HOLD = 90000000000   -- after a clock was ahead, units stay held for at most this long, in microseconds
local ID_STEP = 16                 -- ends of request ids are multiples of this, in microseconds
local NEVER = -1                   -- a wait that does not end

-- Values of stint.Algorithm, except that CALENDAR stands for calendar limits in a state's directory
local SLIDING, BUCKET, FIXED, CALENDAR = 0, 1, 2, 3

-- Values of stint.Mode
local TAKE, PEEK, RESERVE, FORCE = 0, 1, 2, 3

-- Values of stint.AmendmentKind, and the store's own UNDO, which settles unless the charge may have
-- been settled before
local SETTLE, EXTEND, RELEASE, UNDO = 1, 2, 3, 100

-- Values of stint.CommandKind
local RESET, BAN, UNBAN, GIVE_BACK = 1, 2, 3, 4

-- Kinds of a run of requests (take.lua)
local PLAIN, PLAIN_BANS, PLAIN_PEEK, PLAIN_EQUAL, PLAIN_HOLD, OTHER = 0, 1, 2, 3, 4, 5

-- The first byte of an answer: flags of a decision, or the kind of another answer (take.lua)
local ALLOWED, REPEAT, BANNED, RECALLED, DIRECTORIES = 1, 2, 4, 8, 32
local LATE, CHARGED, FAILED = 16, 64, 255

-- The value of a state (state.lua): its first byte, without and with bookings. Then the sizes in
-- bytes of the directory before its first limit, of each limit in the directory, of the header
-- between directory and heads, of the head of a log, and of the head of a meter
local PLAIN_STATE, BOOKED_STATE = 83, 66 -- 'S', 'B'
local DIRECTORY_START, DIRECTORY_LIMIT, HEADER_SIZE, LOG_HEAD, METER_HEAD = 2, 8, 20, 36, 24

-- A state as read (state.lua): the index of the first head's first field, and the numbers of fields
-- of a log and of a meter
local FIRST_HEAD, LOG_FIELDS, METER_FIELDS = 12, 5, 3

-- In the directory, the kind of a limit is the sum of its algorithm, HAS_METER if it has a meter,
-- and ENTRY_WIDTH * (bytes of an entry - ENTRY_STAMP) if it has a log
local HAS_METER, ENTRY_WIDTH, ENTRY_STAMP = 4, 8, 7

-- Held units precede their limit in the directory. Their kind has the algorithm of the limit plus
-- HELD, plus CHARGES if expired units are charged
local HELD, CHARGES = 64, 128

-- The value of a ban (bans.lua): its first byte, and its size
local BAN_MARK, BAN_SIZE = 78, 23 -- 'N'

-- Only the scripts use the other numbers.
--
-- A set of limits is an array of these fields, then STRIDE fields for each limit, from LIMITS on.
--
--   SIG         directory of a state with exactly these limits (state.lua)
--   LAST_LIMIT  index of the first field of the last limit
--   FORMAT      struct format of header and heads
--   HEADS       offset of the end of the heads
--   RINGS       offset of the end of the fronts, where the first ring begins
--   LAST        offset, as text, of the last byte that the first command of read_state reads: the
--               last byte of the heads or of the fronts
--   NUMBER      number of the set in the call, as a character
--   NEED        instant until which a state that is charged now must be kept
--   OTHERS      offset in args of the sets with the same limits for states with other directories;
--               false if there are none
--   FRESH       1 if states that do not exist yet get this directory
local SIG, LAST_LIMIT, FORMAT, HEADS, RINGS, LAST, NUMBER = 1, 2, 3, 4, 5, 6, 7
local NEED, OTHERS, FRESH, LIMITS = 8, 9, 10, 11

-- The fields of one limit. For example, the limit at index `at` of a set has the capacity
-- set[at + CAP].
--
--   ASKED            1 if the request asks about the limit, 0 if not. CHECKED for a request with a
--                    hold if the limit holds the request's units instead of charging them. For the
--                    held units of a limit: HOLDING if the request adds to them, else COUNTED
--   LOG, METER       indexes of the first fields of its log and its meter in a state; 0: none
--   CAP, SPAN        capacity; how long an entry counts after its stamp
--   SLICE            length of a slice, whose charges share a stamp; 0: a charge's stamp is its time
--   WIDTH            bytes of an entry; 0: no log
--   BACK, FRONT      offsets of the back and the front of its log in the value
--   UNIT             how much a unit of cost raises the level of its meter; 0: no meter requested
--   RATE, TICK       how much the level falls with every tick; length of a tick
--   CUT              now - SPAN: an entry with this or an older stamp has left the window
--   STAMP            the stamp of a charge now
--   ENTRY            struct format of an entry
--
-- For held units, these fields have other meanings: RATE is the life of a hold, SLICE is a 64th of
-- that life, and STAMP is the time at which a hold that begins now expires. TICK is how much longer
-- the units count if they are charged when they expire, and 0 if they are not charged.
--
-- For a calendar limit, UNIT is negative, and SLICE, RATE and TICK are called THIS, ENDED and
-- FOLLOWING: the ends of the current, the previous and the next period of its own calendar.
--
-- A charge adds units to a limit, or to its held units, if ASKED is odd.
local ASKED, LOG, METER, CAP, SPAN, SLICE, WIDTH, BACK, FRONT = 0, 1, 2, 3, 4, 5, 6, 7, 8
local UNIT, RATE, TICK, CUT, STAMP, ENTRY, STRIDE = 9, 10, 11, 12, 13, 14, 15
local THIS, ENDED, FOLLOWING = 5, 10, 11
local COUNTED, HOLDING, CHECKED = 2, 3, 4

-- A state is an array of these fields (state.lua). The fields of the header follow, from GENERATION
-- on, and then for each limit the fields of its log, from SUM on, and of its meter, from LEVEL on.
-- EXPIRES is the time at which the key expires.
local KEY, SET, VALUE, BODY, FRONTS, BLOCKS, WHOLE, REWRITE = 1, 2, 3, 4, 5, 6, 7, 8
local GENERATION, WRITTEN, EXPIRES = 9, 10, 11
local SUM, NEWEST, NEWEST_UNITS, OLDEST, SHAPE = 0, 1, 2, 3, 4
local LEVEL, LEVEL_AT, LEVEL_UNIT = 0, 1, 2

-- The options of a run (take.lua) are an array of these fields. DURATIONS is the offset of the
-- first duration in args. Only a FORCE has AGE and REFILLED.
local CLAIMS, MODE, FIT, BANS_ON, SHARED, AFTER, LONGEST, MOVES = 1, 2, 3, 4, 5, 6, 7, 8
local ID_LIFE, LEASE, GRACE, WITHIN, FORGIVE, HOLD, CHARGE_ID, STEPS = 9, 10, 11, 12, 13, 14, 15, 16
local DURATIONS, AGE, REFILLED = 17, 18, 19

-- For a PLAIN_HOLD, RUN_HOLD is the distance in bytes from the number of parts to the length of the
-- hold. The charge id follows the length.
local RUN_HOLD = 70

-- A part of an amendment (amend.lua) is an array of these fields. The first part of a claim also
-- has the fields of that claim, and the first part of the first claim also has the fields of the
-- amendment, because creating a table takes as long as a Redis command. The fields from AMENDS on
-- have the values that were sent. Every part has a copy of the values of its claim and its
-- amendment.
--
--   KEY, SET         as in a state; SET is false for a concurrency limit
--   HOLDS            the key of its holds, if any
--   STATE, UNTIL     its state once amended, and the time until which the state must be kept
--   PUT              true to remove its hold, or the hold to write
--   WHOLE            the functions of whole.lua if states are read as a whole, else false
--   ENDS, REPORTED   of its hold: when it expires, and the true cost reported before
--   KNOWN, TIL       whether the state is the one that was charged; when the hold expires if it is
--                    extended now, else false
--   NEXT_PART        the next part of the claim, or false
local HOLDS, STATE, UNTIL, PUT, ENDS, REPORTED, KNOWN, TIL, NEXT_PART = 3, 4, 5, 6, 8, 9, 10, 11, 12

--   SETTLED          the key of the settled charges
--   APPLIED, TIGHT   whether anything was amended; `tight` of any part (amended in amend.lua)
--   LOWERS           whether the true cost of a part is less than its charge
--   HORIZON          how long the charge can be settled after it was made
--   EXPIRED, OPEN    whether a hold has expired or is missing; whether the claim may be amended
--   NEXT_CLAIM       the next claim, or false
local SETTLED, APPLIED, TIGHT, LOWERS, HORIZON, EXPIRED, OPEN, NEXT_CLAIM = 13, 14, 15, 16, 17, 18, 19, 20

--   WRITING          true once something may have been written
--   DROPPED, TOTAL   units that were not charged; true cost (settled_to in amend.lua)
--   STATES, NAMED    states that were read, by key; true costs by name; false if not needed
--   FOUND            whether a hold was extended
local WRITING, DROPPED, TOTAL, STATES, NAMED, FOUND = 21, 22, 23, 24, 25, 26

--   AMENDS           kind of the amendment
--   REFUND, OWN      1 if everything is given back; 1 if parts have true costs of their own
--   HOLD_LIFE, DEBT  life of its holds; largest debt
--   CHARGE, LIVES    charge id; life of the request id
--   CLAIMED, PARTS   number of claims; number of parts of the claim
--   TRUTH            true cost of the part
--   OF               generation of its state, or window of its concurrency limit
local AMENDS, REFUND, OWN, HOLD_LIFE, DEBT, CHARGE, LIVES, NOT_AFTER, RETAKES = 27, 28, 29, 30, 31, 32, 33, 34, 35
local HAS_ID, CLAIMED, CHARGED_AT, PARTS, WHICH, COST, TRUTH, OF = 36, 37, 38, 39, 40, 41, 42, 43

-- FAR is later than any time. In an empty log, OLDEST is FAR.
local FAR = 9007199254740992

-- A log's shape (state.lua) is the sum of: entries in its front; SHAPE_BACK times the entries in
-- its back; SHAPE_FIRST times the slot of the first block in its ring; SHAPE_BLOCKS times the
-- blocks in use; SHAPE_SLOTS times the slots for blocks.
local SHAPE_BACK, SHAPE_FIRST, SHAPE_BLOCKS, SHAPE_SLOTS = 16, 128, 4096, 131072
local BLOCK, BACK_MOST = 8, 7 -- maximum entries of a block or the front, and of the back
local MOST_BLOCKS = 28        -- maximum blocks, so that a log has fewer than MAX_ENTRIES entries

-- CHARGED_MARK is CHARGED as a character.
local CHARGED_MARK = '\64'

-- BOOKED is the size of a booking in bytes (bookings.lua).
local BOOKED = 16

-- KEPT is the time for which a state is kept after it stops affecting decisions, in microseconds.
local KEPT = 1000000

-- ID_HASH is the number of characters of an id's hash that precede its charge (ids.lua).
local ID_HASH = 8
