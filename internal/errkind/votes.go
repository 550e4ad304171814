package errkind

import (
	"math"
	"sync"
	"time"
)

const (
	// faultHalfLife is the time in which the weight of a vote halves. saidWeight is the weight of a
	// vote for a fault that only an answer from the store can show, such as running out of memory.
	faultHalfLife = 5 * time.Second
	saidWeight    = 4
)

// Votes determines the main fault of a store whose failures indicate different faults. For example,
// when Redis is killed, connections are refused, but the calls in progress time out.
//
// In every second with failures, each fault that they indicate gets one vote, or four votes if only
// an answer from the store can show that fault. The number of votes halves every five seconds. So
// the fault with the most votes is one that lasts, not just the latest one, and a new fault takes
// over within seconds. The dashboard, the alerts and the log report the fault with the most votes.
//
// The zero Votes is empty and ready for use. It is safe for concurrent use.
type Votes struct {
	mu   sync.Mutex
	each map[string]*vote
}

type vote struct {
	weight float64
	at     time.Time // when weight was computed
	last   error
}

// Add adds a vote for the fault that a failure indicates, unless the last vote for the same fault
// is less than a second old.
func (v *Votes) Add(err error, now time.Time) {
	fault := Diagnose(err, true)
	v.mu.Lock()
	defer v.mu.Unlock()
	one := v.each[fault]
	if one == nil {
		one = &vote{at: now.Add(-time.Hour)}
		if v.each == nil {
			v.each = map[string]*vote{}
		}
		v.each[fault] = one
	}
	one.last = err
	if now.Sub(one.at) < time.Second {
		return
	}
	weight := 1.
	switch fault {
	case Slow, Unreachable, Node, Other:
	default:
		weight = saidWeight
	}
	one.weight, one.at = one.now(now)+weight, now
}

// now returns the weight of the vote at the given time.
func (v *vote) now(now time.Time) float64 {
	return v.weight * math.Exp2(-now.Sub(v.at).Seconds()/faultHalfLife.Seconds())
}

// Fault returns the name of the fault with the most votes, and its last failure. It assumes that
// the store answers pings, so it returns [Slow] instead of [Silent]; see [Diagnose]. If there are
// no votes, it returns "" and nil.
func (v *Votes) Fault(now time.Time) (name string, last error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	most := 0.
	for n, one := range v.each {
		if w := one.now(now); w > most || w == most && n < name {
			most, name, last = w, n, one.last
		}
	}
	return name, last
}

// Clear removes all votes.
func (v *Votes) Clear() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.each)
}
