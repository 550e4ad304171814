package observe

import (
	"math"
	"time"

	"github.com/stint-limiter/stint/internal/errkind"
)

const (
	// faultHalfLife is after how long a failure counts half, and saidWeight how many times as much
	// one counts that the store itself has explained.
	faultHalfLife = 5 * time.Second
	saidWeight    = 4
)

// votes find out what is wrong with a store that fails in several ways. When a Redis is killed,
// calls in progress time out; when it is full and the machine is busy, some answers are late. Every
// second with a failure of some kind is a vote for that kind, four if the store replied with it.
// Votes halve every five seconds. So the fault is the one that lasts, whatever fails last, and a
// new one takes over within seconds.
type votes map[string]*vote

type vote struct {
	weight float64
	at     time.Time // when weight was right
	text   string    // the last failure
}

func (v votes) add(kind, text string, now time.Time) {
	one := v[kind]
	if one == nil {
		one = &vote{at: now.Add(-time.Hour)}
		v[kind] = one
	}
	one.text = text
	if now.Sub(one.at) < time.Second {
		return
	}
	weight := 1.
	switch kind {
	case errkind.Slow, errkind.Unreachable, errkind.Node, errkind.Other:
	default:
		weight = saidWeight
	}
	one.weight, one.at = one.now(now)+weight, now
}

// now is the weight at a time.
func (v *vote) now(now time.Time) float64 {
	return v.weight * math.Exp2(-now.Sub(v.at).Seconds()/faultHalfLife.Seconds())
}

// fault returns the kind with most votes, "" if there are none, and its last failure.
func (v votes) fault(now time.Time) (kind, text string) {
	most := 0.
	for k, one := range v {
		if w := one.now(now); w > most || w == most && k < kind {
			most, kind, text = w, k, one.text
		}
	}
	return kind, text
}
