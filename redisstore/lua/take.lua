-- take decides requests in order. Each run is independent: if one fails, the others do not.
--
-- KEYS     per run of equal requests
--            per part, the limits of a claim that share a key: its state (state.lua), or the
--            holders of a concurrency limit (holders.lua)
--            with a hold: per part with a state its holds (holds.lua)
--            if bans apply: per claim the ban of its subject, then per claim its strikes
--            with a request id: the request ids of the first claim
-- ARGV[1]  see start.lua; then per run of requests
--            kind (1 byte): PLAIN, a single take of one part without options; PLAIN_BANS, the same
--              with bans; PLAIN_PEEK, a single peek at one part; PLAIN_EQUAL, several equal takes
--              of one part without options; PLAIN_HOLD, a single take of one part with a hold; or
--              OTHER
--            set of its first part (1; 0: holders), and the cost of that part in units
--            not-after, the last instant at which it may be decided (0: none)
--            unless it is PLAIN:
--              number of parts (1)
--              number of keys (1)
--              1 if there is a request id (1)
--              number of requests (2)
--              length of the rest (2)
--              for holders their capacity and window
--              per additional part its claim (1), set (1), cost, and for holders their capacity and
--              window
--              unless the rest ends here:
--                number of claims (1)
--                mode (1)
--                1 to lower the cost to the available room, 2 to lower it by the usage (1)
--                1 if bans apply (1)
--                claims that are shared (2, the lowest bit for the first)
--                denials that lead to a ban (1; 0: none does)
--                longest wait, or the wait of a FORCE
--                end of the booking to move up (0: none)
--                life of the request id
--                length of the lease (0: none)
--                grace: how long a booking may be used
--                within: how long denials count
--                forgive: how long a ban's level is kept
--                length of the hold (0: none)
--                charge id (8)
--                number of durations of bans (1), durations
--                for a FORCE how long ago its units were used, and for how long meters have
--                refilled them
--                for a booking to move up, per part with a state the generation in which it was
--                booked (4)
--                with a request id, the length of its note (2), and the note (ids.lua)
-- ARGV[2…] the request ids
-- Reply    call id (8), now; then per run one or more answers, which together answer its requests:
--            CHARGED (1): allowed; for a run of several requests, how many were allowed (2); per
--              part the number of the set that fits its state (1), and the header and heads that
--              were written; for holders their number, and reset-after
--            LATE (1): it arrived after its not-after
--            FAILED (1), length of a message (2), message
--            or else
--              flags (1)
--              deciding claim (1)
--              retry-after
--              time of the charge (0: none)
--              units charged to the first claim
--              with the flag BANNED, how long the ban lasts
--              per part its generation (4, not for holders), and per requested limit, in the order
--              of its set, used, reset-after, retry-after
--              with the flag DIRECTORIES, per part with a state the length of its directory (1; 0:
--              that of the set), and the directory
--              with the flag RECALLED, the length of the bytes that the id remembers (2), and the
--              bytes (ids.lua)

-- take_plain decides a run whose kind is PLAIN to PLAIN_EQUAL, and returns the answer. If the
-- request costs nothing or is denied under bans, it returns nil and the state, and decide must
-- answer. If only some of the equal requests fit, it returns nil, and decide must answer, too.
local function take_plain(key, set, cost, equal, kind, now, generation)
  local st, fitting = read_state(key, set, cost, equal, now, generation)
  if cost == 0 or fitting == 0 and kind == PLAIN_BANS then return nil, st end
  if fitting > 0 and kind ~= PLAIN_PEEK then
    if fitting < equal then return end
    local mark = equal == 1 and CHARGED_MARK or pack('<c1I2', CHARGED_MARK, equal)
    return mark .. st[SET][NUMBER] .. write(st, charge(st, cost * equal, now), now)
  end
  limits = limits or make_limits()
  local text, wait = limits.usage(st, fitting == 0 and cost or -FAR, now)
  return pack('<BBdddI4c0', fitting > 0 and ALLOWED or 0, 1, wait, 0, 0, st[VALUE] ~= '' and st[GENERATION] or 0,
    text)
end

-- The script begins here. base is the number of keys before those of the run, next_id the index of
-- the next request id in ARGV, and not_after the run's not-after.
local base, next_id, decide = 0, 2, nil
local out = { pack('<c8d', args, now), nil } -- ARGV[1] begins with the call id
for run = 1, several do
  local kind, which, cost, not_after, from = unpack_at('<BBdd', args, pos)
  local keys, has_id, equal, rest, ok, reply, st = 1, 0, 1, nil, false, nil, nil
  pos = from
  if kind ~= PLAIN then
    keys, has_id, equal, rest, pos = unpack_at('<BBI2I2', args, from + 1)
    pos = pos + rest
  end
  if kind < PLAIN_HOLD and (not_after == 0 or now <= not_after)
    and (kind ~= PLAIN_BANS or not redis.pcall('GET', KEYS[base + 2])) then
    ok, reply, st = pcall(take_plain, KEYS[base + 1], sets[which], cost, equal, kind, now, generation)
  end
  if not ok or not reply then
    decide = decide
      or make_decide(args, sets, now, generation, { read_state, charge, write, drop_left, add, make_limits })
    reply = decide(kind, which, cost, not_after, from, base, has_id == 1 and ARGV[next_id], ok and st)
  end
  out[run + 1], base, next_id = reply, base + keys, next_id + has_id
end
return table.concat(out)
