package stint

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Mode says what a request wants.
type Mode uint8

const (
	// Take charges the cost if every limit has room now, and nothing otherwise.
	Take Mode = iota
	// Peek answers as Take would, charges nothing and writes nothing.
	Peek
	// Reserve books the earliest place with room in every limit, first come,
	// first served, at most MaxWait ahead.
	Reserve
	// Force charges the cost whether or not there is room, above the capacity too:
	// now, or MaxWait from now. It is always allowed, obeys no ban and strikes nobody.
	// It is for units that were admitted elsewhere and have to be counted here.
	Force
)

// Claim is one subject's part of a request: who, under which limits, and how
// many units.
type Claim struct {
	// Subject is who is limited: any bytes, by convention "type:identifier".
	// Bans apply to the subject in all its scopes.
	Subject string
	// Scope divides a subject, a route or an endpoint for instance: each scope has
	// counts of its own. Empty is a scope like any other.
	Scope string
	// Limits must all have room. Nil means the limiter's own.
	Limits []Limit
	// Cost is the number of units to charge to each limit; zero only looks.
	Cost int64
	// Shared says that the subject is not one caller but all of them together, a
	// global ceiling for instance: bans neither apply to it nor are made of it.
	Shared bool
}

// Request is one question to a store: may this happen? All of its claims are
// granted together or none is.
type Request struct {
	Claim
	// And holds claims of further subjects.
	And []Claim
	// ID names one logical request. A repeat of an ID that was charged within its
	// life is allowed again without being charged, at most [MaxRepeats] times.
	ID string
	// IDLife is how long an ID is remembered; zero means the shortest window of
	// the claim.
	IDLife time.Duration
	// Mode is Take unless set.
	Mode Mode
	// MaxWait bounds how far ahead Reserve may book; zero means MaxWindow·MaxBurst.
	// Force books exactly so far ahead; zero means that it charges now.
	MaxWait time.Duration
	// Booked is the At of the Charge of an earlier booking of the same claims. Reserve
	// then moves it to the earliest place that is not before those who were ahead of
	// it, if there is an earlier one, and answers with the place that it has now.
	Booked int64
	// Fit lowers the cost to what there is room for, but not below one unit. What was
	// charged is the Cost of the decision's Charge. For Take with a single claim.
	Fit bool
	// Lease charges units that are to be used during that time from now: they count from
	// now on, and as if they were charged at its end. It implies Fit. For logs, that is limits
	// that can be [Limit.Leased].
	Lease time.Duration
	// Bans makes the request obey bans, and says when repeated denials lead to one;
	// nil means that bans are not even looked for.
	Bans *BanPolicy
	// Failure says what to do when the store fails; nil leaves it to the store.
	Failure *FailurePolicy
}

// Bounds on requests.
const (
	// MaxClaims is the largest number of claims in one request, and MaxTotal that of
	// limits in all of them.
	MaxClaims = 16
	MaxTotal  = 128
	// MaxSubject is the largest length of a subject, a scope or a request ID in bytes.
	MaxSubject = 64 << 10
	// MaxRepeats is how often one request ID is allowed again uncharged.
	MaxRepeats = 8
	// MaxIDs is how many request IDs a store remembers of one subject and scope.
	// Past it the oldest is forgotten: its repeat would be charged.
	MaxIDs = 1000
	// MaxBookings is how many places may be booked ahead on one limit of one subject.
	MaxBookings = 1000
	// MaxSettled is how many refunds and settlements a store remembers of one
	// subject and scope, so that each applies once. A process also remembers the
	// last [MaxOwnSettled] that it sent itself. A first settlement is never refused for
	// want of memory; a second one is applied only if it comes from another process
	// after so many later ones.
	MaxSettled    = 1000
	MaxOwnSettled = 65_536
	// MaxBan is the longest ban.
	MaxBan = MaxWindow
)

// BanPolicy bans a subject that keeps being denied. The zero policy obeys bans made
// by hand and makes none itself.
type BanPolicy struct {
	// After is the number of denials within Within that leads to a ban, 1 to [Resolution].
	// Zero means that none do; then all else is zero too.
	After  int
	Within time.Duration
	// Durations are those of the first ban, the second and so on; the last one
	// repeats. Example: 1m, 5m, 1h, 24h.
	Durations []time.Duration
	// Forgive is how long after the end of a ban the next one starts again at the
	// first duration.
	Forgive time.Duration
}

// Validate reports everything that is wrong with the policy.
func (b *BanPolicy) Validate() error {
	var errs []error
	mistake := func(format string, args ...any) { errs = append(errs, fmt.Errorf("bans: "+format, args...)) }
	if b.After == 0 && b.Within == 0 && len(b.Durations) == 0 && b.Forgive == 0 {
		return nil
	}
	if b.After < 1 || b.After > Resolution {
		mistake("After is %d; want 1 to %d", b.After, Resolution)
	}
	if !inWindow(b.Within) {
		mistake("Within is %v; want whole microseconds from %v to %d days", b.Within, MinWindow, MaxWindow/day)
	}
	if len(b.Durations) == 0 || len(b.Durations) > 16 {
		mistake("Durations has %d entries; want 1 to 16", len(b.Durations))
	}
	for i, d := range b.Durations {
		if !inWindow(d) {
			mistake("Durations[%d] is %v; want whole microseconds from %v to %d days", i, d, MinWindow, MaxBan/day)
		}
	}
	if b.Forgive < 0 || b.Forgive > MaxWindow || b.Forgive%time.Microsecond != 0 {
		mistake("Forgive is %v; want whole microseconds from 0 to %d days", b.Forgive, MaxWindow/day)
	}
	return errors.Join(errs...)
}

func inWindow(d time.Duration) bool {
	return d >= MinWindow && d <= MaxWindow && d%time.Microsecond == 0
}

// Validate reports everything that is wrong with the request. Stores may rely
// on requests that passed it.
func (r *Request) Validate() error {
	if r.valid() {
		return nil
	}
	errs := r.Claim.mistakes(nil, "")
	if len(r.And) >= MaxClaims {
		errs = append(errs, fmt.Errorf("%d claims; want at most %d", len(r.And)+1, MaxClaims))
	}
	if n := r.total(); n > MaxTotal {
		errs = append(errs, fmt.Errorf("%d limits in all claims; want at most %d", n, MaxTotal))
	}
	for i := range r.And {
		errs = r.And[i].mistakes(errs, fmt.Sprintf("And[%d].", i))
		if r.sameStateBefore(i) {
			errs = append(errs, fmt.Errorf("And[%d] repeats a limit of an earlier claim on subject %s; want each once",
				i, quote(r.And[i].Subject)))
		}
	}
	if len(r.ID) > MaxSubject {
		errs = append(errs, fmt.Errorf("ID has %d bytes; want at most %d", len(r.ID), MaxSubject))
	}
	if r.IDLife < 0 || r.IDLife > MaxWindow || r.IDLife%time.Microsecond != 0 {
		errs = append(errs, fmt.Errorf("IDLife is %v; want whole microseconds from 0 to %d days", r.IDLife, MaxWindow/day))
	}
	if r.MaxWait < 0 || r.MaxWait > MaxWindow*MaxBurst {
		errs = append(errs, fmt.Errorf("MaxWait is %v; want 0 to %v", r.MaxWait, MaxWindow*MaxBurst))
	}
	if r.Booked != 0 && (r.Mode != Reserve || r.Booked < 0 || r.Booked > MaxUnits) {
		errs = append(errs, fmt.Errorf("Booked is %d; want 0, or with Reserve the At of a booking", r.Booked))
	}
	if r.Mode > Force {
		errs = append(errs, fmt.Errorf("Mode is %d; want Take, Peek, Reserve or Force", r.Mode))
	}
	if !r.leaseFits() {
		errs = append(errs, fmt.Errorf("Fit is %v and Lease is %v; want Take with one claim of a cost above 0, whole microseconds up to %d days, "+
			"no request ID with a lease, and no limit but sliding and fixed ones (Fit alone: but no concurrency)", r.Fit, r.Lease, MaxWindow/day))
	}
	if r.books() && r.hasConcurrency() {
		errs = append(errs, errors.New("a concurrency limit cannot be reserved: when a holder leaves is not known; want Take"))
	}
	if r.Bans != nil {
		if err := r.Bans.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	if r.Failure != nil {
		if err := r.Failure.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	return &InvalidError{errors.Join(errs...)}
}

// valid is Validate for the hot path: no allocation, no message.
func (r *Request) valid() bool {
	if !r.Claim.valid() || len(r.And) >= MaxClaims || r.total() > MaxTotal {
		return false
	}
	for i := range r.And {
		if !r.And[i].valid() || r.sameStateBefore(i) {
			return false
		}
	}
	return len(r.ID) <= MaxSubject &&
		r.IDLife >= 0 && r.IDLife <= MaxWindow && r.IDLife%time.Microsecond == 0 &&
		r.MaxWait >= 0 && r.MaxWait <= MaxWindow*MaxBurst &&
		(r.Booked == 0 || r.Mode == Reserve && r.Booked > 0 && r.Booked <= MaxUnits) &&
		r.Mode <= Force && (!r.books() || !r.hasConcurrency()) &&
		(r.Bans == nil || r.Bans.Validate() == nil) &&
		(r.Failure == nil || r.Failure.Validate() == nil) &&
		r.leaseFits()
}

// leaseFits reports whether Fit and Lease go with the rest of the request.
func (r *Request) leaseFits() bool {
	if !r.Fit && r.Lease == 0 {
		return true
	}
	if r.Mode != Take || len(r.And) > 0 || r.Cost == 0 || r.Claim.hasConcurrency() {
		return false
	}
	for i := range r.Limits {
		if r.Lease != 0 && !r.Limits[i].canLease() {
			return false
		}
	}
	return r.Lease >= 0 && r.Lease <= MaxWindow && r.Lease%time.Microsecond == 0 && (r.Lease == 0 || r.ID == "")
}

// books reports whether the request may book ahead.
func (r *Request) books() bool { return r.Mode == Reserve || r.Mode == Force && r.MaxWait > 0 }

// ObeysBans reports whether bans are looked for.
func (r *Request) ObeysBans() bool { return r.Bans != nil && r.Mode != Force }

// total is the number of limits in all claims.
func (r *Request) total() int {
	n := len(r.Limits)
	for i := range r.And {
		n += len(r.And[i].Limits)
	}
	return n
}

// ClaimAt returns the request's own claim for 0, and And[i-1] for i.
func (r *Request) ClaimAt(i int) *Claim {
	if i == 0 {
		return &r.Claim
	}
	return &r.And[i-1]
}

// Life is how long the request's ID is remembered: IDLife, or the shortest window
// of the first claim.
func (r *Request) Life() time.Duration {
	if r.IDLife > 0 {
		return r.IDLife
	}
	return r.Claim.shortest()
}

// Grace is how long after its instant a booked place may be used: it counts as if it
// were charged at the end of that time. It is a twentieth of the shortest window, from
// 2 to 20 milliseconds.
func (r *Request) Grace() time.Duration {
	shortest := r.Claim.shortest()
	for i := range r.And {
		shortest = min(shortest, r.And[i].shortest())
	}
	return min(max(shortest/20, 2*time.Millisecond), 20*time.Millisecond).Truncate(time.Microsecond)
}

// Longest is how far ahead Reserve may book: MaxWait, or as far as any limit reaches.
func (r *Request) Longest() time.Duration {
	if r.MaxWait > 0 {
		return r.MaxWait
	}
	return MaxWindow * MaxBurst
}

func (r *Request) hasConcurrency() bool {
	if r.Claim.hasConcurrency() {
		return true
	}
	for i := range r.And {
		if r.And[i].hasConcurrency() {
			return true
		}
	}
	return false
}

// sameStateBefore reports whether claim And[i] names a limit that an earlier
// claim names too, for the same subject and scope.
func (r *Request) sameStateBefore(i int) bool {
	if r.Claim.sharesLimit(&r.And[i]) {
		return true
	}
	for j := range i {
		if r.And[j].sharesLimit(&r.And[i]) {
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
			if c.Limits[i].SameID(&d.Limits[j]) {
				return true
			}
		}
	}
	return false
}

func (c *Claim) hasConcurrency() bool {
	for i := range c.Limits {
		if c.Limits[i].Algorithm == Concurrency {
			return true
		}
	}
	return false
}

func (c *Claim) valid() bool {
	if c.Subject == "" || len(c.Subject) > MaxSubject || len(c.Scope) > MaxSubject ||
		uint64(c.Cost) > uint64(MaxUnits) || len(c.Limits) == 0 || len(c.Limits) > MaxLimits {
		return false
	}
	for i := range c.Limits {
		if !c.Limits[i].valid() || c.repeats(i) {
			return false
		}
	}
	return true
}

// repeats reports whether Limits[i] has the identity of an earlier limit.
func (c *Claim) repeats(i int) bool {
	for j := range i {
		if c.Limits[j].SameID(&c.Limits[i]) {
			return true
		}
	}
	return false
}

func (c *Claim) mistakes(errs []error, at string) []error {
	if c.valid() {
		return errs
	}
	mistake := func(format string, args ...any) { errs = append(errs, fmt.Errorf(at+format, args...)) }
	if c.Subject == "" || len(c.Subject) > MaxSubject {
		mistake("Subject has %d bytes; want 1 to %d", len(c.Subject), MaxSubject)
	}
	if len(c.Scope) > MaxSubject {
		mistake("Scope has %d bytes; want at most %d", len(c.Scope), MaxSubject)
	}
	if c.Cost < 0 || c.Cost > MaxUnits {
		mistake("Cost is %d; want 0 to %d", c.Cost, MaxUnits)
	}
	if len(c.Limits) == 0 || len(c.Limits) > MaxLimits {
		mistake("%d limits; want 1 to %d", len(c.Limits), MaxLimits)
	}
	for i := range c.Limits {
		l := &c.Limits[i]
		if err := l.Validate(); err != nil {
			mistake("Limits[%d] (%s): %w", i, l, err)
		}
		if c.repeats(i) {
			mistake("Limits[%d] (%s) has the same name, algorithm and window as an earlier one; give one of them a Name", i, l)
		}
	}
	return errs
}

// shortest is the shortest window of the claim's limits.
func (c *Claim) shortest() time.Duration {
	shortest := MaxWindow
	for i := range c.Limits {
		shortest = min(shortest, c.Limits[i].Window)
	}
	return shortest
}

// Key names the claim to people: its subject, and its scope if it has one.
func (c *Claim) Key() string {
	if c.Scope == "" {
		return c.Subject
	}
	return c.Subject + ":" + c.Scope
}

// StateNames returns the distinct names of the claim's limits, but for concurrency
// limits, in their order: a store keeps a state for each. It appends to names.
func (c *Claim) StateNames(names []string) []string {
	first := len(names)
	for i := range c.Limits {
		if l := &c.Limits[i]; l.Algorithm != Concurrency && !slices.Contains(names[first:], l.Name) {
			names = append(names, l.Name)
		}
	}
	return names
}

// states is the number of StateNames.
func (c *Claim) states() int {
	var buf [MaxLimits]string
	return len(c.StateNames(buf[:0]))
}
