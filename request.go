package stint

import (
	"slices"
	"time"

	"github.com/stint-limiter/stint/internal/protocol"
)

// Mode determines what a request does.
type Mode uint8

const (
	// ModeTake charges the cost if every limit has room now; otherwise it charges nothing.
	ModeTake Mode = iota
	// ModePeek answers as ModeTake would, but charges nothing and writes nothing.
	ModePeek
	// ModeReserve books the earliest time at which every limit has room, first come, first served,
	// at most MaxWait ahead.
	ModeReserve
	modeForce = Mode(protocol.ModeForce)
)

// Claim is one subject's part of a request: the subject, its limits and the number of units.
type Claim struct {
	// Subject identifies what is limited: any bytes, by convention "type:identifier". Bans apply to
	// the subject in all its scopes.
	Subject string
	// Scope divides a subject, for instance by route or endpoint: each scope has its own counts.
	// The empty scope is a scope of its own.
	Scope string
	// Limits are the limits that must all have room. Nil means the limits of the limiter. They must
	// not be changed afterwards: the charge refers to them, and so may a store that has not
	// answered yet.
	Limits []Limit
	// Cost is the number of units to charge to each limit: 1 for most requests. A claim with a cost
	// of zero charges nothing and only reports the usage. It is allowed even if a limit is full,
	// but denied if the usage exceeds the capacity of a limit, or if a limit is zero. To ask
	// whether there is room, use [Limiter.Peek].
	Cost int64
	// Costs holds the costs that differ from Cost, by limit name: for example {"input_tokens": 900,
	// "output_tokens": 4096}, with a Cost of 1 for all other limits.
	Costs Costs
	// Shared marks a subject that stands for all callers together, for example the subject of a
	// global limit. Bans do not apply to it, and its denials lead to no ban.
	Shared bool
}

// Costs maps limit names to units. See [Limit.Name].
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

// Request asks a store whether something may happen. Either all of its claims are granted or none.
type Request struct {
	// Claims are the parts of the request, at least one. Most requests have one. A request that
	// counts for several subjects, for instance a user and its organization, has one for each.
	Claims []Claim
	// ID identifies one logical request. If an earlier request with the same ID was charged within
	// the last IDLife, this request is a repeat: it is allowed without being charged again, at most
	// 8 times. If the original request booked a later time, a repeat with [ModeTake] is denied
	// before that time. An ID belongs to the subject and scope of the first claim. If the repeat
	// has the same claims and Hold (costs, Max and Burst may differ), its decision has the charge
	// of the original request.
	ID string
	// IDLife is the time for which the ID is remembered after the charge, or after the last
	// heartbeat of its hold. Zero means the shortest window of the first claim. If Hold is longer,
	// it applies instead.
	IDLife time.Duration
	// Hold marks the costs as estimates, and is the longest time between heartbeats: at most
	// [MaxHold]. [Limiter.Settle] charges the true cost, even when the charge has left its window.
	// Until the settlement, a limit that is not a bucket and has no burst holds the estimate, if
	// its window is longer than Hold or its HoldThrough is set. If no heartbeat arrives for the
	// length of Hold (see [Limiter.Hold] and [Limiter.Extend]), the hold expires: what heartbeats
	// have reported is charged, and the rest is given back unless [Limit.ChargeExpired] is set. Any
	// other limit charges the estimate at once, as for a request without Hold. Zero means no hold.
	// A request with a Hold cannot book ahead; [Limiter.WaitFor] waits for it without a booking.
	Hold time.Duration
	// Mode determines what the request does. The default is [ModeTake].
	Mode Mode
	// MaxWait bounds how far ahead [ModeReserve] may book; zero means no bound.
	MaxWait time.Duration
	// Bans applies bans to the request, and determines when repeated denials lead to a ban. Nil
	// means the policy of the limiter; see [WithBans]. If the limiter has none either, bans are not
	// checked.
	Bans *BanPolicy
	// Failure determines what to do when the store fails. Nil means the policy of the limiter. If
	// the limiter has none either, the configuration of the store applies.
	Failure *FailurePolicy

	terms protocol.Terms
}

// Terms returns the parts of the request that users do not set, as a *driver.Terms. It is for
// authors of stores. Programs that only apply limits do not need it.
func (r *Request) Terms() *protocol.Terms { return &r.terms }

// Bounds on requests.
const (
	// MaxClaims is the largest number of claims in one request, and MaxTotal is the largest total
	// number of limits in these claims.
	MaxClaims = 16
	MaxTotal  = 128
	// MaxSubject is the maximum length of a subject, a scope or a request ID, in bytes.
	MaxSubject = 64 << 10
	// MaxHold is the longest [Request.Hold].
	MaxHold = 24 * time.Hour
)

// BanPolicy bans a subject that keeps being denied. The zero policy applies existing bans, but
// denials lead to no ban.
type BanPolicy struct {
	// After is the number of denials in a period of length Within that leads to a ban: 1 to
	// [Resolution]. Zero means that denials lead to no ban; then all other fields must be zero,
	// too.
	After  int
	Within time.Duration
	// Durations are the lengths of the first ban, the second and so on; the last one repeats.
	// Example: 1m, 5m, 1h, 24h.
	Durations []time.Duration
	// Forgive is the time without a ban after which the next ban has the first duration again.
	Forgive time.Duration
}

// leaseFits reports whether the terms Fit and Lease are compatible with the rest of the request.
func (r *Request) leaseFits() bool {
	t := &r.terms
	if !t.Fit && t.Lease == 0 {
		return true
	}
	if r.Mode != ModeTake || len(r.Claims) != 1 || r.Claims[0].Cost == 0 || r.Claims[0].Costs != nil ||
		r.Claims[0].hasConcurrency() || r.Hold != 0 {
		return false
	}
	if t.Lease != 0 && slices.ContainsFunc(r.Claims[0].Limits, func(l Limit) bool { return !l.canLease() }) {
		return false
	}
	return t.Lease >= 0 && t.Lease <= MaxWindow && t.Lease%time.Microsecond == 0 && (t.Lease == 0 || r.ID == "")
}

func (r *Request) books() bool { return r.Mode == ModeReserve || r.Mode == modeForce && r.MaxWait > 0 }

// grace returns how long after the booked time a booking may still be used: a twentieth of the
// shortest window, but at least 2 and at most 20 milliseconds. The booking counts as if it were
// charged at the end of this time.
func (r *Request) grace() time.Duration {
	shortest := MaxWindow
	for i := range r.Claims {
		shortest = min(shortest, r.Claims[i].shortest())
	}
	return min(max(shortest/20, 2*time.Millisecond), 20*time.Millisecond).Truncate(time.Microsecond)
}

// sharesLimit reports whether claim i and an earlier claim have the same subject and scope, and a
// limit with the same identity or, if byName is true, with the same name.
func (r *Request) sharesLimit(i int, byName bool) bool {
	d := &r.Claims[i]
	for j := range i {
		c := &r.Claims[j]
		if c.Subject != d.Subject || c.Scope != d.Scope {
			continue
		}
		for k := range c.Limits {
			for n := range d.Limits {
				l, m := &c.Limits[k], &d.Limits[n]
				if l.sameID(m) || byName && l.Name == m.Name {
					return true
				}
			}
		}
	}
	return false
}

func (c *Claim) hasConcurrency() bool {
	return slices.ContainsFunc(c.Limits, func(l Limit) bool { return l.Algorithm == AlgorithmConcurrency })
}

func (c *Claim) shortest() time.Duration {
	shortest := MaxWindow
	for i := range c.Limits {
		shortest = min(shortest, c.Limits[i].Window)
	}
	return shortest
}

// Key returns a readable name for the claim: its subject, and its scope if it has one. Example:
// "user:42", or "user:42:login" in the scope "login".
func (c *Claim) Key() string {
	if c.Scope == "" {
		return c.Subject
	}
	return c.Subject + ":" + c.Scope
}

// states returns the number of states that a store keeps for the claim: one for each distinct name
// among its limits, concurrency limits excluded.
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
