package algorithm

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// step is one request of a scenario: at a time, for a cost, and what is wanted.
// A wait of 0 wants it allowed.
type step struct {
	at   time.Duration
	cost int64
	wait time.Duration // Never: no waiting helps
	used int64         // afterwards
}

const never = stint.Never

// start is a multiple of every window and slice that is used here.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// state is one limit's state behind the methods that all algorithms share.
type state interface {
	open(p *Params, now int64, look bool) view
}

type view interface {
	Used() int64
	Reset() int64
	Earliest(from, cost int64) int64
	Settle(at, cost, truth int64) bool
	charge(cost int64)
	Book(at, cost int64)
}

type logState struct{ Log }
type logView struct{ LogView }

func (s *logState) open(p *Params, now int64, look bool) view {
	v := new(logView)
	v.Open(&s.Log, p, now, look)
	return v
}
func (v *logView) charge(cost int64) { v.Charge(cost) }

type bucketState struct{ Bucket }
type bucketView struct{ BucketView }

func (s *bucketState) open(p *Params, now int64, look bool) view {
	v := new(bucketView)
	v.Open(&s.Bucket, p, now, look)
	return v
}
func (v *bucketView) charge(cost int64) { v.Charge(cost) }

func newState(l stint.Limit) state {
	if l.Algorithm == stint.Bucket {
		return new(bucketState)
	}
	return new(logState)
}

// run takes the steps of a scenario one after the other.
func run(t *testing.T, l stint.Limit, steps []step) {
	t.Helper()
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	p, s := Of(&l), newState(l)
	for i, x := range steps {
		now := start + x.at.Microseconds()
		v := s.open(&p, now, false)
		at := v.Earliest(now, x.cost)
		if at == now && x.cost > 0 {
			v.charge(x.cost)
		}
		wait := never
		if at != Never {
			wait = time.Duration(at-now) * time.Microsecond
		}
		if wait != x.wait || v.Used() != x.used {
			t.Errorf("%v: step %d at %v, cost %d: wait %v, used %d; want %v, %d", l, i, x.at, x.cost, wait, v.Used(), x.wait, x.used)
		}
	}
}

const (
	us = time.Microsecond
	s  = time.Second
)

func TestSliding(t *testing.T) {
	run(t, stint.PerSecond(3), []step{
		{0, 1, 0, 1},
		{s / 2, 1, 0, 2},
		{s/2 + 1*us, 1, 0, 3},
		{s - 1*us, 1, 1 * us, 3},
		{s, 1, 0, 3},
		{s, 1, s / 2, 3},
		{s, 3, s, 3},
		{s, 4, never, 3},
		{s, 0, 0, 3},
		{3 * s, 3, 0, 3},
		{3 * s, 1, s, 3},
	})
}

func TestSlidingInSlices(t *testing.T) {
	// Slices of 8 ms: what is charged at 1 ms counts as if at 8 ms.
	run(t, stint.PerSecond(1000), []step{
		{1 * time.Millisecond, 600, 0, 600},
		{7 * time.Millisecond, 300, 0, 900},
		{8 * time.Millisecond, 100, 0, 1000},
		{9 * time.Millisecond, 1, s - 1*time.Millisecond, 1000},
		{s + 8*time.Millisecond - 1*us, 1, 1 * us, 1000},
		{s + 8*time.Millisecond, 900, 0, 1000},
		{s + 8*time.Millisecond, 1, 8 * time.Millisecond, 1000},
	})
}

func TestBurst(t *testing.T) {
	run(t, stint.PerSecond(2).WithBurst(3), []step{
		{0, 6, 0, 6},
		{1 * s, 1, 2 * s, 6},
		{3*s - 1*us, 1, 1 * us, 6},
		{3 * s, 6, 0, 6},
	})
}

func TestFixed(t *testing.T) {
	run(t, stint.Limit{Max: 2, Window: s, Algorithm: stint.Fixed}, []step{
		{s - 1*us, 2, 0, 2},
		{s - 1*us, 1, 1 * us, 2},
		{s, 2, 0, 2},
		{s + s/4, 1, 3 * s / 4, 2},
		{2 * s, 3, never, 0},
	})
}

func TestLimitOfZeroDenies(t *testing.T) {
	for a := range stint.Concurrency {
		run(t, stint.Limit{Window: s, Algorithm: a}, []step{{0, 1, never, 0}, {0, 0, never, 0}, {s, 1, never, 0}})
	}
}

func TestClockStepsBack(t *testing.T) {
	run(t, stint.PerSecond(2), []step{
		{10 * s, 1, 0, 1},
		{10*s + s/2, 1, 0, 2},
		{2 * s, 1, s / 2, 2}, // an hour ago it would be the same
		{2*s + s/2, 1, 0, 2},
		{3 * s, 1, 0, 2},
	})
	run(t, stint.Limit{Max: 2, Window: s, Algorithm: stint.Bucket}, []step{
		{10 * s, 2, 0, 2},
		{2 * s, 1, s / 2, 2},
		{2*s + s/2, 1, 0, 2},
	})
}

func TestLookingWritesNothing(t *testing.T) {
	for _, l := range []stint.Limit{stint.PerSecond(2), stint.TokenBucket(2, 2, s)} {
		p, state := Of(&l), newState(l)
		v := state.open(&p, start+10*s.Microseconds(), false)
		v.charge(1)
		v.Book(start+12*s.Microseconds(), 1)
		for _, now := range []int64{start, start + 20*s.Microseconds()} {
			state.open(&p, now, true).Earliest(now, 1)
		}
		if v = state.open(&p, start+10*s.Microseconds(), false); v.Used() != 2 || v.Reset() < 2*s.Microseconds() {
			t.Errorf("%v: used %d, reset %d after looks", l, v.Used(), v.Reset())
		}
	}
}

func TestSmallerBurstKeepsHistoryForLarger(t *testing.T) {
	small, large := stint.PerSecond(2), stint.PerSecond(2).WithBurst(3)
	ps, pl := Of(&small), Of(&large)
	var log Log
	var v LogView
	at := func(p *Params, now time.Duration, cost, wantUsed int64) {
		t.Helper()
		v.Open(&log, p, start+now.Microseconds(), false)
		if v.Charge(cost); v.Used() != wantUsed {
			t.Errorf("at %v used %d, want %d", now, v.Used(), wantUsed)
		}
	}
	at(&pl, 0, 4, 4)
	at(&ps, 2*s, 1, 1)
	at(&pl, 2*s+s/2, 1, 6) // the first four are still known
	at(&ps, 7*s, 1, 1)     // nobody has used the larger one for three windows
	at(&pl, 8*s+s/2, 1, 1) // what was let go stays gone
}

// A log that is emptied again and again keeps its ring, whatever was charged.
func TestEmptiedLogDoesNotGrow(t *testing.T) {
	for _, cost := range []int64{1, 255, 256, 1000} {
		l := stint.PerSecond(1000)
		p := Of(&l)
		var log Log
		var q Quick
		for i := range int64(1000) {
			if !q.Open(&log, &p, start+3*i*s.Microseconds()) && i > 0 {
				t.Fatalf("cost %d: not in the usual state", cost)
			}
			if i == 0 { // a log begins the long way
				var v LogView
				v.Open(&log, &p, start, false)
				v.Charge(cost)
				continue
			}
			q.Charge(cost)
			if log.Bytes() > 64 {
				t.Fatalf("cost %d: %d bytes after %d windows", cost, log.Bytes(), i)
			}
		}
	}
}

func TestLogIsBounded(t *testing.T) {
	l := stint.Limit{Max: 100, Window: s, Burst: 10_000}
	few := stint.PerSecond(100)
	pl, pf := Of(&l), Of(&few)
	var log Log
	var v LogView
	for i := range int64(5000) {
		p := &pf
		if i%100 == 0 {
			p = &pl
		}
		v.Open(&log, p, start+i*10_000, false)
		v.Charge(1)
		if log.n > maxEntries || log.Bytes() > 16*maxEntries+100 {
			t.Fatalf("%d entries, %d bytes", log.n, log.Bytes())
		}
	}
	if v.Open(&log, &pl, start+5000*10_000, true); v.Used() != 5000 {
		t.Errorf("used %d, want 5000: merging lost some", v.Used())
	}
}

func TestRingStopsAtTheCapacity(t *testing.T) {
	l := stint.PerMinute(100)
	p := Of(&l)
	var log Log
	var v LogView
	for i := range int64(100) {
		v.Open(&log, &p, start+i, false)
		v.Charge(1)
	}
	if log.Bytes() != 800 {
		t.Errorf("a full log of 100 takes %d bytes, want 800", log.Bytes())
	}
}

// A request that waits as long as it was told to is admitted, and not a
// microsecond earlier, if nobody else comes.
func TestRetryIsHonest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		l := stint.Limit{Max: 1 + rng.Int64N(300), Window: time.Duration(1+rng.Int64N(5000)) * time.Millisecond}
		switch rng.IntN(4) {
		case 0:
			l.Burst = l.Max * (1 + rng.Int64N(3))
		case 1:
			l.Algorithm, l.Burst = stint.Bucket, 1+rng.Int64N(300)
		case 2:
			l.Algorithm = stint.Fixed
		}
		p, state := Of(&l), newState(l)
		now := start + rng.Int64N(1e9)
		for range 60 {
			now += rng.Int64N(l.Window.Microseconds() / 10)
			cost := 1 + rng.Int64N(l.Capacity())
			v := state.open(&p, now, false)
			at := v.Earliest(now, cost)
			if rng.IntN(5) == 0 {
				v.Book(max(at, now+1+rng.Int64N(1e6), latest(v)), cost)
				continue
			}
			if log, ok := v.(*logView); ok && rng.IntN(5) == 0 && v.Used()+cost <= p.Cap {
				log.Lease(now+rng.Int64N(1e6), cost)
				continue
			}
			if at == now {
				v.charge(cost)
				continue
			}
			if got := state.open(&p, at-1, true).Earliest(at-1, cost); got == at-1 {
				t.Fatalf("%v: denied until %d, allowed a microsecond before", l, at-start)
			}
			if got := state.open(&p, at, true).Earliest(at, cost); got != at {
				t.Fatalf("%v: denied until %d, then until %d", l, at-start, got-start)
			}
		}
	}
}

func latest(v view) int64 {
	var at int64
	switch v := v.(type) {
	case *logView:
		_, at = v.Bookings()
	case *bucketView:
		_, at = v.Bookings()
	}
	return at
}
