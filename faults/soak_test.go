package faults

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/eventually"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/resilience"
)

var soak = flag.Duration("soak", 8*time.Second, "how long faults happen at random")

// instances is how many processes the soak plays.
const instances = 3

// soaked is a limit under which the soak takes, and what was admitted.
type soaked struct {
	subject string
	limit   stint.Limit
	mode    stint.FailureMode
	strict  bool // nothing is admitted without the store

	mu       sync.Mutex
	admitted []int64
}

// F36: faults at random under load.
func TestF36(t *testing.T) {
	fault(t, "F36", "random faults under load, then shutdown", "no lost decision, no leaked goroutine, bounds kept, log bytes per request bounded", func(r *report) {
		seed := rand.Uint64()
		r.Logf("seed %d", seed)
		s := &soaking{report: r, random: rand.New(rand.NewPCG(seed, 0)), server: redistest.Start(t)}
		s.proxy = redistest.StartProxy(t, s.server.Addr())
		s.run()
	})
}

type soaking struct {
	*report
	random *rand.Rand
	server *redistest.Server
	proxy  *redistest.Proxy

	losses []int64 // when the server lost its state
	limits []*soaked
	calls  atomic.Int64
	ended  atomic.Int64
	failed atomic.Int64
	logged atomic.Int64 // bytes

	mu      sync.Mutex
	late    []time.Duration // how long one decision in 64 took
	slowest time.Duration
}

func (s *soaking) run() {
	second, three := time.Second, 3*time.Second
	s.limits = []*soaked{
		{subject: "exact", limit: stint.Per(50, second), mode: stint.FailLocal},
		{subject: "sliced", limit: stint.Per(2000, second), mode: stint.FailLocal},
		{subject: "burst", limit: stint.Per(100, second).WithBurst(3), mode: stint.FailLocal},
		{subject: "strict", limit: stint.Per(300, second), mode: stint.FailDeny, strict: true},
		{subject: "error", limit: stint.Per(300, second), mode: stint.FailError, strict: true},
		{subject: "leased", limit: stint.Per(3000, three).WithLease(), mode: stint.FailLocal, strict: true},
	}
	logger := slog.New(slog.NewTextHandler(counting{&s.logged}, nil))
	var stacks []*stack
	for range instances {
		stacks = append(stacks, newStack(s.T, s.proxy.URL(), resilience.Config{Logger: logger, Instances: instances}))
	}
	for _, one := range stacks {
		eventually.True(s, "all instances are counted", func() bool { return one.Instances() >= instances })
	}
	ctx, cancel := context.WithTimeout(s.Context(), *soak)
	defer cancel()
	var group sync.WaitGroup
	for _, one := range stacks {
		for _, l := range s.limits {
			for range 3 {
				group.Go(func() { s.call(ctx, one, l) })
			}
		}
	}
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	faults := s.breakThings(ctx)
	s.mend()
	group.Wait()
	for _, one := range stacks { // under no load, but with the server there
		if err := one.Close(); err != nil && !strings.Contains(err.Error(), "given back") {
			s.Error(err)
		}
	}
	var after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&after)

	if s.calls.Load() != s.ended.Load() {
		s.Errorf("%d of %d calls were not answered", s.calls.Load()-s.ended.Load(), s.calls.Load())
	}
	for _, l := range s.limits {
		s.check(l)
	}
	perCall := float64(s.logged.Load()) / float64(s.calls.Load())
	if perCall > 10 {
		s.Errorf("%.1f bytes were logged per decision; want at most 10", perCall)
	}
	slices.Sort(s.late)
	s.saw("%d faults in %v, %d decisions", faults, *soak, s.calls.Load())
	s.saw("p99 %s, slowest %s", short(s.late[len(s.late)*99/100]), short(s.slowest))
	s.saw("%.2f bytes logged per decision", perCall)
	s.saw("heap %+.1f MB", float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/1e6)
	wantTTLs(s.report, s.server)
}

// call asks under one limit, in all ways, until the time is up.
func (s *soaking) call(ctx context.Context, one *stack, l *soaked) {
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	policy := &stint.FailurePolicy{Mode: l.mode}
	for ctx.Err() == nil {
		r := stint.Request{Claim: stint.Claim{Subject: l.subject, Limits: []stint.Limit{l.limit}, Cost: 1}, Failure: policy}
		if random.IntN(10) == 0 {
			r.ID = fmt.Sprint(random.Uint64())
		}
		start := time.Now()
		s.calls.Add(1)
		d, err := one.Take(context.WithoutCancel(ctx), r)
		s.ended.Add(1)
		end := time.Now()
		s.mu.Lock()
		s.slowest = max(s.slowest, end.Sub(start))
		if s.ended.Load()%64 == 0 {
			s.late = append(s.late, end.Sub(start))
		}
		s.mu.Unlock()
		switch {
		case err != nil && l.mode != stint.FailError:
			s.Errorf("%s: %v", l.subject, err)
			return
		case err != nil:
			s.failed.Add(1)
		case d.Degraded && d.Allowed && l.strict:
			s.Errorf("%s was admitted without the store", l.subject)
			return
		case d.Allowed && !d.Repeat:
			l.mu.Lock()
			l.admitted = append(l.admitted, end.UnixMicro())
			l.mu.Unlock()
		}
		time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
	}
}

// check holds what was admitted to the bound, in every window.
func (s *soaking) check(l *soaked) {
	slices.Sort(l.admitted)
	capacity, window := l.limit.Capacity(), l.limit.Window
	local := int64(0)
	if !l.strict {
		part := (l.limit.Max + instances - 1) / instances
		local = instances * part * (capacity / l.limit.Max)
	}
	// When a decision is noted its caller may have waited for the processor: what was
	// admitted before a window is then counted in it.
	slack := int64(50 * time.Millisecond / time.Microsecond)
	from, most, allowed := 0, int64(0), int64(0)
	for i, at := range l.admitted {
		for at-l.admitted[from] >= window.Microseconds()-slack {
			from++
		}
		n := int64(i - from + 1)
		bound := capacity + local
		for _, loss := range s.losses {
			if loss > l.admitted[from]-window.Microseconds() && loss < at+slack {
				bound += capacity
			}
		}
		if n > bound {
			s.Errorf("%s: %d were admitted within %v; want at most %d", l.subject, n, window, bound)
			return
		}
		if n > most {
			most, allowed = n, bound
		}
	}
	s.Logf("%s: %d admitted, at most %d within %v (bound %d)", l.subject, len(l.admitted), most, window, allowed)
}

// breakThings does one thing after the other until the time is up, and returns how many.
func (s *soaking) breakThings(ctx context.Context) int {
	things := []func(){
		func() { s.server.Pause(s); s.pass(ctx, 1500); s.server.Resume(s) },
		func() { s.server.Kill(); s.lost(); s.pass(ctx, 1500); s.server.Restart(s); s.lost() },
		func() { s.proxy.Cut(); s.pass(ctx, 1000); s.proxy.Mend() },
		func() { s.proxy.Silence(); s.pass(ctx, 1000); s.proxy.Mend() },
		func() {
			s.proxy.SetLatency(5*time.Millisecond, 20*time.Millisecond)
			s.pass(ctx, 1000)
			s.proxy.SetLatency(0, 0)
		},
		func() { s.proxy.DropNext(redistest.Replies, 5); s.pass(ctx, 300) },
		func() { s.proxy.DropNext(redistest.Requests, 5); s.pass(ctx, 300) },
		func() { s.proxy.SetBandwidth(5000); s.pass(ctx, 500); s.proxy.SetBandwidth(0) },
		func() { s.proxy.SetSlice(3, 100*time.Microsecond); s.pass(ctx, 500); s.proxy.SetSlice(0, 0) },
		func() { s.do("SCRIPT", "FLUSH"); s.pass(ctx, 200) },
		func() {
			s.do("CONFIG", "SET", "maxmemory", "1")
			s.pass(ctx, 500)
			s.do("CONFIG", "SET", "maxmemory", "0")
		},
		func() { s.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); s.pass(ctx, 200) },
		func() { s.do("CLIENT", "PAUSE", "300", "ALL"); s.pass(ctx, 400) },
		func() { s.lost(); s.do("FLUSHALL"); s.lost(); s.pass(ctx, 300) },
	}
	n := 0
	for ; ctx.Err() == nil; n++ {
		s.pass(ctx, 600) // in peace
		if ctx.Err() == nil {
			things[s.random.IntN(len(things))]()
		}
	}
	return n
}

// pass lets up to so many milliseconds pass.
func (s *soaking) pass(ctx context.Context, most int) {
	select {
	case <-time.After(time.Duration(1+s.random.IntN(most)) * time.Millisecond):
	case <-ctx.Done():
	}
}

// lost notes that the server has lost its state, or is about to.
func (s *soaking) lost() { s.losses = append(s.losses, time.Now().UnixMicro()) }

func (s *soaking) do(args ...string) {
	if _, err := s.server.Do(args...); err != nil {
		s.Errorf("%v: %v", args, err)
	}
}

// mend makes everything well before the end.
func (s *soaking) mend() {
	s.proxy.Mend()
	s.do("CONFIG", "SET", "maxmemory", "0")
}

// counting is a writer that counts.
type counting struct{ bytes *atomic.Int64 }

func (c counting) Write(p []byte) (int, error) {
	c.bytes.Add(int64(len(p)))
	return len(p), nil
}
