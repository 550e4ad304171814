package faults

import (
	"cmp"
	"context"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/histories"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/resilience"
)

func TestF37(t *testing.T) {
	const promise = "at most 1% over in any window; decision p99 at most 5 ms above that of a plain timer of length D in the same process"
	faultAlone(t, "F37", "1,000 callers under 10/10s for 60 s and two busy loops on two cores, default settings, a healthy Redis", promise, func(r *report) {
		o := overload{users: 1000, window: pick(10*time.Second, 2*time.Second), lasts: pick(time.Minute, 5*time.Second)}
		server := redistest.Start(t)
		s := newStack(t, server.URL(), resilience.Config{})
		all, timers := o.run(r, s)
		o.judge(r, all, timers)
		stoppedFor(r, server, s)
		wantTTLs(r, server)
	})
}

// stoppedFor has a caller ask while Redis is stopped, and go on when it is not: what was admitted
// without Redis counts.
func stoppedFor(r *report, server *redistest.Server, s stack) {
	r.Helper()
	awaitNormal(r, s)
	limit := stint.PerMinute(perWindow)
	admitted := 0
	count := func(calls int) {
		for range calls {
			if take(r, s, "stopped", limit).Allowed {
				admitted++
			}
		}
	}
	stop(r, server)
	count(perWindow - 1)
	server.Resume(r)
	count(perWindow)
	awaitNormal(r, s)
	count(perWindow)
	time.Sleep(time.Second)
	count(perWindow)
	r.saw("%d of %d admitted before and after Redis was stopped", admitted, perWindow)
	if admitted > perWindow {
		r.Errorf("%d admitted under a limit of %d, some of them while Redis was stopped", admitted, perWindow)
	}
}

// overload is users in closed loops, with other programs that take the CPU.
type overload struct {
	users  int
	window time.Duration
	lasts  time.Duration
}

// perWindow is what each user may do in a window.
const perWindow = 10

// think is what a user does between two requests. Without it they would not wait for the CPU that
// the busy loops take, but for each other.
const think = 20 * time.Millisecond

// run returns what users were told, and how long timers of the length of the budget took meanwhile.
func (o overload) run(r *report, s stint.Store) (all history, timers []time.Duration) {
	r.Helper()
	awaitNormal(r, s)
	defer starve(r, 2)()
	ctx, cancel := context.WithTimeout(r.Context(), o.lasts)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			var own []time.Duration
			for ctx.Err() == nil {
				start := time.Now()
				time.Sleep(budget)
				own = append(own, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			timers = append(timers, own...)
		})
	}
	limits := []stint.Limit{stint.Per(perWindow, o.window)}
	for user := range o.users {
		group.Go(func() {
			var own history
			for ctx.Err() == nil {
				own = append(own, answerTo(r, s, user, limits))
				time.Sleep(think)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
		})
	}
	group.Wait()
	return all, timers
}

// answerTo makes one request of a user.
func answerTo(r *report, s stint.Store, user int, limits []stint.Limit) answer {
	a := answer{Subject: user, Called: time.Now().UnixMicro()}
	d, err := s.Take(context.Background(), request("user:"+strconv.Itoa(user), limits...))
	a.Returned, a.Allowed, a.Degraded = time.Now().UnixMicro(), d.Allowed, d.Degraded
	if err != nil {
		r.Errorf("user %d: %v", user, err)
	}
	return a
}

// judge holds what users were told to the promise.
func (o overload) judge(r *report, all history, timers []time.Duration) {
	r.Helper()
	degraded, admitted := 0, 0
	limit := stint.Per(perWindow, o.window)
	seen, worst := histories.NewWindows(&limit), make([]int64, o.users)
	slices.SortFunc(all, func(a, b answer) int { return cmp.Compare(a.Returned, b.Returned) })
	var took []time.Duration
	for i := range all {
		a := &all[i]
		took = append(took, a.took())
		if a.Degraded {
			degraded++
		}
		if a.Allowed {
			admitted++
			n, _ := seen.Admit(0, a.Subject, time.Duration(a.Called)*time.Microsecond, time.Duration(a.Returned)*time.Microsecond, 1, a.Degraded)
			worst[a.Subject] = max(worst[a.Subject], n)
		}
	}
	most, over := o.users*perWindow, 0
	for _, n := range worst {
		over += max(0, int(n)-perWindow)
	}
	windows := int((o.lasts + o.window - 1) / o.window)
	r.saw("%d decisions, %.1f%% without Redis, %d of %d admitted", len(all), 100*float64(degraded)/float64(len(all)), admitted, windows*most)
	r.saw("%d of %d over in the worst windows of all users, %.2f%%", over, most, 100*float64(over)/float64(most))
	if over*100 > most {
		r.Errorf("%d over in the worst windows; at most 1%% of %d is promised", over, most)
	}
	plain := percentile(timers)
	r.saw("p99 of a timer %s", short(plain))
	r.within("of a decision", percentile(took), plain+5*time.Millisecond)
}

// percentile is the 99th.
func percentile(list []time.Duration) time.Duration {
	slices.Sort(list)
	return (&outcome{Took: list}).quantile(0.99)
}

// starve takes the CPU away with busy loops in processes of their own, until the function that it
// returns is called.
func starve(r *report, loops int) (end func()) {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running []child
	for range loops {
		running = append(running, spawn(ctx, r, "burns", 10*time.Minute))
	}
	return func() {
		cancel()
		for _, c := range running {
			_ = c.Wait() // it was killed
		}
	}
}

// burn is the life of a busy process: it does nothing, as fast as it can, for that time.
func burn(lasts time.Duration) error {
	runtime.GOMAXPROCS(1)
	parent := os.Getppid()
	for start := time.Now(); time.Since(start) < lasts && os.Getppid() == parent; {
		for n := 0; n < 1_000_000; n++ {
			_ = n
		}
	}
	return nil
}
