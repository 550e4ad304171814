package stint

import (
	"slices"
	"time"

	"github.com/stint-limiter/stint/internal/protocol"
)

// Mode says what a request wants.
type Mode uint8

const (
	// ModeTake charges the cost if every limit has room now, and nothing otherwise.
	ModeTake Mode = iota
	// ModePeek answers as Take would, charges nothing and writes nothing.
	ModePeek
	// ModeReserve books the earliest time with room in every limit, first come, first served, at
	// most MaxWait ahead.
	ModeReserve
	// modeForce is ModeForce of package driver.
	modeForce = Mode(protocol.ModeForce)
)

// Claim is one subject's part of a request: who, under which limits, and how many units.
type Claim struct {
	// Subject is who is limited: any bytes, by convention "type:identifier". Bans apply to the
	// subject in all its scopes.
	Subject string
	// Scope divides a subject, a route or an endpoint for instance: each scope has counts of its
	// own. Empty is a scope like any other.
	Scope string
	// Limits must all have room. Nil means the limiter's own. They must not change afterwards: a
	// charge refers to them, and so does a store that is still to answer.
	Limits []Limit
	// Cost is the number of units to charge to each limit; zero only looks.
	Cost int64
	// Costs are those of the limits with a name, by that name, where they differ from Cost:
	// {"input_tokens": 900, "output_tokens": 4096} beside a Cost of 1 for all others.
	Costs Costs
	// Shared says that the subject is not one caller but all of them together, a global ceiling for
	// instance: bans neither apply to it nor are made of it.
	Shared bool
}

// Costs are units by the names of limits. See [Limit.Name].
type Costs map[string]int64

// CostOf returns the units that the claim charges to one of its limits.
func (c *Claim) CostOf(l *Limit) int64 {
	if c.Costs != nil {
		if cost, ok := c.Costs[l.Name]; ok {
			return cost
		}
	}
	return c.Cost
}

// Request is one question to a store: may this happen? All of its claims are granted together or
// none is.
type Request struct {
	// Claims are the parts of the request, at least one: a single one for most requests, several
	// for those that count for several subjects, a user and its organization for instance.
	Claims []Claim
	// ID names one logical request. A repeat of an ID that was charged within its life is allowed
	// again without being charged, at most 8 times. It is one of the first claim's subject and
	// scope. If the repeat has the same claims, apart from cost, Max and Burst, its decision has
	// the charge of the first request.
	ID string
	// IDLife is how long an ID is remembered; zero means the shortest window of the first claim.
	IDLife time.Duration
	// Hold says that the costs are estimates, and for how long the work may go on without a sign of
	// life: at most [MaxHold]. The true cost is charged by [Limiter.Settle], also when the charge
	// has left its window. Until then a limit whose window is longer than Hold holds the estimate.
	// If no heartbeat comes for that long, see [Limiter.Hold] and [Limiter.Extend], the hold
	// expires: what heartbeats have reported is charged, and the rest is given back. A limit with a
	// shorter window is charged the estimate at once, as a request without Hold is. Zero means no
	// hold. It goes with Take.
	Hold time.Duration
	// Mode is Take unless set.
	Mode Mode
	// MaxWait bounds how far ahead Reserve may book; zero means MaxWindow·MaxBurst.
	MaxWait time.Duration
	// Bans applies bans to the request, and says when repeated denials lead to one; nil means that
	// bans are not even looked for.
	Bans *BanPolicy
	// Failure says what to do when the store fails; nil leaves it to the store.
	Failure *FailurePolicy

	terms protocol.Terms
}

// Terms returns what a store that wraps another one asks beside what users ask. Package driver
// documents them; programs that only limit something do not need them.
func (r *Request) Terms() *protocol.Terms { return &r.terms }

// Bounds on requests.
const (
	// MaxClaims is the largest number of claims in one request, and MaxTotal that of limits in all
	// of them.
	MaxClaims = 16
	MaxTotal  = 128
	// MaxSubject is the largest length of a subject, a scope or a request ID in bytes.
	MaxSubject = 64 << 10
	// MaxHold is the longest [Request.Hold].
	MaxHold = 24 * time.Hour
)

// BanPolicy bans a subject that keeps being denied. The zero policy applies bans made by hand and
// makes none itself.
type BanPolicy struct {
	// After is the number of denials within Within that leads to a ban, 1 to [Resolution]. Zero
	// means that none do; then all else is zero too.
	After  int
	Within time.Duration
	// Durations are those of the first ban, the second and so on; the last one repeats. Example:
	// 1m, 5m, 1h, 24h.
	Durations []time.Duration
	// Forgive is how long after the end of a ban the next one starts again at the first duration.
	Forgive time.Duration
}

// leaseFits reports whether Fit and Lease go with the rest of the request.
func (r *Request) leaseFits() bool {
	t := &r.terms
	if !t.Fit && t.Lease == 0 {
		return true
	}
	if r.Mode != ModeTake || len(r.Claims) != 1 || r.Claims[0].Cost == 0 || r.Claims[0].Costs != nil ||
		r.Claims[0].hasConcurrency() || r.Hold != 0 {
		return false
	}
	limits := r.Claims[0].Limits
	for i := range limits {
		if t.Lease != 0 && !limits[i].canLease() {
			return false
		}
	}
	return t.Lease >= 0 && t.Lease <= MaxWindow && t.Lease%time.Microsecond == 0 && (t.Lease == 0 || r.ID == "")
}

// books reports whether the request may book ahead.
func (r *Request) books() bool { return r.Mode == ModeReserve || r.Mode == modeForce && r.MaxWait > 0 }

// grace is how long after its instant a booking may be used: it counts as if it were charged at the
// end of that time. It is a twentieth of the shortest window, from 2 to 20 milliseconds.
func (r *Request) grace() time.Duration {
	shortest := MaxWindow
	for i := range r.Claims {
		shortest = min(shortest, r.Claims[i].shortest())
	}
	return min(max(shortest/20, 2*time.Millisecond), 20*time.Millisecond).Truncate(time.Microsecond)
}

// sameStateBefore reports whether claim i names a limit that an earlier claim names too, for the
// same subject and scope.
func (r *Request) sameStateBefore(i int) bool {
	for j := range i {
		if r.Claims[j].sharesLimit(&r.Claims[i]) {
			return true
		}
	}
	return false
}

func (c *Claim) sharesLimit(d *Claim) bool {
	if c.Subject != d.Subject || c.Scope != d.Scope {
		return false
	}
	for i := range c.Limits {
		for j := range d.Limits {
			if c.Limits[i].sameID(&d.Limits[j]) {
				return true
			}
		}
	}
	return false
}

// sharesState reports whether claim i has a limit with the name of one of an earlier claim for the
// same subject and scope: the two then share a state.
func (r *Request) sharesState(i int) bool {
	d := &r.Claims[i]
	for j := range i {
		c := &r.Claims[j]
		if c.Subject != d.Subject || c.Scope != d.Scope {
			continue
		}
		for k := range c.Limits {
			if slices.ContainsFunc(d.Limits, func(l Limit) bool { return l.Name == c.Limits[k].Name }) {
				return true
			}
		}
	}
	return false
}

func (c *Claim) hasConcurrency() bool {
	for i := range c.Limits {
		if c.Limits[i].Algorithm == AlgorithmConcurrency {
			return true
		}
	}
	return false
}

// shortest is the shortest window of the claim's limits.
func (c *Claim) shortest() time.Duration {
	shortest := MaxWindow
	for i := range c.Limits {
		shortest = min(shortest, c.Limits[i].Window)
	}
	return shortest
}

// Key names the claim to people: its subject, and its scope if it has one. Example: "user:42", or
// "user:42:login" in the scope "login".
func (c *Claim) Key() string {
	if c.Scope == "" {
		return c.Subject
	}
	return c.Subject + ":" + c.Scope
}

// states is the number of states that a store keeps for the claim: one for each distinct name of
// its limits, concurrency limits aside.
func (c *Claim) states() int {
	var buf [MaxLimits]string
	names := buf[:0]
	for i := range c.Limits {
		if l := &c.Limits[i]; l.Algorithm != AlgorithmConcurrency && !slices.Contains(names, l.Name) {
			names = append(names, l.Name)
		}
	}
	return len(names)
}
