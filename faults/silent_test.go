package faults

import (
	"context"
	"log/slog"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

// budget is D of the promises, and shedBy how late after it 99 of 100 callers may be answered.
const (
	budget = contract.DefaultBudget
	shedBy = budget + 5*time.Millisecond
)

// plenty is a limit that nobody reaches: who is denied under it was not heard.
var plenty = []stint.Limit{stint.PerHour(1_000_000_000)}

// quiet is for those whose warnings are expected.
var quiet = slog.New(slog.DiscardHandler)

// watchedStack is newStack with somebody who listens.
func watchedStack(t testing.TB, url string, c resilience.Config) (stack, *witness) {
	t.Helper()
	w := newWitness()
	c.Observer = w
	return newStack(t, url, c), w
}

// under gives requests that have none a failure policy.
type under struct {
	stint.Store
	policy stint.FailurePolicy
}

func (u under) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	r.Failure = &u.policy
	return u.Store.Take(ctx, r)
}

// alone is the Redis store by itself, asked by callers who have a budget.
type alone struct {
	*redisstore.Store
	budget time.Duration
}

func (a alone) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, a.budget)
	defer cancel()
	return a.Store.Take(ctx, r)
}

// awaitNormal asks until the store decides, and returns how long that took.
func awaitNormal(r *report, s stint.Store) time.Duration {
	r.Helper()
	return testkit.Eventually(r, "the store is asked", func() bool {
		d, err := s.Take(r.Context(), request("normal", plenty...))
		return err == nil && !d.Degraded
	})
}

// ended is what a function returns, unless that takes for ever.
func ended[T any](r *report, f func() T) T {
	r.Helper()
	done := make(chan T, 1)
	go func() { done <- f() }()
	select {
	case v := <-done:
		return v
	case <-time.After(time.Minute):
		r.Fatal("callers hang")
		panic("unreachable")
	}
}

// ordeal is a time in which the store is there but does not answer, or not in time.
type ordeal struct {
	name       string // "" if there is only one
	callers    int
	lasts      time.Duration
	begin, end func()
	mute       bool // nobody gets any answer
	some       bool // some get one in time: the breaker need not open
}

// endure leads callers through an ordeal and holds the stack to what F1 promises. That a machine is
// busy with something else can only make things take longer, so where times are measured there are
// a few attempts, and the first that is in time counts.
func endure(r *report, s stack, w *witness, o ordeal) {
	r.Helper()
	e := o.attempt(r, s, w)
	for n := 1; n < pick(5, 1) && !e.inTime() && !r.Failed(); n++ {
		r.Logf("%s: not in time, once more: %v", o.name, e)
		e = o.attempt(r, s, w)
	}
	what := "p99 of the first calls"
	if o.name != "" {
		what = o.name + ": " + what
	}
	r.within(what, e.first, shedBy)
	r.within("of all", e.all, shedBy)
	if !o.some {
		r.within("breaker open after", e.open, time.Second)
	}
	r.within("normal after", e.normal, time.Second)
	r.saw("goroutines %d → %d, heap %d → %d KB", e.early.goroutines, e.late.goroutines, e.early.heap>>10,
		e.late.heap>>10)
}

// endured is what an ordeal was like.
type endured struct {
	first, all, open, normal time.Duration
	early, late              mark
}

func (e *endured) inTime() bool {
	return max(e.first, e.all) <= shedBy && max(e.open, e.normal) <= time.Second
}

func (o *ordeal) attempt(r *report, s stack, w *witness) (e endured) {
	r.Helper()
	// Some 10,000 calls a second. The first ones are for every connection to be there.
	calls := load{Limits: plenty, Callers: o.callers, Pause: time.Duration(o.callers) * 100 * time.Microsecond,
		For: 200 * time.Millisecond}
	drive(r.Context(), s, calls)
	awaitNormal(r, s)

	before := w.counted().opens
	o.begin()
	began := time.Now()
	// These meet a breaker that is closed: each waits for as long as its budget allows.
	first := ended(r, func() outcome {
		return drive(r.Context(), s, load{Limits: plenty, Callers: o.callers, Calls: 1})
	})
	calls.For = max(o.lasts-time.Since(began), o.lasts/2) // on a busy machine the first ones may have taken all of it
	marks := make(chan [2]mark, 1)
	go func() {
		early := takeMark(calls.For / 4)
		marks <- [2]mark{early, takeMark(calls.For / 2)}
	}()
	rest := ended(r, func() outcome { return drive(r.Context(), s, calls) })
	m := <-marks
	if !o.some {
		// On a busy machine so few calls were made and given up that more are needed.
		testkit.Eventually(r, o.name+": the breaker opens", func() bool {
			if w.counted().opens > before || s.Breaker() != "closed" {
				return true
			}
			take(r, s, "more", plenty...)
			return false
		})
	}
	opened := w.counted().opened
	o.end()

	e = endured{first: first.quantile(0.99), all: rest.quantile(0.99), normal: awaitNormal(r, s),
		early: m[0], late: m[1]}
	if !o.some {
		e.open = opened.Sub(began)
	}
	for _, some := range []outcome{first, rest} {
		if n := some.failures(); n > 0 {
			r.Errorf("%s: %d callers got an error: %v", o.name, n, some.Failed)
		}
		if o.mute && some.Degraded != some.decisions() {
			r.Errorf("%s: %d of %d decisions do not say that they were made without the store",
				o.name, some.decisions()-some.Degraded, some.decisions())
		}
		if some.Denied > 0 {
			r.Errorf("%s: %d denied, far below the limit", o.name, some.Denied)
		}
	}
	if more := e.late.goroutines - e.early.goroutines; more > 20 {
		r.Errorf("%s: %d more goroutines in the course of it", o.name, more)
	}
	// What drive notes of each call is in it, and on a busy machine all calls that are under way at one
	// mark and not at the other.
	if e.late.heap > e.early.heap+pick[int64](4<<20, 32<<20) {
		r.Errorf("%s: the heap grew from %d to %d bytes in the course of it", o.name, e.early.heap, e.late.heap)
	}
	return e
}

// mark is what this process holds at a moment.
type mark struct {
	goroutines int
	heap       int64
}

func takeMark(after time.Duration) mark {
	time.Sleep(after)
	return mark{runtime.NumGoroutine(), testkit.HeapInUse()}
}

func TestF1(t *testing.T) {
	const promise = "p99 ≤ D + 5 ms, no caller hangs, breaker open ≤ 1 s, goroutines and memory flat, recovery ≤ 1 s after SIGCONT"
	faultAlone(t, "F1", "Redis stopped with SIGSTOP (accepts, never answers), 200 callers", promise, func(r *report) {
		server := redistest.Start(t)
		s, w := watchedStack(t, server.URL(), resilience.Config{})
		endure(r, s, w, ordeal{
			callers: 200, lasts: pick(4*time.Second, time.Second), mute: true,
			begin: func() { stop(r, server) }, end: func() { server.Resume(t) },
		})
		unconnected(r, server)
		wantTTLs(r, server)
	})
}

// unconnected is a lone caller while connections are being made that nobody completes, as those to
// a server that was stopped for long. It must not wait for them.
func unconnected(r *report, server *redistest.Server) {
	r.Helper()
	proxy := redistest.StartProxy(r, server.Addr())
	s := newStack(r, proxy.URL(), resilience.Config{BreakerFailures: math.MaxInt})
	awaitNormal(r, s)
	proxy.SetLatency(time.Hour, 0)
	proxy.Cut()
	proxy.Restore()
	o := ended(r, func() outcome {
		return drive(r.Context(), s, load{Limits: plenty, Pause: 50 * time.Millisecond,
			For: pick(5*time.Second, 1500*time.Millisecond)})
	})
	if o.failures() > 0 || o.Degraded != o.decisions() {
		r.Errorf("unconnected: %d of %d decisions are degraded, errors %v", o.Degraded, o.decisions(), o.Failed)
	}
	proxy.SetLatency(0, 0)
	r.within("a lone caller while connecting: p99", o.quantile(0.99), shedBy)
	r.within("normal after", awaitNormal(r, s), time.Second)
}

// stop is server.Pause, and waits until it is so.
func stop(r *report, server *redistest.Server) {
	r.Helper()
	server.Pause(r)
	time.Sleep(20 * time.Millisecond)
}

func TestF3b(t *testing.T) {
	fault(t, "F3b", "Redis stopped and resumed with calls queued",
		"calls past their not-after charge nothing: no ghost charges, no lockout afterwards", func(r *report) {
			server := redistest.Start(t)
			// A breaker that never opens: all calls are sent.
			s := newStack(t, server.URL(), resilience.Config{BreakerFailures: math.MaxInt})
			plain := openStore(t, server.URL())
			limit := stint.PerHour(50)
			for _, test := range []struct {
				name             string
				patient, pressed stint.Store
			}{
				{"stack", under{s, stint.FailurePolicy{Mode: stint.FailError, Budget: patience}},
					under{s, stint.FailurePolicy{Mode: stint.FailError}}},
				{"store alone", alone{plain, patience}, alone{plain, budget}},
			} {
				calls := load{Subject: test.name, Limits: []stint.Limit{limit}, Calls: 10}
				admitted := drive(t.Context(), test.patient, calls)
				if len(admitted.Admitted) != 10 {
					t.Fatalf("%s: %d of 10 admitted before, errors %v", test.name, len(admitted.Admitted),
						admitted.Failed)
				}
				stop(r, server)
				calls.Callers, calls.Calls = 200, 3
				queued := ended(r, func() outcome { return drive(t.Context(), test.pressed, calls) })
				time.Sleep(pick(3*time.Second, 100*time.Millisecond)) // 3 s: connections have been given up
				server.Resume(t)
				if queued.failures() != 600 {
					t.Errorf("%s: %d of 600 calls failed while Redis was stopped", test.name, queued.failures())
				}
				// These go behind those that were queued, on the same connections.
				calls.Callers, calls.Calls = 8, 1
				after := drive(t.Context(), test.patient, calls)
				if len(after.Admitted) != 8 {
					t.Errorf("%s: %d of 8 admitted afterwards, errors %v", test.name, len(after.Admitted), after.Failed)
				}
				time.Sleep(pick(time.Second, 200*time.Millisecond))
				used := usedOf(r, server.URL(), test.name, limit)
				if used != 18 {
					t.Errorf("%s: %d units used, want those of the 18 calls that were answered", test.name, used)
				}
				r.saw("%s: %d calls queued, %d of them charged", test.name, queued.failures(), used-18)
			}
			wantTTLs(r, server)
		})
}

// usedOf asks Redis itself how much of a limit is used.
func usedOf(r *report, url, subject string, l stint.Limit) int64 {
	r.Helper()
	q := request(subject, l)
	q.Mode = stint.ModePeek
	d := ask(r, openStore(r, url), q)
	return d.Usages()[0].Used
}
