package stint

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Usage is how much of one limit a subject has used, as of a decision.
type Usage struct {
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

// State is the usage of a limit.
type State struct {
	// Limit is the limit, as the request named it. It must not be changed.
	Limit *Limit
	Usage
}

// Remaining is the number of units that are left: capacity less used, not below
// zero. Example: 7 after three requests under 10/1m.
func (s State) Remaining() int64 { return max(0, s.Limit.Capacity()-s.Used) }

// inlineUsages is how many limits a decision holds without allocating: minute,
// hour and day. Decisions are small because they are copied.
const inlineUsages = 3

// Decision is the answer to a [Request]. It is a value; copies name the same
// charge, which can be refunded or settled once.
type Decision struct {
	// Allowed says whether the request may go ahead.
	Allowed bool
	// Repeat says that the request ID was seen before: nothing was charged.
	Repeat bool
	// Banned says that the subject is banned, until RetryAfter from now.
	Banned bool
	// Degraded says that the store could not be asked: the decision is that of a
	// [FailurePolicy].
	Degraded bool
	// Unavailable says that a degraded decision denies for no other reason: not a limit
	// was exceeded, nobody could tell.
	Unavailable bool
	// Decider is the claim that denied, else the first: 0 is the request's own, i is
	// And[i-1].
	Decider uint8

	count uint8
	// RetryAfter is how long a denied request has to wait, or [Never]; zero if it
	// was allowed at once. After [Reserve] it is how long to wait before going
	// ahead with an allowed request, and usages are as of that instant. Example: 850ms.
	RetryAfter time.Duration
	// Charge names what was charged, for [Limiter.Refund] and its like.
	Charge Charge

	inline [inlineUsages]Usage
	more   *[]Usage
}

// Charge identifies what a decision charged: enough for any process to give it
// back.
type Charge struct {
	// ID is unique to the charge; zero if nothing was charged.
	ID uint64
	// At is the instant in the store's clock at which the charge counts, in
	// microseconds since the Unix epoch. For a booking it is the end of the time in
	// which it is to be used.
	At int64
	// Generation is that of the first state that was charged: a store draws another
	// one when it begins anew, after a [Reset] for instance, and does not amend
	// charges of an earlier one.
	Generation uint32
	// Claim is the request's own, and Rest what else there was to it.
	Claim Claim
	Rest  *Rest
}

// Rest is what only some charges have: a request ID, further subjects, an origin
// other than the store.
type Rest struct {
	// Origin is where the charge was made, and where alone it can be amended.
	Origin Origin
	// RequestID is the ID of the request: giving all back forgets it, so that a
	// repeat is charged anew. If it has been repeated within IDLife, nothing is given
	// back.
	RequestID string
	IDLife    time.Duration
	// Generations are those of all states but the first, in the order of the claims
	// and, within a claim, of its [Claim.StateNames].
	Generations []uint32
	// And holds the claims of further subjects. AndAt are their instants where a
	// store's subjects have clocks of their own; nil means At for all.
	And   []Claim
	AndAt []int64
}

// Origin is where a charge was made.
type Origin uint8

const (
	// FromStore is a charge that every process over the store can amend.
	FromStore Origin = iota
	// FromFallback is a charge in the memory of the process that made it, for want of
	// the store.
	FromFallback
	// FromLease is a charge of units that its process had leased.
	FromLease
)

// ChargeOf returns the claims of a request as a charge that is yet to be made.
func ChargeOf(r *Request) Charge {
	c := Charge{Claim: r.Claim}
	if r.ID != "" || len(r.And) > 0 {
		c.Rest = &Rest{RequestID: r.ID, And: r.And}
		if r.ID != "" {
			c.Rest.IDLife = r.Life()
		}
	}
	return c
}

// Validate reports whether the charge could be that of a decision.
func (c *Charge) Validate() error {
	r := Request{Claim: c.Claim, And: c.And(), ID: c.RequestID(), IDLife: c.IDLife()}
	if err := r.Validate(); err != nil {
		return err
	}
	switch {
	case c.ID == 0:
		return &InvalidError{errors.New("the charge has no ID: nothing was charged")}
	case c.At < 0 || c.At > MaxUnits:
		return &InvalidError{fmt.Errorf("the charge is of the instant %d; want 0 to %d", c.At, MaxUnits)}
	case c.states() > 1 && len(c.generations()) != c.states()-1:
		return &InvalidError{fmt.Errorf("the charge has %d generations for %d states", len(c.generations())+1, c.states())}
	case c.andAt() != nil && len(c.andAt()) != len(c.And()):
		return &InvalidError{fmt.Errorf("the charge has %d instants for %d claims", len(c.andAt()), len(c.And()))}
	}
	return nil
}

// Part returns the part of the charge that some of its claims make up, by number:
// 0 is its own, i is And[i-1], as in [Request.ClaimAt]. To amend it amends those
// claims alone. So a budget is settled to what a request really cost, while
// the limits that count requests go on counting one:
//
//	d.Charge = d.Charge.Part(1)
//	applied, err := limiter.Settle(ctx, d, tokens)
//
// A part has the ID of the whole, and claims of one subject and scope are settled
// once between them: settle those that are to be settled in the same part. The
// request ID goes with claim 0. Without numbers, or with one that is none of the
// charge's, it is the zero Charge.
func (c Charge) Part(claims ...int) Charge {
	numbers := slices.Compact(slices.Sorted(slices.Values(claims)))
	and, at := c.And(), c.andAt()
	if len(numbers) == 0 || numbers[0] < 0 || numbers[len(numbers)-1] > len(and) || at != nil && len(at) != len(and) {
		return Charge{}
	}
	part, rest := Charge{ID: c.ID, At: c.At, Claim: c.Claim}, Rest{Origin: c.Origin()}
	if first := numbers[0]; first == 0 {
		rest.RequestID, rest.IDLife = c.RequestID(), c.IDLife()
	} else {
		part.Claim = and[first-1]
		if at != nil {
			part.At = at[first-1]
		}
	}
	for _, i := range numbers[1:] {
		rest.And = append(rest.And, and[i-1])
		if at != nil {
			rest.AndAt = append(rest.AndAt, at[i-1])
		}
	}
	var generations []uint32
	state := 0
	for i := range 1 + len(and) {
		for range c.ClaimAt(i).states() {
			if slices.Contains(numbers, i) {
				generations = append(generations, c.GenerationAt(state))
			}
			state++
		}
	}
	if len(generations) > 0 {
		part.Generation, rest.Generations = generations[0], generations[1:]
	}
	if rest.Origin != FromStore || rest.RequestID != "" || len(rest.And) > 0 || len(rest.Generations) > 0 {
		part.Rest = &rest
	}
	return part
}

// GenerationAt returns the generation of the ith of all states of the charge, in the
// order of the claims and their names; 0 if there is none.
func (c *Charge) GenerationAt(i int) uint32 {
	if i == 0 {
		return c.Generation
	}
	if more := c.generations(); i <= len(more) {
		return more[i-1]
	}
	return 0
}

// SetGeneration sets the generation of the ith of all states. A charge with several has
// its own list.
func (c *Charge) SetGeneration(i int, generation uint32) {
	if i == 0 {
		c.Generation = generation
		return
	}
	if c.Rest == nil {
		c.Rest = new(Rest)
	}
	if c.Rest.Generations == nil {
		c.Rest.Generations = make([]uint32, c.states()-1)
	}
	c.Rest.Generations[i-1] = generation
}

// states is the number of states that the charge is about.
func (c *Charge) states() int {
	n := c.Claim.states()
	and := c.And()
	for i := range and {
		n += and[i].states()
	}
	return n
}

func (c *Charge) generations() []uint32 {
	if c.Rest == nil {
		return nil
	}
	return c.Rest.Generations
}

// IDLife returns how long the request's ID is remembered, if it had one.
func (c *Charge) IDLife() time.Duration {
	if c.Rest == nil {
		return 0
	}
	return c.Rest.IDLife
}

// ClaimAt returns the charge's own claim for 0, and And()[i-1] for i.
func (c *Charge) ClaimAt(i int) *Claim {
	if i == 0 {
		return &c.Claim
	}
	return &c.Rest.And[i-1]
}

// And returns the claims of further subjects.
func (c *Charge) And() []Claim {
	if c.Rest == nil {
		return nil
	}
	return c.Rest.And
}

func (c *Charge) andAt() []int64 {
	if c.Rest == nil {
		return nil
	}
	return c.Rest.AndAt
}

// Origin returns where the charge was made.
func (c *Charge) Origin() Origin {
	if c.Rest == nil {
		return FromStore
	}
	return c.Rest.Origin
}

// RequestID returns the ID of the request, if it had one.
func (c *Charge) RequestID() string {
	if c.Rest == nil {
		return ""
	}
	return c.Rest.RequestID
}

// Grow makes room for the usage of n limits and returns it for a store to fill
// in, in the order of the request.
func (d *Decision) Grow(n int) []Usage {
	d.count = uint8(min(n, 255))
	switch {
	case n <= inlineUsages:
		return d.inline[:n]
	case n <= roomyUsages:
		r := new(usageRoom)
		r.usages = r.room[:n]
		d.more = &r.usages
	default:
		more := make([]Usage, n)
		d.more = &more
	}
	return *d.more
}

// usageRoom is a list of usages and room for a few, in one allocation: a tier and a policy or two.
type usageRoom struct {
	usages []Usage
	room   [roomyUsages]Usage
}

const roomyUsages = 8

// Usages returns the usage of every limit of every claim, in the order of the
// request.
func (d *Decision) Usages() []Usage {
	if d.more != nil {
		return *d.more
	}
	return d.inline[:d.count]
}

// States returns the usages with their limits.
func (d *Decision) States() []State {
	states := make([]State, len(d.Usages()))
	for i := range states {
		states[i] = d.state(i)
	}
	return states
}

// noLimit is the limit of states that have none.
var noLimit Limit

// state returns the ith usage with its limit.
func (d *Decision) state(i int) State {
	s := State{Limit: &noLimit, Usage: d.Usages()[i]}
	c, and := &d.Charge.Claim, d.Charge.And()
	for i >= len(c.Limits) && len(and) > 0 {
		i -= len(c.Limits)
		c, and = &and[0], and[1:]
	}
	if i < len(c.Limits) {
		s.Limit = &c.Limits[i]
	}
	return s
}

// Decisive returns the state that matters most to the caller: the one that
// denied for the longest, or the one with the least left.
func (d *Decision) Decisive() State {
	best := State{Limit: &noLimit}
	for i := range d.Usages() {
		if s := d.state(i); i == 0 || s.Outweighs(best) {
			best = s
		}
	}
	return best
}

// Outweighs reports whether a state matters more to the caller than another: it denies for
// longer, or has less left.
func (s State) Outweighs(than State) bool {
	if s.RetryAfter != than.RetryAfter {
		return s.RetryAfter == Never || than.RetryAfter != Never && s.RetryAfter > than.RetryAfter
	}
	return s.Remaining() < than.Remaining()
}

// Limit is the limit that decided. See [Decision.Decisive].
func (d *Decision) Limit() Limit { return *d.Decisive().Limit }

// Remaining is what is left of the limit that decided.
func (d *Decision) Remaining() int64 { return d.Decisive().Remaining() }

// ResetAfter is the time until the limit that decided is wholly unused.
func (d *Decision) ResetAfter() time.Duration { return d.Decisive().ResetAfter }

// Key names who was decided on: the subject, and its scope if it has one.
// Example: "user:42".
func (d *Decision) Key() string {
	if and := d.Charge.And(); d.Decider > 0 && int(d.Decider) <= len(and) {
		return and[d.Decider-1].Key()
	}
	return d.Charge.Claim.Key()
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
	return &DeniedError{Key: d.Key(), RetryAfter: d.RetryAfter, Banned: d.Banned}
}
