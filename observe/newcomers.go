package observe

import (
	"hash/maphash"
	"math"
	"math/bits"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/policy"
)

const (
	// sampleSize is the number of slots of a sample; at most half of them are used. sampleTries is
	// the maximum number of slots that are tried for a subject.
	sampleSize  = 8192
	sampleTries = 16
	// sampleLife is the time for which a subject stays in the sample after its last request.
	sampleLife = time.Hour
	// sampleFade is the factor by which the request count of a subject is multiplied every second,
	// so that the count covers about the last half minute.
	sampleFade = 1 - 1./30
)

// newcomers detects new subjects, in bounded memory and without a lock. It keeps a sample of the
// subjects of the last hour: those whose hashes end with at least a certain number of zero bits.
// When the sample is full and few of its subjects have expired, it increases that number by one,
// which halves the sample.
//
// Requests only add subjects and increment counters; the goroutine that calls tick does everything
// else.
type newcomers struct {
	start time.Time
	seed  maphash.Seed
	table atomic.Pointer[sample]
}

type sample struct {
	bits  int // the number of low bits of the hashes that must be zero
	used  atomic.Int64
	full  atomic.Bool
	slots [sampleSize]sampled
}

type sampled struct {
	hash     atomic.Uint64 // 0 marks a free slot
	kind     atomic.Int32  // an index of offenderKinds
	requests atomic.Int64  // number of requests since the last tick

	// first and last are times since the start. first is 0 until the first tick after the subject
	// is added.
	first, last time.Duration
	lately      float64 // decaying number of requests: multiplied by sampleFade every second
}

func newNewcomers() *newcomers {
	n := &newcomers{start: time.Now(), seed: maphash.MakeSeed()}
	n.table.Store(&sample{})
	return n
}

// allowed counts a request under the first of its subjects that is not shared by all requests. It
// is called on the request path, so it must be fast.
func (n *newcomers) allowed(results []policy.Result) {
	for i := range results {
		if !results[i].Shared {
			n.came(results[i].Subject)
			return
		}
	}
}

// came counts a request if the hash of its subject ends with enough zero bits for the sample.
func (n *newcomers) came(subject string) {
	hash := maphash.String(n.seed, subject)
	t := n.table.Load()
	if bits.TrailingZeros64(hash) < t.bits || hash == 0 {
		return
	}
	if s := t.find(hash, subject); s != nil {
		s.requests.Add(1)
	}
}

// find returns the slot of a subject. If the subject has none, it takes a free slot. If no slot is
// free for the subject, it returns nil and marks the sample as full.
func (t *sample) find(hash uint64, subject string) *sampled {
	for i := range uint64(sampleTries) {
		s := &t.slots[(hash>>32+i)%sampleSize]
		if s.hash.Load() == hash {
			return s
		}
		if t.used.Load() < sampleSize/2 && s.hash.CompareAndSwap(0, hash) {
			s.kind.Store(int32(kindOf(subject)))
			t.used.Add(1)
			return s
		}
		if s.hash.Load() == hash { // another request has just added it
			return s
		}
	}
	t.full.Store(true)
	return nil
}

// tick is called once a second. It updates the subjects in the sample. If the sample is full, or if
// many subjects have expired, it replaces the sample.
func (n *newcomers) tick(at time.Time) {
	t, now := n.table.Load(), at.Sub(n.start)
	gone := 0
	for i := range t.slots {
		s := &t.slots[i]
		if s.hash.Load() == 0 {
			continue
		}
		came := s.requests.Swap(0)
		if s.first == 0 {
			s.first, s.last = now, now
		}
		if came > 0 {
			s.last = now
		}
		s.lately = s.lately*sampleFade + float64(came)
		if now-s.last > sampleLife {
			gone++
		}
	}
	switch {
	case t.full.Load() && gone < sampleSize/8:
		n.table.Store(t.without(now, t.bits+1))
	case t.full.Load() || gone >= sampleSize/8:
		n.table.Store(t.without(now, t.bits))
	}
}

// without returns a copy of the sample that omits the expired subjects and those whose hashes end
// with fewer zero bits than the given number.
func (t *sample) without(now time.Duration, zeros int) *sample {
	kept := &sample{bits: zeros}
	for i := range t.slots {
		s := &t.slots[i]
		hash := s.hash.Load()
		if hash == 0 || bits.TrailingZeros64(hash) < zeros || now-s.last > sampleLife {
			continue
		}
		if to := kept.find(hash, ""); to != nil {
			to.kind.Store(s.kind.Load())
			to.requests.Store(s.requests.Load())
			to.first, to.last, to.lately = s.first, s.last, s.lately
		}
	}
	return kept
}

// since describes the new subjects, those first seen after the given time. It returns the estimated
// number of subjects of their most common kind, that kind, and the share of the requests in about
// the last half minute that came from new subjects of any kind.
func (n *newcomers) since(at time.Time) (count int64, kind string, share float64) {
	t := n.table.Load()
	var kinds [len(offenderKinds)]int64
	var theirs, all float64
	for i := range t.slots {
		s := &t.slots[i]
		if s.first == 0 {
			continue
		}
		all += s.lately
		if s.first > at.Sub(n.start) {
			theirs += s.lately
			kinds[s.kind.Load()]++
		}
	}
	most := 0
	for k := range kinds {
		if kinds[k] > kinds[most] {
			most = k
		}
	}
	if all > 0 {
		share = theirs / all
	}
	return kinds[most] << t.bits, offenderKinds[most], share
}

// exact reports whether the sample contains all subjects.
func (n *newcomers) exact() bool { return n.table.Load().bits == 0 }

// roughly rounds a number to two significant digits and formats it with thousands separators, as in
// "3,100".
func roughly(n int64) string {
	if unit := int64(math.Pow10(len(strconv.FormatInt(n, 10)) - 2)); unit > 1 {
		n = (n + unit/2) / unit * unit
	}
	return figures.Number(n)
}
