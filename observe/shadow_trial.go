package observe

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// trialMinutes is how many minutes are kept of a trial, and trialCounters how many of those it would have hit are
	// counted apart.
	trialMinutes  = 10
	trialCounters = 100
	// trialKnown is for how many subjects it can be told without a lock that they were seen in this minute.
	trialKnown = 256
)

// What is counted of a trial.
const (
	trialRequests = iota
	trialDenied
	trialCounts
)

// trial follows a rule in shadow, in bounded memory: about 250 KB if it judges many subjects, and what the names take of
// those it would have hit most. It is safe for concurrent use.
type trial struct {
	name   trialName
	limits []string
	since  time.Time
	counts tally

	minute atomic.Int64 // the number of the newest, changed with the lock held
	known  [trialKnown]atomic.Uint64

	mu      sync.Mutex
	total   record
	minutes [trialMinutes]record // by number. Their counts are of when each began.
	first   int64                // the number of the minute in which it began
	top     *sketch
}

// record is how many requests were judged and would have been denied, and the subjects of each.
type record struct {
	requests, denied int64
	seen, hit        distinct
}

func newTrial(name trialName, limits []string, minute int64) *trial {
	t := &trial{name: name, limits: limits, since: time.Now(), counts: newTally(trialCounts), first: minute, top: newSketch(trialCounters)}
	t.minute.Store(minute)
	return t
}

// judged counts a request of a subject, known by a hash too. Who was seen a moment ago and is not denied waits for nobody.
func (t *trial) judged(in shard, n *names, subject string, hash uint64, denied bool) {
	const spread = 0x9e3779b97f4a7c15 // so that no subject's mark is another's of another minute
	t.counts.add(in, trialRequests, 1)
	mark, known := hash+uint64(t.minute.Load())*spread, &t.known[hash%trialKnown]
	if denied {
		t.counts.add(in, trialDenied, 1)
		subject = n.kept(subject)
	} else if known.Load() == mark {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known.Store(mark)
	now := &t.minutes[t.minute.Load()%trialMinutes]
	t.total.seen.add(hash)
	now.seen.add(hash)
	if denied {
		t.total.hit.add(hash)
		now.hit.add(hash)
		t.top.add(subject, "", 1)
	}
}

// turn begins a minute, and forgets those that have left the window.
func (t *trial) turn(minute int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	begin := record{requests: t.counts.sum(trialRequests), denied: t.counts.sum(trialDenied)}
	for m := max(t.minute.Load()+1, minute-trialMinutes+1); m <= minute; m++ {
		t.minutes[m%trialMinutes] = begin
		t.minute.Store(m)
	}
}

// progress is a trial as of some instant.
type progress struct {
	total   record
	minutes []record // oldest first
	oldest  int64    // the number of the first of them
	top     []slot
}

// snapshot returns how the trial goes. Requests wait for it, so it does little but copy.
func (t *trial) snapshot() progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	newest := t.minute.Load()
	p := progress{total: t.total.clone(), oldest: max(t.first, newest-trialMinutes+1), top: slices.Clone(t.top.slots)}
	p.total.requests, p.total.denied = t.counts.sum(trialRequests), t.counts.sum(trialDenied)
	for m := p.oldest; m <= newest; m++ {
		p.minutes = append(p.minutes, t.minutes[m%trialMinutes].clone())
	}
	end := &p.total
	for i := len(p.minutes) - 1; i >= 0; i-- {
		m := &p.minutes[i]
		begin := *m
		m.requests, m.denied = end.requests-m.requests, end.denied-m.denied
		end = &begin
	}
	return p
}

// idle reports whether nothing was judged in the last minutes, all of which it has been there.
func (t *trial) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := t.minute.Load() - trialMinutes + 1
	return t.first < oldest && t.counts.sum(trialRequests) == t.minutes[oldest%trialMinutes].requests
}

// subjects returns those that are counted apart.
func (t *trial) subjects() (all []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.top.slots {
		all = append(all, t.top.slots[i].name)
	}
	return all
}

func (r *record) clone() record {
	return record{requests: r.requests, denied: r.denied, seen: r.seen.clone(), hit: r.hit.clone()}
}

// merge adds what another record has.
func (r *record) merge(s *record) {
	r.requests += s.requests
	r.denied += s.denied
	r.seen.merge(&s.seen)
	r.hit.merge(&s.hit)
}

// reach is the record as it is shown. Estimates may be a little too high, and there is no subject without a request.
func (r *record) reach() Reach {
	subjects := min(r.seen.count(), r.requests)
	return Reach{
		Requests: r.requests, Denied: r.denied, Subjects: subjects, Hit: min(r.hit.count(), r.denied, subjects),
		Estimated: !r.seen.exact() || !r.hit.exact(),
	}
}
