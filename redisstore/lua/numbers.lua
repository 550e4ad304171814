-- numbers gives names to the numbers of the scripts. No script contains this file: script.go
-- replaces the names by the numbers. In Redis, a local that a function uses costs an allocation at
-- every call.
--
-- Go uses the first ones, too. TestNumbers compares them.

local MAX_UNITS = 9007199254740992 -- stint.MaxUnits, 2^53
local RESOLUTION = 125             -- of a sliding window, and the most denials that lead to a ban: stint.Resolution
local MAX_BOOKINGS = 1000          -- of a limit
local MAX_ENTRIES = 250            -- of a log
local MAX_IDS = 1000               -- of a subject in a scope
local MAX_REPEATS = 8              -- of a request id
local MAX_SETTLED = 1000           -- settled charges of a subject in a scope
local MAX_KNOWN = 27               -- limits in a directory that a reply may hold
local MAX_HOLDS = 20000            -- open holds of a state
local LONGEST_HOLD = 90000000000   -- how long anything is held, after a clock that was ahead, in microseconds
local ID_STEP = 16                 -- the ends of request ids are multiples of it, in microseconds
local NEVER = -1                   -- a wait that does not end

-- stint.Algorithm; of calendar limits it is what a state's directory has instead
local SLIDING, BUCKET, FIXED, CALENDAR = 0, 1, 2, 3

-- stint.Mode
local TAKE, PEEK, RESERVE, FORCE = 0, 1, 2, 3

-- stint.AmendmentKind, and the store's own: UNDO settles unless that may have been done before
local SETTLE, EXTEND, RELEASE, UNDO = 0, 1, 2, 100

-- stint.CommandKind
local RESET, BAN, UNBAN, GIVE_BACK = 0, 1, 2, 3

-- Kinds of a run of requests (take.lua)
local PLAIN, PLAIN_BANS, PLAIN_PEEK, PLAIN_EQUAL, PLAIN_HOLD, OTHER = 0, 1, 2, 3, 4, 5

-- The first byte of an answer: flags of a decision, or what follows instead of one (take.lua)
local ALLOWED, REPEAT, BANNED, RECALLED, DIRECTORIES = 1, 2, 4, 8, 32
local LATE, CHARGED, FAILED = 16, 64, 255

-- The value of a state (state.lua), in bytes: the first one, without bookings or with; up to the
-- directory's first limit, and of each; between directory and heads; the head of a log, and of a
-- meter
local PLAIN_STATE, BOOKED_STATE = 83, 66 -- 'S', 'B'
local DIRECTORY_START, DIRECTORY_LIMIT, HEADER_SIZE, LOG_HEAD, METER_HEAD = 2, 8, 20, 36, 24

-- A state as it is read (state.lua): its first field of a head, and the fields of a log and a meter
local FIRST_HEAD, LOG_FIELDS, METER_FIELDS = 12, 5, 3

-- In the directory, added to a limit's algorithm: has a meter, and the bytes of an entry less
-- ENTRY_STAMP
local HAS_METER, ENTRY_WIDTH, ENTRY_STAMP = 4, 8, 7

-- And: it is what is held of the limit with that algorithm and window, which follows; and what
-- expires of that is charged
local HELD, CHARGES = 64, 128

-- The value of a ban (ban.lua): its first byte, and its size
local BAN_MARK, BAN_SIZE = 78, 23 -- 'N'

-- The rest is of the scripts alone.
--
-- A set of limits is an array: these fields, then STRIDE fields for each limit, from LIMITS on.
--
--   SIG         directory of a state with exactly these limits (state.lua)
--   LAST_LIMIT  where the fields of the last limit begin
--   FORMAT      struct format of header and heads
--   HEADS       offset of the end of the heads
--   RINGS       offset of the end of the fronts, where the first ring begins
--   LAST        last byte that read_state reads at first, as text: of the heads, or of the fronts
--   NUMBER      number of the set in the call, as a character
--   NEED        instant until which a state that is charged now must be kept
--   OTHERS      where the sets with the same limits for states with other directories begin in args;
--               false if there are none
--   FRESH       1 if states that do not exist yet get this directory
local SIG, LAST_LIMIT, FORMAT, HEADS, RINGS, LAST, NUMBER = 1, 2, 3, 4, 5, 6, 7
local NEED, OTHERS, FRESH, LIMITS = 8, 9, 10, 11

-- The fields of one limit. The limit at `at` of a set has the field set[at + CAP], for instance.
--
--   ASKED            1 if the request asks about it, and 0 if not. Of a request with a hold CHECKED
--                    if the limit holds its units, which are then not charged. Of what is held of a
--                    limit HOLDING if the request adds to it, else COUNTED
--   LOG, METER       where the fields of its log and its meter begin in a state; 0: it has none
--   CAP, SPAN        capacity; for how long after its stamp an entry counts
--   SLICE            entries in one slice share a stamp; 0: every instant has its own
--   WIDTH            bytes of an entry; 0: it has no log
--   BACK, FRONT        offsets of the back and the front of its log in the value
--   UNIT             what a unit of cost adds to the level of its meter; 0: no meter is asked for
--   RATE, TICK       how much the level falls with every tick; length of a tick
--   CUT              now - SPAN: an entry with this stamp or an older one has left the window
--   STAMP            the stamp of a charge now
--   ENTRY            struct format of an entry
--
-- Of what is held RATE is the life of a hold, SLICE a 64th of that, STAMP when a hold from now on
-- expires, and TICK for how much longer it counts if it is charged then, 0 if it is not.
--
-- Of a calendar limit UNIT is below 0, and three others are ends of periods by its own calendar:
-- ENDED of the one before, THIS of the one that runs, FOLLOWING of the next.
local ASKED, LOG, METER, CAP, SPAN, SLICE, WIDTH, BACK, FRONT = 0, 1, 2, 3, 4, 5, 6, 7, 8
local UNIT, RATE, TICK, CUT, STAMP, ENTRY, STRIDE = 9, 10, 11, 12, 13, 14, 15
local THIS, ENDED, FOLLOWING = 5, 10, 11
local COUNTED, HOLDING, CHECKED = 2, 3, 4

-- A state is an array: these fields (state.lua), then those of the header, from GENERATION on, and
-- then for each limit the fields of its log, from SUM on, and of its meter, from LEVEL on. EXPIRES
-- is when the key does.
local KEY, SET, VALUE, BODY, FRONTS, BLOCKS, WHOLE, REWRITE = 1, 2, 3, 4, 5, 6, 7, 8
local GENERATION, WRITTEN, EXPIRES = 9, 10, 11
local SUM, NEWEST, NEWEST_UNITS, OLDEST, SHAPE = 0, 1, 2, 3, 4
local LEVEL, LEVEL_AT, LEVEL_UNIT = 0, 1, 2

-- The options of a run (take.lua) are an array of these fields. DURATIONS is where those begin;
-- only those of a FORCE have AGE and REFILLED.
local CLAIMS, MODE, FIT, BANS_ON, SHARED, AFTER, LONGEST, MOVES = 1, 2, 3, 4, 5, 6, 7, 8
local ID_LIFE, LEASE, GRACE, WITHIN, FORGIVE, HOLD, CHARGE_ID, STEPS = 9, 10, 11, 12, 13, 14, 15, 16
local DURATIONS, AGE, REFILLED = 17, 18, 19

-- Where the length of the hold and the charge id of a PLAIN_HOLD are, from the number of its parts
-- on.
local RUN_HOLD = 70

-- A part of an amendment (amend.lua) is an array of these fields. The first part of a claim is also
-- that claim, and the first claim is also the amendment: to make a table costs as much as a
-- command. From AMENDS on they are as they are sent, and every part has those of its claim and its
-- amendment.
--
--   KEY, SET         as of a state; SET is false if it is a place
--   HOLDS            the key of its holds, if there are any
--   STATE, UNTIL     its state once it is amended, and until when that must be kept
--   PUT              true if its hold is to be removed, or the hold that is to be written
--   WHOLE            as of a state, of the amendment
--   ENDS, REPORTED   of its hold: when it expires, and the true cost that was reported before
--   KNOWN, TIL       whether the state is the one that was charged; when the hold expires from now
--                    on if it is extended, else false
--   NEXT_PART        the next one of the claim, or false
local HOLDS, STATE, UNTIL, PUT, ENDS, REPORTED, KNOWN, TIL, NEXT_PART = 3, 4, 5, 6, 8, 9, 10, 11, 12

--   SETTLED          the key of the settled charges
--   APPLIED, TIGHT   whether anything was amended; whether more than half of a limit was used
--   LOWERS           whether a part costs less than was charged
--   HORIZON          for how long after its time the charge can be settled
--   EXPIRED, OPEN    whether a hold is not open; whether it was not settled before
--   NEXT_CLAIM       the next one, or false
local SETTLED, APPLIED, TIGHT, LOWERS, HORIZON, EXPIRED, OPEN, NEXT_CLAIM = 13, 14, 15, 16, 17, 18, 19, 20

--   WRITING          true once something may have been written
--   DROPPED, TOTAL   units that were not charged; true cost, of all names together
--   STATES, NAMED    states that were read, by key; true costs by name; false if that is not needed
--   FOUND            whether a hold was extended
local WRITING, DROPPED, TOTAL, STATES, NAMED, FOUND = 21, 22, 23, 24, 25, 26

--   AMENDS           kind of the amendment
--   REFUND, OWN      1 if all is given back; 1 if parts have true costs of their own
--   HOLD_LIFE, DEBT  life of its holds; largest debt
--   CHARGE, LIVES    charge id; life of the request id
--   CLAIMED, PARTS   number of claims; number of parts of the claim
--   TRUTH            true cost of the part
--   OF               generation of its state, or window of the place
local AMENDS, REFUND, OWN, HOLD_LIFE, DEBT, CHARGE, LIVES, NOT_AFTER, RETAKES = 27, 28, 29, 30, 31, 32, 33, 34, 35
local HAS_ID, CLAIMED, CHARGED_AT, PARTS, WHICH, COST, TRUTH, OF = 36, 37, 38, 39, 40, 41, 42, 43

-- The oldest stamp of an empty log.
local FAR = 9007199254740992

-- A log's shape (state.lua) is the sum of: entries in its front; SHAPE_BACK times the entries in
-- its back; SHAPE_FIRST times the slot of the first block in its ring; SHAPE_BLOCKS times the
-- blocks in use; SHAPE_SLOTS times the slots for blocks.
local SHAPE_BACK, SHAPE_FIRST, SHAPE_BLOCKS, SHAPE_SLOTS = 16, 128, 4096, 131072
local BLOCK, BACK_MOST = 8, 7 -- entries of a block or the front, and of the back
local MOST_BLOCKS = 28        -- with more, there may be MAX_ENTRIES

-- CHARGED as a character.
local CHARGED_MARK = '\64'

-- Bytes of a booking (bookings.lua).
local BOOKED = 16

-- How much longer a state is kept than it counts, in microseconds.
local KEPT = 1000000

-- Characters of an id's hash before its charge (ids.lua).
local ID_HASH = 8
