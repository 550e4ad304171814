package observe

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/denialid"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/reload"
	"github.com/stint-limiter/stint/policy"
)

const (
	// maxDenials is the maximum number of records of denials. denialLife is the time for which
	// records are kept by default.
	maxDenials = 20_000
	denialLife = 24 * time.Hour
	// denialSpan is the period within which denials of a subject by one rule and for one reason
	// share one record.
	denialSpan = time.Minute
	// denialPast is the period before a denial in which Why looks for other denials that explain
	// it, such as the denials that led to a ban.
	denialPast = 10 * time.Minute
)

// denials records why subjects were denied. All denials of a subject by one rule and for one reason
// within a minute share one record. So a flood from one address adds only a few records per minute.
// denials is safe for concurrent use.
type denials struct {
	names    *names
	life     time.Duration
	instance string

	mu      sync.Mutex
	config  time.Time // when the current policies took effect
	changes []*change // the last changes, oldest first
	each    []record  // a ring buffer
	next    position
	latest  map[who]position // the position of the last record with each key
}

// who is the key of a record: the subject, the rule and the reason of its denials. Records of
// different minutes may have the same key.
type who struct {
	subject, tier, policy string
	why                   reason
}

// position is the number of a record, counted from the first record ever added.
type position int

type record struct {
	who
	nth         position
	route       string
	state       stint.State // the limit that denied the request, with its usage; its Limit is nil if none did
	limit       stint.Limit
	first, last time.Time
	count       int64
	retryAfter  time.Duration
	degraded    bool
	config      time.Time
}

func newDenials(n *names, c *Config) *denials {
	life := c.KeepDenials
	if life == 0 {
		life = denialLife
	}
	return &denials{names: n, life: life, instance: c.Alerts.Instance, latest: map[who]position{}}
}

// add counts a denial by the rule of a series. The argument result is the result that denied the
// request, or nil if a ban or an unavailable store did. In a flood, only a sample of the denials is
// added, and each represents weight denials.
func (d *denials) add(s *series, why reason, v *policy.Verdict, result *policy.Result, weight int64) {
	if d.life < 0 {
		return
	}
	now := time.Now()
	key := who{d.names.kept(v.Subject()), s.name.tier, s.name.policy, why}
	d.mu.Lock()
	defer d.mu.Unlock()
	nth, ok := d.latest[key]
	for _, c := range d.changes {
		c.denied(&key, !ok, weight)
	}
	if !ok || now.Sub(d.at(nth).first) >= denialSpan {
		nth = d.begin(key, now)
	}
	r := d.at(nth)
	r.last, r.route, r.retryAfter, r.degraded = now, v.Route, v.Decision.RetryAfter, v.Decision.Degraded
	r.count++
	if result != nil {
		r.state = result.Decisive()
		r.limit = *r.state.Limit
		r.state.Limit = &r.limit
	}
}

// begin adds a new record for key and returns its position. If the ring is full, the record
// replaces the oldest one.
func (d *denials) begin(key who, now time.Time) position {
	nth := d.next
	if d.next++; len(d.each) < maxDenials {
		d.each = append(d.each, record{})
	} else {
		d.forget(d.at(nth))
	}
	*d.at(nth) = record{who: key, nth: nth, first: now, config: d.config}
	d.latest[key] = nth
	return nth
}

func (d *denials) at(nth position) *record { return &d.each[nth%maxDenials] }

// forget removes a record, so that a new one can replace it.
func (d *denials) forget(r *record) {
	if d.latest[r.who] == r.nth {
		delete(d.latest, r.who)
	}
	*r = record{}
}

func (d *denials) expire(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.each {
		if r := &d.each[i]; !r.first.IsZero() && now.Sub(r.last) > d.life {
			d.forget(r)
		}
	}
}

func (d *denials) reloaded(source string, r *reload.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if source == "policies" {
		d.config = r.At
	}
	if len(r.Changes) == 0 {
		return
	}
	if d.changes = append(d.changes, newChange(source, r)); len(d.changes) > maxChanges {
		d.changes = slices.Delete(d.changes, 0, 1)
	}
}

// find returns the records for which wants returns true, oldest first.
func (d *denials) find(wants func(*record) bool) []Denial {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := []Denial{}
	now := time.Now()
	for i := range d.each {
		if r := &d.each[i]; !r.first.IsZero() && now.Sub(r.last) <= d.life && wants(r) {
			found = append(found, d.show(r))
		}
	}
	return sortDenials(found)
}

func (d *denials) show(r *record) Denial {
	shown := Denial{
		ID:      denialid.New(r.last, r.subject).String(),
		Subject: d.names.label(r.subject), Ref: d.names.ref(r.subject),
		Tier: label.Line(r.tier), Policy: label.Line(r.policy), Route: label.Line(r.route), Reason: r.why.String(),
		First: r.first, Last: r.last, Count: r.count, RetryAfter: r.retryAfter.Seconds(), Degraded: r.degraded,
		ConfigSince: r.config, Instance: d.instance,
	}
	if r.state.Limit != nil {
		shown.Limit, shown.Used, shown.Max = label.Line(r.limit.String()), r.state.Used, r.limit.Max
	}
	if r.retryAfter == stint.Never {
		shown.RetryAfter = -1
	}
	return shown
}

func (d *denials) subjects() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string]bool{}
	for i := range d.each {
		if !d.each[i].first.IsZero() {
			all[d.each[i].subject] = true
		}
	}
	return slices.Collect(maps.Keys(all))
}

// Why explains the denial with the given id, which is in the response to the denied request. The
// last element of the list is that denial. The elements before it are other denials of the subject
// in the preceding ten minutes, which may explain a ban. If this process does not know the id, Why
// asks the processes that share their counts with it, which takes a few seconds. If no process has
// a record of the denial, the list is empty.
func (m *Monitor) Why(ctx context.Context, id string) []Denial {
	list := m.why(id)
	if f := m.fleet.Load(); f != nil && len(list) == 0 {
		list = sortDenials(f.ask(ctx, question{ID: id}))
	}
	return list
}

// why does the same as Why, but only for this process.
func (m *Monitor) why(id string) []Denial {
	named, ok := denialid.Parse(id)
	if !ok {
		return []Denial{}
	}
	at := named.Time()
	list := m.denials.find(func(r *record) bool {
		return named.Of(r.subject) && r.first.Before(at.Add(2*time.Second)) && r.last.After(at.Add(-denialPast))
	})
	if n := len(list); n > 0 && list[n-1].Last.Before(at.Add(-time.Second)) {
		return []Denial{} // only earlier denials are recorded, not the denial itself
	}
	return list
}

// Denials lists the recorded denials of a subject, oldest first. If at is zero, it lists all of
// them. Otherwise, it lists only those in the ten minutes before and the minute after that time. It
// also asks the processes that share their counts with this one; each of them returns at most its
// last ten denials.
func (m *Monitor) Denials(ctx context.Context, subject string, at time.Time) []Denial {
	list := m.denialsOf(subject, at)
	f := m.fleet.Load()
	if f == nil {
		return list
	}
	if name := f.named(subject); name != "" {
		list = append(list, f.ask(ctx, question{Subject: name, At: at})...)
	}
	return sortDenials(list)
}

func sortDenials(list []Denial) []Denial {
	slices.SortStableFunc(list, func(a, b Denial) int { return a.Last.Compare(b.Last) })
	return list
}

// denialsOf does the same as Denials, but only for this process.
func (m *Monitor) denialsOf(subject string, at time.Time) []Denial {
	kept := m.names.kept(subject)
	return m.denials.find(func(r *record) bool {
		return r.subject == kept &&
			(at.IsZero() || r.first.Before(at.Add(denialSpan)) && r.last.After(at.Add(-denialPast)))
	})
}
