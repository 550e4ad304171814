package oracle

import (
	"fmt"
	"math"

	"github.com/stint-limiter/stint"
)

// Truth is the log of what really happened: every admitted unit at its instant,
// never merged, rounded or dropped. It checks a store's decisions against what
// the algorithms promise in any window, knowing nothing of how they count.
//
// Feed it every decision, amendment and reset in order, with the clock at which
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
	maxLimit   int64 // largest Max that admitted anything
	maxLate    int64 // how late room may come back: one slice of the longest span
	limit      stint.Limit
	unsure     bool // how late is not known: the clock stepped back
	mixed      bool // under slices of several lengths a charge may share another's stamp
}

// event is an admission. What a settlement made of it on one limit of several is
// not always known from outside; low and high bound it.
type event struct {
	id        uint64
	at        int64
	low, high int64
}

// Took records a decision made at now and checks it.
func (t *Truth) Took(now int64, r stint.Request, d stint.Decision) error {
	t.tick(now)
	if d.Repeat {
		return nil
	}
	states, i := d.States(), 0
	for _, c := range append([]stint.Claim{r.Claim}, r.And...) {
		for j := range c.Limits {
			l, state := &c.Limits[j], &states[i]
			i++
			rec := t.record(&c, l)
			if !t.AnyDelay && state.RetryAfter > 0 && !rec.justified(l, now, c.Cost) {
				return fmt.Errorf("%s: %s denied cost %d, though the true log has room even a slice later: %s",
					c.Key(), l, c.Cost, rec)
			}
			if d.Allowed && r.Mode != stint.Peek && c.Cost > 0 {
				if err := rec.admit(l, now, event{d.Charge.ID, d.Charge.At, c.Cost, c.Cost}); err != nil {
					return fmt.Errorf("%s: %w: %s", c.Key(), err, rec)
				}
			}
		}
	}
	return nil
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
// is unknown; if it applied all the same, it changed what others used since.
func (rec *record) settle(id uint64, cost int64, certain bool) {
	for i := range rec.events {
		e := &rec.events[i]
		if e.id != id {
			continue
		}
		e.low, e.high = min(e.low, cost), max(e.high, cost)
		if certain && !rec.mixed {
			e.high = cost
		}
		return
	}
	rec.unsure = true
	rec.excuse(math.MaxInt64)
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
	// Under limits that change, a log may have to merge what is not that close.
	rec.unsure = rec.unsure || len(rec.events) > maxEntries && rec.limit != *l
	rec.mixed = rec.mixed || rec.limit.Window > 0 && slice(&rec.limit) != slice(l)
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

// excuse takes events up to an instant out of what must not be exceeded.
func (rec *record) excuse(until int64) {
	for i := range rec.events {
		if rec.events[i].at <= until {
			rec.events[i].low = 0
		}
	}
}

// admit records an event and checks every window that contains it.
func (rec *record) admit(l *stint.Limit, now int64, e event) error {
	window := l.Window.Microseconds()
	if l.Algorithm == stint.Sliding {
		if stale := now-rec.kept > rec.keep*window; stale {
			rec.excuse(now - window)
		}
		rec.excuse(now - rec.keep*window)
		empty := rec.sum(now-rec.keep*window, math.MaxInt64, true) == 0 // or may be
		if times := l.BurstTimes(); times >= rec.keep || empty || now-rec.kept > rec.keep*window {
			rec.keep, rec.kept = times, now
		}
	}
	rec.events = append(rec.events, e)
	rec.maxLimit = max(rec.maxLimit, l.Max)
	switch l.Algorithm {
	case stint.Sliding:
		for _, end := range rec.events {
			if end.at < e.at || end.at >= e.at+span(l) {
				continue
			}
			if n := rec.sum(end.at-span(l), end.at, true); n > l.Capacity() {
				return fmt.Errorf("%s admitted %d up to %d, within %d", l, n, end.at, span(l))
			}
		}
	case stint.Bucket:
		if n := rec.sum(e.at-window, e.at, true); n > l.Capacity()+rec.maxLimit {
			return fmt.Errorf("%s admitted %d up to %d in one window", l, n, e.at)
		}
	case stint.Fixed:
		start := e.at - e.at%window
		if n := rec.sum(start-1, start+window-1, true); n > l.Max {
			return fmt.Errorf("%s admitted %d in the window from %d", l, n, start)
		}
		if n := rec.sum(e.at-window, e.at, true); n > 2*rec.maxLimit {
			return fmt.Errorf("%s admitted %d up to %d in one window", l, n, e.at)
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
	for _, end := range rec.events {
		if end.at > now && end.at < now+reach && rec.sum(end.at-reach, end.at, false)+cost > l.Capacity() {
			return true
		}
	}
	return false
}

// sum is what happened in (after, until], at least or at most.
func (rec *record) sum(after, until int64, least bool) int64 {
	var n int64
	for _, e := range rec.events {
		switch {
		case e.at <= after || e.at > until:
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
		s += fmt.Sprintf(" %d×%d", e.at, e.high)
	}
	return s
}
