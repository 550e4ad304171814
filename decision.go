package stint

import "time"

// State is what a store knows of one limit of one subject after a decision.
type State struct {
	// Limit is the limit, as the request named it. It must not be changed.
	Limit *Limit
	// Used is the number of units in the window, those just charged included.
	// It exceeds the capacity only as a debt, after settling upwards or lowering
	// a limit. Example: 3 after three requests under 10/1m.
	Used int64
	// ResetAfter is the time until the limit is wholly unused, if nothing else
	// happens. Example: 1m after a request under 10/1m.
	ResetAfter time.Duration
	// RetryAfter is the time until this limit has room for the request: zero if
	// it had, [Never] if the cost is above its capacity. Example: 12.5s.
	RetryAfter time.Duration
}

// Remaining is the number of units that are left: capacity less used, not below
// zero. Example: 7 after three requests under 10/1m.
func (s *State) Remaining() int64 { return max(0, s.Limit.Capacity()-s.Used) }

// inlineStates is how many limits a decision holds without allocating.
const inlineStates = 4

// Decision is the answer to a [Request]. It is a value; copies name the same
// charge, which can be refunded or settled once.
type Decision struct {
	// Allowed says whether the request may go ahead.
	Allowed bool
	// Repeat says that the request ID was seen before: nothing was charged.
	Repeat bool
	// Banned says that the subject is banned, until RetryAfter from now.
	Banned bool
	// Key is the subject and scope that decided: the one that denied, or the
	// first. Example: "user:42".
	Key string
	// RetryAfter is how long a denied request has to wait, or [Never]; zero if it
	// was allowed at once. After [Reserve] it is how long to wait before going
	// ahead with an allowed request. Example: 850ms.
	RetryAfter time.Duration
	// Charge names what was charged, for [Limiter.Refund] and its like.
	Charge Charge

	decisive uint8
	count    uint8
	inline   [inlineStates]State
	more     []State
}

// Charge identifies what a decision charged: enough for any process to give it
// back. The zero Charge is of a decision that charged nothing.
type Charge struct {
	// ID is unique to the charge; zero if nothing was charged.
	ID uint64
	// At is the instant in the store's clock at which the charge counts, in
	// microseconds since the Unix epoch. For a booking it lies in the future.
	At int64
	// RequestID is the ID of the request: giving all back forgets it, so that a
	// repeat is charged anew.
	RequestID string
	// Claim and And are what was charged. AndAt holds the instants of And where a
	// store's subjects have clocks of their own; nil means At for all.
	Claim Claim
	And   []Claim
	AndAt []int64
}

// States returns the state of every limit of every claim, in the order of the
// request.
func (d *Decision) States() []State {
	if d.more != nil {
		return d.more
	}
	return d.inline[:d.count]
}

// Grow makes room for n states and returns them for a store to fill in.
func (d *Decision) Grow(n int) []State {
	if n > inlineStates {
		d.more = make([]State, n)
		return d.more
	}
	d.count = uint8(n)
	return d.inline[:n]
}

// Decisive returns the state that matters most to the caller: the one that
// denied for the longest, or the one with the least left.
func (d *Decision) Decisive() *State {
	states := d.States()
	if len(states) == 0 {
		return &State{Limit: &Limit{}}
	}
	return &states[d.decisive]
}

// Conclude picks the decisive state once all states are filled in. Stores call
// it last.
func (d *Decision) Conclude() {
	states := d.States()
	best := 0
	for i := 1; i < len(states); i++ {
		if moreDecisive(&states[i], &states[best]) {
			best = i
		}
	}
	d.decisive = uint8(best)
}

func moreDecisive(a, b *State) bool {
	if a.RetryAfter != b.RetryAfter {
		return a.RetryAfter == Never || b.RetryAfter != Never && a.RetryAfter > b.RetryAfter
	}
	return a.Remaining() < b.Remaining()
}

// Limit is the limit that decided. See [Decision.Decisive].
func (d *Decision) Limit() Limit { return *d.Decisive().Limit }

// Remaining is what is left of the limit that decided.
func (d *Decision) Remaining() int64 { return d.Decisive().Remaining() }

// ResetAfter is the time until the limit that decided is wholly unused.
func (d *Decision) ResetAfter() time.Duration { return d.Decisive().ResetAfter }

// Err returns nil if the request was allowed, and a [*DeniedError] otherwise:
//
//	if err := d.Err(); err != nil {
//		return err // rate limit exceeded for key 'igdb:api'
//	}
func (d *Decision) Err() error {
	if d.Allowed {
		return nil
	}
	return &DeniedError{Key: d.Key, RetryAfter: d.RetryAfter, Banned: d.Banned}
}
