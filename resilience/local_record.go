package resilience

import (
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// record is what is known of a subject in a scope beside its counts. There is one if others have
// used its limits, or if something was granted without the store.
type record struct {
	subject, scope string
	limits         []*known
	sent           []*sending // what is being charged
	owing          bool       // there is something to charge
	resetAt        int64      // when something of it was last reset
	at             int64      // the store's instant of the last answer,
	answeredAt     int64      // and when it arrived
}

// known is what is known of one limit.
type known struct {
	limit    stint.Limit
	others   others
	answered bool   // the store has answered since the last local decision
	reset    uint64 // the number of its last reset

	// uncharged units were granted without the store, and are not known to be charged: the answer
	// is late, or they are owed. Grants are those that are owed and not being charged.
	uncharged   int64
	unchargedAt int64 // when the last of them was granted
	grants      []grant
	recent      []recent

	// places are held without the store, which learns of them by their holders' heartbeats.
	places   int64
	placesAt int64
}

// recent is units that were uncharged until a step: the answer to a request made before that step
// may not count them, unless the request itself had them charged.
type recent struct {
	step      uint64
	at, units int64
	by        *sending
}

// of returns what is known of a limit, or nil.
func (r *record) of(l *stint.Limit) *known {
	if r == nil {
		return nil
	}
	for _, k := range r.limits {
		if contract.SameID(&k.limit, l) {
			return k
		}
	}
	return nil
}

// limit returns what is known of a limit, nothing if it is new.
func (r *record) limit(l *stint.Limit) *known {
	k := r.of(l)
	if k == nil {
		k = &known{limit: *l}
		k.limit.Name = strings.Clone(l.Name)
		r.limits = append(r.limits, k)
	}
	k.limit.Max, k.limit.Burst = l.Max, l.Burst
	return k
}

// needed reports that a record must not be forgotten: something of it is not charged, or was reset
// a moment ago.
func (r *record) needed(now int64) bool {
	if r.owing || r.resetAt > 0 && now-r.resetAt < int64(recentTime) {
		return true
	}
	for _, k := range r.limits {
		if k.uncharged > 0 && now-k.unchargedAt < int64(counts(&k.limit)) || k.placesNow(now) > 0 {
			return true
		}
	}
	return false
}

// most is the largest part of a limit that others have used.
func (r *record) most(now int64) (most float64) {
	for _, k := range r.limits {
		most = max(most, float64(k.others.left(now))/float64(max(k.limit.Capacity(), 1)))
	}
	return most
}

// othersOf is what others have used of a limit.
func (r *record) othersOf(l *stint.Limit, now int64) int64 {
	if k := r.of(l); k != nil {
		return k.others.left(now)
	}
	return 0
}

// answeredSince reports whether the store has answered about one of the limits since this was last
// asked.
func (r *record) answeredSince(limits []stint.Limit) (answered bool) {
	for j := range limits {
		if k := r.of(&limits[j]); k != nil && k.answered {
			answered, k.answered = true, false
		}
	}
	return answered
}

// others is what other processes have used of a limit.
type others struct {
	units       int64
	from, until int64
	steady      bool // all of it expires at once, at the end
}

// left is how much of it counts now. It is known when the last of its units leaves its window, and
// not when the others do: they are taken to have been used evenly.
func (o *others) left(now int64) int64 {
	if o.units == 0 || now >= o.until {
		return 0
	}
	if o.steady || now <= o.from {
		return o.units
	}
	high, low := bits.Mul64(uint64(o.units), uint64(o.until-now))
	quotient, rest := bits.Div64(high, low, uint64(o.until-o.from))
	if rest > 0 {
		quotient++
	}
	return int64(quotient)
}

// whenAtMost is how long it takes until others use no more than so many units.
func (o *others) whenAtMost(now, room int64) time.Duration {
	left := o.left(now)
	switch {
	case left <= room:
		return 0
	case o.steady || room <= 0:
		return time.Duration(o.until - now)
	}
	// The line reaches room at the instant at which left is room.
	high, low := bits.Mul64(uint64(o.until-o.from), uint64(room))
	ahead, _ := bits.Div64(high, low, uint64(o.units))
	return max(time.Duration(o.until-int64(ahead)-now), 0)
}

// asking is when a request was made, and what was charged before it in the same call.
type asking struct {
	step    uint64 // of the local store, before it
	carried []*owedCall
}

func (q *asking) carries(s *sending) bool {
	return s != nil && slices.ContainsFunc(q.carried, func(o *owedCall) bool { return o.sending == s })
}

// unchargedFor is how many units may count in a limit that the store's answer does not count.
func (k *known) unchargedFor(q *asking, now int64) int64 {
	if k.limit.Algorithm == stint.AlgorithmConcurrency {
		return k.placesNow(now)
	}
	n := int64(0)
	if now-k.unchargedAt <= int64(counts(&k.limit)) {
		n = k.uncharged
	}
	for _, r := range k.recent {
		if r.step > q.step && now-r.at < int64(recentTime) && !q.carries(r.by) {
			n += r.units
		}
	}
	return n
}

const (
	// recentTime is longer than any caller waits for an answer, and maxRecent how many steps are
	// remembered.
	recentTime = 10 * time.Second
	maxRecent  = 8
)

// grant counts units as uncharged. Those before them may have expired.
func (k *known) grant(units, now, at int64) {
	if now-k.unchargedAt > int64(counts(&k.limit)) {
		k.uncharged = 0
	}
	k.uncharged += units
	k.unchargedAt = max(k.unchargedAt, at)
}

// charged notes that the store counts units, from a step on.
func (k *known) charged(units, now int64, step uint64, by *sending) {
	if units = min(units, k.uncharged); units == 0 {
		return
	}
	k.uncharged -= units
	if len(k.recent) == maxRecent {
		k.recent = slices.Delete(k.recent, 0, 1)
	}
	k.recent = append(k.recent, recent{step, now, units, by})
}

// placesNow is how many places the store may not know of. They expire without a heartbeat.
func (k *known) placesNow(now int64) int64 {
	if now-k.placesAt > int64(k.limit.Window) {
		k.places = 0
	}
	return k.places
}

// counts is how long a unit may count in a limit. For one that refills that is not known: what was
// used before may take all that is refilled. So it is a few times what it takes to refill all of
// it.
func counts(l *stint.Limit) time.Duration {
	if l.Algorithm == stint.AlgorithmBucket || contract.HasMeter(l) {
		return refills * l.Window * time.Duration(max(ceilDiv(l.Capacity(), max(l.Max, 1)), 1))
	}
	return l.Window
}

const refills = 4
