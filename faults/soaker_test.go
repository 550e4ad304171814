package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

// soaked is a limit under which the soak takes.
type soaked struct {
	name   string
	limit  stint.Limit
	mode   stint.FailureMode
	strict bool // nothing is admitted without the store
	own    bool // each process has a subject of its own
}

// soakLimits are known to the test and to its processes. The number of a limit is the subject of
// its answers.
func soakLimits() []soaked {
	second := time.Second
	return []soaked{
		{name: "exact", limit: stint.Per(50, second)},
		{name: "sliced", limit: stint.Per(2000, second)},
		{name: "burst", limit: stint.Per(100, second).BurstTimes(3)},
		{name: "strict", limit: stint.Per(300, second), mode: stint.FailDeny, strict: true},
		{name: "error", limit: stint.Per(300, second), mode: stint.FailError, strict: true},
		{name: "leased", limit: stint.Per(3000, 3*second).WithLease(), strict: true},
		{name: "own", limit: stint.Per(50, second), own: true},
	}
}

// answer is one decision as its caller saw it. When between the two instants it was made is not
// visible from outside.
type answer struct {
	Subject          int
	Called, Returned int64 // in microseconds since the Unix epoch
	Allowed          bool
	Degraded         bool
}

// took is how long the caller waited.
func (a *answer) took() time.Duration { return time.Duration(a.Returned-a.Called) * time.Microsecond }

// history is the answers that callers got, in any order.
type history []answer

// soaker is what a process of the soak is told.
type soaker struct {
	URL     string
	Number  int // of the process
	Present int // how many there are at least
}

// dispatch is what a process of the soak tells, several times a second: the answers that admitted
// something, and at last how it was.
type dispatch struct {
	Ready   bool // it knows how many processes there are
	Answers history
	Wrong   []string // what must not be
	End     *soakEnd
}

// soakEnd is how it was for a process.
type soakEnd struct {
	Calls, Degraded int64
	Logged          int64 // bytes
	Grown           int64 // bytes of the heap
	Took            []time.Duration
	Slowest         time.Duration
}

// soakUntilEOF is the life of a process of the soak, which asks until its input ends.
func soakUntilEOF(j soaker) error {
	goroutines := runtime.NumGoroutine()
	s := &soakProcess{soaker: j, out: json.NewEncoder(os.Stdout)}
	one, err := s.open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	for one.Instances() < j.Present && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	var callers sync.WaitGroup
	for i, l := range soakLimits() {
		for range 3 {
			callers.Go(func() { s.call(ctx, one, i, l) })
		}
	}
	s.send(dispatch{Ready: true})
	before := testkit.HeapInUse()
	for ctx.Err() == nil {
		sleepUntil(ctx, 100*time.Millisecond)
		s.tell(nil)
	}
	callers.Wait()
	if err := one.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err) // leases that cannot be given back, if Redis is not there
	}
	s.end.Logged, s.end.Grown = s.logged.Load(), testkit.HeapInUse()-before
	// one reads the input
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines+
		1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.wrong("%d goroutines are left, there were %d", runtime.NumGoroutine(), goroutines)
			break
		}
	}
	slices.Sort(s.end.Took)
	s.tell(&s.end)
	return nil
}

type soakProcess struct {
	soaker
	out    *json.Encoder
	logged atomic.Int64

	mu   sync.Mutex
	next dispatch
	end  soakEnd
}

// open opens a stack with default settings, as soon as Redis is there.
func (s *soakProcess) open() (stack, error) {
	logger := slog.New(slog.NewTextHandler(counting{&s.logged}, nil))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		one, err := openStack(context.Background(), redisstore.Config{URL: s.URL}, resilience.Config{Logger: logger})
		if err == nil || time.Now().After(deadline) {
			return one, err
		}
	}
}

// call asks under one limit until the end, sometimes with an id.
func (s *soakProcess) call(ctx context.Context, one stack, number int, l soaked) {
	policy := &stint.FailurePolicy{Mode: l.mode}
	subject := l.name
	if l.own {
		number += s.Number * len(soakLimits())
		subject = fmt.Sprint(l.name, s.Number)
	}
	for ctx.Err() == nil {
		r := request(subject, l.limit)
		r.Failure = policy
		if rand.IntN(10) == 0 {
			r.ID = fmt.Sprint(rand.Uint64())
		}
		start := time.Now()
		d, err := one.Take(context.Background(), r)
		end := time.Now()
		s.mu.Lock()
		s.end.Calls++
		s.end.Slowest = max(s.end.Slowest, end.Sub(start))
		if s.end.Calls%64 == 0 {
			s.end.Took = append(s.end.Took, end.Sub(start))
		}
		if d.Degraded {
			s.end.Degraded++
		}
		if d.Allowed && !d.Repeat {
			s.next.Answers = append(s.next.Answers, answer{
				Subject: number, Called: start.UnixMicro(), Returned: end.UnixMicro(), Allowed: true,
				Degraded: d.Degraded})
		}
		s.mu.Unlock()
		switch {
		case err != nil && l.mode != stint.FailError:
			s.wrong("%s: %v", subject, err)
		case d.Degraded && d.Allowed && l.strict:
			s.wrong("%s was admitted without the store", subject)
		}
		sleepUntil(ctx, rand.N(10*time.Millisecond))
	}
}

func (s *soakProcess) wrong(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.next.Wrong) < 10 {
		s.next.Wrong = append(s.next.Wrong, fmt.Sprintf("process %d: ", s.Number)+fmt.Sprintf(format, args...))
	}
}

// tell tells what there is to tell.
func (s *soakProcess) tell(end *soakEnd) {
	s.mu.Lock()
	d := s.next
	s.next = dispatch{}
	s.mu.Unlock()
	d.End = end
	s.send(d)
}

func (s *soakProcess) send(d dispatch) {
	if err := s.out.Encode(d); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) // nobody listens
	}
}

// sleepUntil waits for some time, or until the context ends.
func sleepUntil(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// counting is a writer that counts.
type counting struct{ bytes *atomic.Int64 }

func (c counting) Write(p []byte) (int, error) {
	c.bytes.Add(int64(len(p)))
	return len(p), nil
}
