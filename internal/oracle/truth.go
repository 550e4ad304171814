package oracle

import (
	"fmt"
	"math"
	"slices"

	"github.com/stint-limiter/stint"
)

// Truth is the log of what really happened: every admitted unit at its instant,
// never merged, rounded or dropped. A leased unit happens when its holder likes,
// so it counts in every window in which it might. Truth checks a store's
// decisions against what the algorithms promise in any window, knowing nothing of
// how they count.
//
// Feed it every decision, amendment and command in order, with the clock at which
// it was made. Where the rules give no promise it asks for none: across a step
// back of the clock, and for what was forgotten before a burst was raised.
type Truth struct {
	// AnyDelay says that room may come back as late as the store likes.
	AnyDelay bool

	clock  int64
	limits map[limitKey]*record
}

// NewTruth returns a log of nothing.
func NewTruth() *Truth { return &Truth{limits: map[limitKey]*record{}} }

// record is the truth about one limit of one subject.
type record struct {
	events     []event
	keep, kept int64 // largest burst in use, and when it was last used
	widest     int64 // largest burst ever used
	guessed    bool  // keep and kept are so only if nothing was left some time ago
	maxLimit   int64 // largest Max that admitted anything
	maxLate    int64 // how late room may come back: one slice of the longest span
	limit      stint.Limit
	unsure     bool // how late is not known: the clock stepped back
	leased     bool
}

// event is an admission: of a lease from when it was made to its end, of anything
// else at one instant. What a settlement made of it on one limit of several is
// not always known from outside; low and high bound it.
type event struct {
	id        uint64
	from, at  int64
	low, high int64
	astray    bool // at may no longer find it: the clock stepped back since, or units were taken off it
}

func (e *event) isLease() bool { return e.from < e.at }

// Took records a decision made at now and checks it.
func (t *Truth) Took(now int64, r stint.Request, d stint.Decision) error {
	t.tick(now)
	if d.Repeat {
		return nil
	}
	if fits := r.Fit || r.Lease > 0; fits && d.Allowed {
		if err := t.fitted(now, &r, d.Charge.Claim.Cost); err != nil {
			return err
		}
		r.Cost = d.Charge.Claim.Cost
	} else if fits {
		r.Cost = 1 // where that much fits, it is not denied
	}
	states, i := d.States(), 0
	for _, c := range append([]stint.Claim{r.Claim}, r.And...) {
		for j := range c.Limits {
			l, state := &c.Limits[j], &states[i]
			i++
			rec := t.record(&c, l)
			justified := rec.justified(l, now, c.Cost) || r.Lease > 0 && rec.full(l, now, c.Cost)
			if !t.AnyDelay && state.RetryAfter > 0 && !justified {
				return fmt.Errorf("%s: %s denied cost %d, though the true log has room even a slice later: %s",
					c.Key(), l, c.Cost, rec)
			}
			if d.Allowed && r.Mode != stint.Peek && c.Cost > 0 {
				e := event{id: d.Charge.ID, from: d.Charge.At - r.Lease.Microseconds(), at: d.Charge.At, low: c.Cost, high: c.Cost}
				if err := rec.admit(l, now, e); err != nil {
					return fmt.Errorf("%s: %w: %s", c.Key(), err, rec)
				}
			}
		}
	}
	return nil
}

// fitted checks what was charged of a cost that may be lowered: if not all of it,
// then one unit more did not fit under some limit.
func (t *Truth) fitted(now int64, r *stint.Request, cost int64) error {
	if cost < 1 || cost > r.Cost {
		return fmt.Errorf("%s: charged %d of %d", r.Key(), cost, r.Cost)
	}
	if cost == r.Cost || t.AnyDelay {
		return nil
	}
	for j := range r.Limits {
		if l := &r.Limits[j]; t.record(&r.Claim, l).full(l, now, cost+1) {
			return nil
		}
	}
	return fmt.Errorf("%s: charged %d of %d, though the true log has room for more even a slice later", r.Key(), cost, r.Cost)
}

// Amended records an amendment that applied.
func (t *Truth) Amended(now int64, charge stint.Charge, a stint.Amendment) {
	t.tick(now)
	if a.Kind != stint.Settle {
		return
	}
	claims := append([]stint.Claim{charge.Claim}, charge.And()...)
	certain := len(claims) == 1 && len(charge.Claim.Limits) == 1
	for _, c := range claims {
		for j := range c.Limits {
			if c.Cost == 0 {
				continue // was not charged
			}
			t.record(&c, &c.Limits[j]).settle(charge.ID, a.Cost, certain)
		}
	}
}

// settle bounds what a settlement made of an event. A charge from before a reset
// is unknown, one from before a step back of the clock is no longer where it was;
// if it applied all the same, it may have changed what others used since. A lease
// and a booking at its end may be taken for each other.
func (rec *record) settle(id uint64, cost int64, certain bool) {
	for i := range rec.events {
		e := &rec.events[i]
		if e.id != id || e.astray {
			continue
		}
		e.low, e.high = min(e.low, cost), max(e.high, cost)
		if certain && !slices.ContainsFunc(rec.events, func(o event) bool { return o.at == e.at && o.isLease() != e.isLease() }) {
			e.high = cost
		}
		return
	}
	rec.unsure = true
	rec.excuse(math.MaxInt64)
}

// GaveBack records that units were given back: of what had happened until now, or in
// the same slice, nobody can tell from outside which ones. What lies ahead has to stay.
func (t *Truth) GaveBack(now int64, c stint.Command) {
	t.tick(now)
	for i := range c.Limits {
		rec := t.record(&stint.Claim{Subject: c.Subject, Scope: c.Scope}, &c.Limits[i])
		rec.excuse(now + rec.maxLate)
	}
}

// Forgot records that limits of a subject were reset.
func (t *Truth) Forgot(c stint.Command) {
	for i := range c.Limits {
		delete(t.limits, limitKey{scopeKey{c.Subject, c.Scope}, c.Limits[i].ID()})
	}
}

func (t *Truth) record(c *stint.Claim, l *stint.Limit) *record {
	key := keyOf(c, l)
	if t.limits[key] == nil {
		t.limits[key] = &record{}
	}
	rec := t.limits[key]
	switch {
	case l.Algorithm == stint.Fixed:
		rec.maxLate = l.Window.Microseconds()
	case l.Algorithm == stint.Sliding && l.Capacity() > stint.Resolution:
		rec.maxLate = max(rec.maxLate, (span(l)+stint.Resolution-1)/stint.Resolution)
	}
	// Under limits that change and with leases ahead, a log may have to merge what
	// is not that close.
	rec.unsure = rec.unsure || len(rec.events) > maxEntries && (rec.leased || rec.limit != *l)
	rec.limit = *l
	return rec
}

// tick notes the clock. When it steps back, windows overlap that did not.
func (t *Truth) tick(now int64) {
	if now < t.clock {
		for _, rec := range t.limits {
			rec.unsure = true
			rec.kept = min(rec.kept, now)
			rec.excuse(math.MaxInt64)
		}
	}
	t.clock = now
}

// excuse takes events up to an instant out of what must not be exceeded: what is left
// of each nobody can tell.
func (rec *record) excuse(until int64) {
	for i := range rec.events {
		if rec.events[i].at <= until {
			rec.events[i].low, rec.events[i].astray = 0, true
		}
	}
}

// admit records an event and checks every window that contains it.
func (rec *record) admit(l *stint.Limit, now int64, e event) error {
	window := l.Window.Microseconds()
	if l.Algorithm == stint.Sliding {
		if stale := now-rec.kept > rec.keep*window; stale || rec.guessed {
			rec.excuse(now - window)
		}
		rec.excuse(now - rec.keep*window)
		empty := rec.sum(now-rec.keep*window, math.MaxInt64, true) == 0 // or may be
		certain := rec.sum(now-rec.widest*window, math.MaxInt64, false) == 0
		rec.guessed = !certain && (rec.guessed || empty)
		if times := l.BurstTimes(); times >= rec.keep || empty || now-rec.kept > rec.keep*window {
			rec.keep, rec.kept = times, now
			rec.widest = max(rec.widest, times)
		}
	}
	rec.events = append(rec.events, e)
	rec.leased = rec.leased || e.isLease()
	rec.maxLimit = max(rec.maxLimit, l.Max)
	// A window that moves forward gains something only where an event begins, so
	// those that end there are enough.
	for _, other := range rec.events {
		if err := rec.check(l, &e, other.from); err != nil {
			return err
		}
	}
	return nil
}

// check holds the window that ends at an instant, and the aligned one around it,
// against the limit that an event was admitted under, if it is in there.
func (rec *record) check(l *stint.Limit, e *event, end int64) error {
	sum := func(after, until int64) int64 {
		if !e.in(after, until) {
			return 0
		}
		return rec.sum(after, until, true)
	}
	window := l.Window.Microseconds()
	switch l.Algorithm {
	case stint.Sliding:
		if n := sum(end-span(l), end); n > l.Capacity() {
			return fmt.Errorf("%s admitted %d up to %d, within %d", l, n, end, span(l))
		}
	case stint.Bucket:
		if n := sum(end-window, end); end == e.at && n > l.Capacity()+rec.maxLimit {
			return fmt.Errorf("%s admitted %d up to %d in one window", l, n, end)
		}
	case stint.Fixed:
		start := end - end%window
		if n := sum(start-1, start+window-1); n > l.Max {
			return fmt.Errorf("%s admitted %d in the window from %d", l, n, start)
		}
		if n := sum(end-window, end); n > 2*rec.maxLimit {
			return fmt.Errorf("%s admitted %d up to %d in one window", l, n, end)
		}
	}
	return nil
}

// justified reports whether the true log, its events at most a slice later than
// they were, would deny cost units at now.
func (rec *record) justified(l *stint.Limit, now, cost int64) bool {
	if rec.unsure || l.Algorithm == stint.Bucket || l.Algorithm == stint.Concurrency {
		return true // promises nothing that the equality of answers does not cover
	}
	reach := span(l) + rec.maxLate
	if rec.sum(now-reach, now, false)+cost > l.Capacity() {
		return true
	}
	for _, end := range rec.events { // those that begin later are booked
		if end.from > now && end.from < now+reach && rec.sum(end.from-reach, end.from, false)+cost > l.Capacity() {
			return true
		}
	}
	return false
}

// full reports whether the true log, its events at most a slice later than they
// were, has no room for cost units beside all that is booked.
func (rec *record) full(l *stint.Limit, now, cost int64) bool {
	if rec.unsure || l.Algorithm == stint.Bucket {
		return true
	}
	return rec.sum(now-span(l)-rec.maxLate, math.MaxInt64, false)+cost > l.Capacity()
}

// in reports whether some of the event may have happened in (after, until].
func (e *event) in(after, until int64) bool { return e.at > after && e.from <= until }

// sum is what happened in (after, until], at least or at most.
func (rec *record) sum(after, until int64, least bool) int64 {
	var n int64
	for i := range rec.events {
		e := &rec.events[i]
		switch {
		case !e.in(after, until):
		case least:
			n += e.low
		default:
			n += e.high
		}
	}
	return n
}

func (rec *record) String() string {
	s := "events"
	for _, e := range rec.events {
		if s += fmt.Sprintf(" %d×%d", e.at, e.high); e.isLease() {
			s += fmt.Sprintf(" from %d", e.from)
		}
	}
	return s
}
