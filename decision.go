package stint

import (
	"math/bits"
	"time"
)

// inlineUsages is the number of usages that a decision holds without allocating: enough for limits
// per minute, per hour and per day. If usages were always in a slice, an in-memory decision would
// take 13 to 50% longer.
const inlineUsages = 3

// Decision is the answer to a [Request]. Copies of a decision refer to the same charge, which can
// be refunded or settled only once.
type Decision struct {
	// Allowed reports whether the request may go ahead. Example: true for the first 10 requests in
	// a minute under 10/1m.
	Allowed bool
	// Repeat reports whether an earlier request with the same [Request.ID] was charged; this one
	// was then not charged again. Example: true for a retry.
	Repeat bool
	// Banned reports whether the subject is banned. The ban ends after BanLeft. Example: true for
	// an hour after [Limiter.Ban] with time.Hour.
	Banned bool
	// Degraded reports whether a [FailurePolicy] decided because the store was unavailable.
	// Example: true while Redis is down.
	Degraded bool
	// Unavailable reports whether a degraded decision denies only because the store was
	// unavailable: no limit is known to be exceeded. Example: true under [FailDeny] while Redis is
	// down.
	Unavailable bool
	// Denier is the position of the claim that denied the request, starting at 1; 0 if none did.
	// Example: 2 if Claims[1] had no room.
	Denier uint8

	count uint8 // number of usages

	// RetryAfter is the time that a denied request must wait, or [Never]. It is zero if the request
	// was allowed at once. If [ModeReserve] booked a later time, RetryAfter is the time to wait
	// before going ahead, and the usages are as of the booked time.
	RetryAfter time.Duration
	// BanLeft is the time until the subject's ban ends, or zero if it is not banned. RetryAfter may
	// be longer, because a limit may still have no room when the ban ends. Example: 59m one minute
	// into a ban of an hour.
	BanLeft time.Duration
	// Charge identifies what was charged, for [Limiter.Refund], [Limiter.Settle] and
	// [Limiter.Hold]. It has the claims of the request, even if nothing was charged. An allowed
	// repeat with the same claims has the charge of the original request, so that a caller that
	// lost the original answer can still settle the charge. The two requests share the charge, so
	// it can be settled only once. [Limiter.Hold] keeps no place for a repeat.
	Charge Charge

	few  [inlineUsages]Usage // the usages, if there are at most inlineUsages
	many *[]Usage            // the usages, if there are more; a pointer, because decisions are copied often
}

// Usages returns the usages of all limits, in the order of the claims and, within a claim, of its
// Limits. The list is empty if the usages are unknown. The usages are part of the decision: callers
// must not change them, and they are valid until the decision is overwritten. Example: under 10/1m
// and 100/1h, Usages()[1] is the usage of 100/1h.
func (d *Decision) Usages() []Usage {
	if d.many != nil {
		return *d.many
	}
	return d.few[:d.count:d.count]
}

// MakeUsages replaces the usages of the decision with n zero usages, and returns them for a store
// to fill in. Copies of a decision may share usages, so a store must call MakeUsages before it
// changes the usages of a copy.
func (d *Decision) MakeUsages(n int) []Usage {
	d.many, d.count = nil, 0
	if n > inlineUsages {
		many := make([]Usage, n)
		d.many = &many
		return many
	}
	d.count = uint8(n)
	clear(d.few[:n])
	return d.few[:n]
}

// Usage describes how much of one limit a subject has used at the time of a decision.
type Usage struct {
	// Used is the number of units that count now, including those just charged, booked or held.
	// Used may exceed the capacity, for example after a settlement or [Limiter.Charge] left a debt,
	// after the limit was lowered, or while there are bookings. Example: 3 after three requests
	// under 10/1m.
	Used int64
	// ResetAfter is the time until the limit is completely unused, if nothing else happens.
	// Example: 1m after a request under 10/1m.
	ResetAfter time.Duration
	// RetryAfter is the time until this limit has room for the request. It is zero if the limit had
	// room, and [Never] if the cost exceeds its capacity.
	RetryAfter time.Duration
}

// State is a limit with its usage.
type State struct {
	// Limit is the limit, as in the request. It must not be changed. Example: 10/1m.
	Limit *Limit
	Usage
	// Cost is the cost of the request under the limit, as a number of units. [State.Outweighs]
	// treats 0 as 1. Example: 5 under a limit on costs.
	Cost int64
}

// Remaining returns the number of units that are left: the capacity minus Used, but at least 0.
// Example: 7 after three requests under 10/1m.
func (s State) Remaining() int64 { return max(0, s.capacity()-s.Used) }

// capacity returns the capacity of the limit, or 0 for the zero State.
func (s *State) capacity() int64 {
	if s.Limit == nil {
		return 0
	}
	return s.Limit.Capacity()
}

// States returns the usages with their limits, in the order of [Decision.Usages].
func (d *Decision) States() []State {
	states := make([]State, len(d.Usages()))
	for i := range states {
		states[i] = d.state(i)
	}
	return states
}

// noLimit is the Limit of a State without a limit.
var noLimit Limit

func (d *Decision) state(i int) State {
	s := State{Limit: &noLimit, Usage: d.Usages()[i]}
	claims := d.Charge.Claims()
	for k := range claims {
		limits := claims[k].Limits
		if i < len(limits) {
			s.Limit, s.Cost = &limits[i], claims[k].CostOf(&limits[i])
			break
		}
		i -= len(limits)
	}
	return s
}

// UsagesOf returns the usages of the claim with the given index, in the order of its Limits. The
// list is empty if they are unknown. See [Decision.Usages].
func (d *Decision) UsagesOf(claim int) []Usage {
	claims, usages := d.Charge.Claims(), d.Usages()
	for i := range claims {
		n := min(len(claims[i].Limits), len(usages))
		if i == claim {
			return usages[:n:n]
		}
		usages = usages[n:]
	}
	return nil
}

// Decisive returns the state that matters most to the caller; see [State.Outweighs]. Example: under
// 10/1m and 100/1h, the state of 10/1m if it has 2 units left and 100/1h has 40. If the decision
// has no usages, the state has a zero Limit.
func (d *Decision) Decisive() State {
	best := State{Limit: &noLimit}
	for i := range d.Usages() {
		if s := d.state(i); i == 0 || s.Outweighs(best) {
			best = s
		}
	}
	return best
}

// Outweighs reports whether s matters more to the caller than the other state. The state with the
// longer RetryAfter matters more. If these are equal, the state that admits fewer further requests
// of the same cost matters more. If these numbers are equal too, the state that has used the larger
// share of its capacity does. Example: 30 units left for requests that cost 10 outweigh 5 units
// left for requests that cost 1.
func (s State) Outweighs(than State) bool {
	if s.RetryAfter != than.RetryAfter {
		return s.RetryAfter > than.RetryAfter
	}
	if n, m := s.requests(), than.requests(); n != m {
		return n < m
	}
	hi, lo := bits.Mul64(uint64(max(0, s.Used)), uint64(than.capacity()))
	thanHi, thanLo := bits.Mul64(uint64(max(0, than.Used)), uint64(s.capacity()))
	return hi > thanHi || hi == thanHi && lo > thanLo
}

// requests returns how many further requests of the same cost the limit admits. Under a concurrency
// limit, each request takes one place, whatever its cost.
func (s *State) requests() int64 {
	if s.Limit != nil && s.Limit.Algorithm == AlgorithmConcurrency {
		return s.Remaining()
	}
	return s.Remaining() / max(1, s.Cost)
}

// Remaining returns the number of units that are left under the decisive limit. See
// [Decision.Decisive].
func (d *Decision) Remaining() int64 { return d.Decisive().Remaining() }

// Key returns the subject of the decision, and its scope if it has one. Both come from the claim
// that denied the request, or from the first claim if none did. Example: "user:42", or
// "user:42:login" in the scope "login".
func (d *Decision) Key() string {
	claims := d.Charge.Claims()
	if n := int(d.Denier); n > 0 && n <= len(claims) {
		return claims[n-1].Key()
	}
	return claims[0].Key()
}

// Err returns nil if the request was allowed, and a [*DeniedError] otherwise:
//
//	if err := d.Err(); err != nil {
//		return err // rate limit exceeded for key 'igdb:api'
//	}
func (d *Decision) Err() error {
	if d.Allowed {
		return nil
	}
	return &DeniedError{Key: d.Key(), RetryAfter: d.RetryAfter, Banned: d.Banned, Unavailable: d.Unavailable}
}
