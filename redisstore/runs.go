package redisstore

import (
	"slices"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// These bounds limit one script call, because the server serves no other client during the call.
const (
	maxRuns  = 128
	maxParts = 128
	maxEqual = 1024
)

// sameTime is the maximum difference between the deadlines of equal requests that are decided
// together. The earliest of their deadlines applies.
const sameTime = 2 * time.Millisecond

// run is a group of equal requests that are decided together, in the order of the batch.
type run struct {
	calls    []*driver.Call
	deadline time.Time // the earliest deadline of the calls
	joinable bool      // see canJoin
	parts    int       // number of parts of each request

	// shape is the hash of the claims of a request with an ID; see contract.Shape. If the request
	// is a part of a request that was split (see split.go), run.of is the whole request, and
	// elsewhere has the charges of the other parts.
	shape     uint32
	of        *stint.Request
	elsewhere *stint.Charge
}

// whole returns the request that the run's request is a part of, or the request itself.
func (q *run) whole() *stint.Request {
	if q.of != nil {
		return q.of
	}
	return &q.calls[0].Request
}

type plan struct {
	runs []run
	last map[string]int // index of the last run of each subject
}

var plans = sync.Pool{New: func() any { return &plan{last: map[string]int{}} }}

func newPlan() *plan { return plans.Get().(*plan) }

func (p *plan) free() {
	for i := range p.runs {
		clear(p.runs[i].calls)
		p.runs[i].calls = p.runs[i].calls[:0]
	}
	p.runs = p.runs[:0]
	clear(p.last)
	plans.Put(p)
}

// add adds the call to the last run of its subject if the requests of that run are equal to its
// own, or else to a new run. Requests of other subjects may be in between, because different
// subjects do not affect each other.
func (p *plan) add(c *driver.Call) {
	r := &c.Request
	joinable := canJoin(r)
	if joinable {
		if n := len(p.runs); n > 0 && p.runs[n-1].join(c) {
			return
		}
		if i, ok := p.last[r.Claims[0].Subject]; ok && p.runs[i].join(c) {
			return
		}
	}
	if len(p.runs) < cap(p.runs) {
		p.runs = p.runs[:len(p.runs)+1]
	} else {
		p.runs = append(p.runs, run{})
	}
	i := len(p.runs) - 1
	next := &p.runs[i]
	next.calls, next.deadline, next.joinable = append(next.calls[:0], c), c.Deadline, joinable
	for k := range r.Claims {
		p.last[r.Claims[k].Subject] = i
	}
}

// canJoin reports whether equal requests can be decided as one: a denial must have no side effect,
// a charge must have no request ID, and the usage after the last request must suffice to compute
// the usage after each of the others. With a meter, it does not suffice, because each charge
// changes the time of the reset.
func canJoin(r *stint.Request) bool {
	if r.Mode != stint.ModeTake || r.ID != "" || r.Hold != 0 || len(r.Claims) > 1 || r.Claims[0].Costs != nil ||
		r.Terms().Fit || r.Terms().Lease > 0 ||
		r.Bans != nil && r.Bans.After > 0 {
		return false
	}
	c := &r.Claims[0]
	return c.Cost > 0 && c.Cost <= stint.MaxUnits/maxEqual && uniform(c.Limits) &&
		!slices.ContainsFunc(c.Limits, func(l stint.Limit) bool { return contract.HasMeter(&l) })
}

// join adds a call to the run if its request is equal to those in the run, and reports whether it
// did.
func (q *run) join(c *driver.Call) bool {
	if !q.joinable || len(q.calls) == maxEqual || !equal(&q.calls[0].Request, &c.Request) ||
		q.deadline.IsZero() != c.Deadline.IsZero() || c.Deadline.Sub(q.deadline).Abs() > sameTime {
		return false
	}
	if c.Deadline.Before(q.deadline) {
		q.deadline = c.Deadline
	}
	q.calls = append(q.calls, c)
	return true
}

// equal reports whether two requests, for which canJoin is true, are equal.
func equal(r, s *stint.Request) bool {
	a, b := &r.Claims[0], &s.Claims[0]
	return a.Subject == b.Subject && a.Scope == b.Scope && a.Cost == b.Cost && a.Shared == b.Shared &&
		(r.Bans == nil) == (s.Bans == nil) && len(a.Limits) == len(b.Limits) &&
		(&a.Limits[0] == &b.Limits[0] || slices.Equal(a.Limits, b.Limits)) // usually the same slice
}

// firstChunk returns how many of the runs go into one script call.
func firstChunk(runs []run) int {
	n, parts := 1, runs[0].most()
	for n < len(runs) && n < maxRuns {
		if parts += runs[n].most(); parts > maxParts {
			break
		}
		n++
	}
	return n
}

// most returns an upper bound on the number of parts in each of the run's requests.
func (q *run) most() int {
	r := &q.calls[0].Request
	if len(r.Claims) == 1 && uniform(r.Claims[0].Limits) {
		return 1
	}
	return contract.CountLimits(r.Claims)
}

// bySubject groups the runs by subject, because different subjects may be on different nodes.
func (p *plan) bySubject() [][]run {
	if len(p.runs) == len(p.last) { // the usual case
		return slices.Collect(slices.Chunk(p.runs, 1))
	}
	var out [][]run
	of := map[string]int{}
	for _, q := range p.runs {
		subject := q.calls[0].Request.Claims[0].Subject
		i, known := of[subject]
		if !known {
			i = len(out)
			of[subject] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], q)
	}
	return out
}
