package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/stores"
)

// stack is the whole of stint over a server, as programs open it.
type stack interface {
	stores.Store
	Breaker() resilience.BreakerState
	Instances() int
}

func openStack(ctx context.Context, server redisstore.Config, c resilience.Config) (stack, error) {
	if c.Logger == nil {
		c.Logger = quiet
	}
	s, err := stores.Config{Redis: server, Resilience: c}.Open(ctx, server.URL)
	if err == nil {
		err = pinged(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	return s.(stack), nil
}

// pinged closes a store that is not connected, and returns why it is not.
func pinged(ctx context.Context, s interface {
	io.Closer
	Ping(context.Context) error
}) error {
	err := s.Ping(ctx)
	if err != nil {
		_ = s.Close()
	}
	return err
}

// connected opens something that connects to Redis until the test ends. A busy machine may need
// several tries.
func connected[S io.Closer](t testing.TB, open func() (S, error)) S {
	t.Helper()
	s, err := open()
	for n := 1; err != nil && n < tries; n++ {
		s, err = open()
	}
	return testkit.Opened(s, err)(t)
}

// newStack is openStack for a test.
func newStack(t testing.TB, url string, c resilience.Config) stack {
	t.Helper()
	return newStackOf(t, redisstore.Config{URL: url}, c)
}

// newStackOf is newStack with settings of the Redis store.
func newStackOf(t testing.TB, server redisstore.Config, c resilience.Config) stack {
	t.Helper()
	return connected(t, func() (stack, error) { return openStack(t.Context(), server, c) })
}

// openStore opens the Redis store alone.
func openStore(t testing.TB, url string) *redisstore.Store {
	t.Helper()
	return connected(t, func() (*redisstore.Store, error) {
		s, err := redisstore.Open(t.Context(), redisstore.Config{URL: url, Logger: quiet})
		if err == nil {
			err = pinged(t.Context(), s)
		}
		return s, err
	})
}

// load is callers who ask in a loop.
type load struct {
	Subject string        // default "shared"
	Limits  []stint.Limit // as text in JSON
	Callers int           // goroutines, default 1
	Calls   int           // of each; 0 is as many as there is time for
	For     time.Duration // 0 is without end
	Pause   time.Duration // between the calls of one caller
}

// outcome is what became of a load.
type outcome struct {
	Admitted []int64 // when, in microseconds since the Unix epoch, those of degraded decisions included
	Denied   int
	Degraded int                          // decisions, whatever they were
	Failed   map[stint.StoreErrorKind]int // errors, by kind
	Took     []time.Duration
}

// drive puts a load on a store and returns what became of it when the context ends, or all calls
// are made.
func drive(ctx context.Context, s stint.Store, l load) outcome {
	if l.Subject == "" {
		l.Subject = "shared"
	}
	if l.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.For)
		defer cancel()
	}
	return together(max(l.Callers, 1), func(int) (own outcome) {
		for n := 0; (l.Calls == 0 || n < l.Calls) && ctx.Err() == nil; n++ {
			own.ask(s, l)
			if l.Pause > 0 {
				time.Sleep(l.Pause)
			}
		}
		return own
	})
}

// driving puts a load on a store until the context ends, all calls are made, or stop is called, which
// returns what became of it.
func driving(ctx context.Context, s stint.Store, l load) (stop func() outcome) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan outcome, 1)
	go func() { done <- drive(ctx, s, l) }()
	return func() outcome {
		cancel()
		return <-done
	}
}

// together calls f n times at the same time, and returns all that became of it.
func together(n int, f func(i int) outcome) outcome {
	outcomes := make([]outcome, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { outcomes[i] = f(i) })
	}
	group.Wait()
	return sum(outcomes...)
}

// sum adds outcomes up.
func sum(outcomes ...outcome) (all outcome) {
	for _, o := range outcomes {
		all.add(o)
	}
	slices.Sort(all.Admitted)
	slices.Sort(all.Took)
	return all
}

// ask makes one call. Its context has no end: calls have to end by themselves.
func (o *outcome) ask(s stint.Store, l load) {
	start := time.Now()
	d, err := s.Take(context.Background(), request(l.Subject, l.Limits...))
	end := time.Now()
	o.Took = append(o.Took, end.Sub(start))
	switch {
	case err != nil:
		o.add(outcome{Failed: map[stint.StoreErrorKind]int{errkind.Of(err): 1}})
	case d.Allowed:
		o.Admitted = append(o.Admitted, end.UnixMicro())
	default:
		o.Denied++
	}
	if d.Degraded {
		o.Degraded++
	}
}

func (o *outcome) add(p outcome) {
	o.Admitted = append(o.Admitted, p.Admitted...)
	o.Took = append(o.Took, p.Took...)
	o.Denied += p.Denied
	o.Degraded += p.Degraded
	if o.Failed == nil {
		o.Failed = map[stint.StoreErrorKind]int{}
	}
	for kind, n := range p.Failed {
		o.Failed[kind] += n
	}
}

// decisions is how many calls were answered.
func (o *outcome) decisions() int { return len(o.Admitted) + o.Denied }

// failures is how many calls ended in an error.
func (o *outcome) failures() int {
	n := 0
	for _, m := range o.Failed {
		n += m
	}
	return n
}

// quantile is a latency.
func (o *outcome) quantile(q float64) time.Duration {
	if len(o.Took) == 0 {
		return 0
	}
	return o.Took[min(int(q*float64(len(o.Took))), len(o.Took)-1)]
}

// job is what a calling process does.
type job struct {
	URL     string
	Failure stint.FailurePolicy
	Load    load
}

// processes runs that many at once, each with a load of its own, and returns the outcomes added up.
// It returns when all have ended.
func processes(t testing.TB, n int, j job) outcome {
	t.Helper()
	return together(n, func(int) (o outcome) {
		c := spawn(t.Context(), t, "calls", j)
		if err := errors.Join(json.NewDecoder(c.out).Decode(&o), c.Wait()); err != nil {
			t.Errorf("calling process: %v", err)
		}
		return o
	})
}

// work is the life of a calling process: it puts a load on a store of its own and prints the
// outcome.
func work(j job) error {
	s, err := openStack(context.Background(), redisstore.Config{URL: j.URL}, resilience.Config{Failure: j.Failure})
	if err != nil {
		return err
	}
	o := drive(context.Background(), s, j.Load)
	if err := s.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return json.NewEncoder(os.Stdout).Encode(o)
}

// patience is the budget of those who are to be answered by the store however busy the machine is.
const patience = 10 * time.Second

// calm is the URL of a server that is never taken for a dead one, however long the machine has it
// wait.
func calm(url string) string {
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	return url + separator + "dial_timeout=1m&write_timeout=1m"
}

// driveUntil drives until done, at most 100 times: on a busy machine all callers may have given up
// before.
func driveUntil(ctx context.Context, s stint.Store, l load, done func(*outcome) bool) outcome {
	o := drive(ctx, s, l)
	for n := 0; !done(&o) && n < 100; n++ {
		o.add(drive(ctx, s, l))
	}
	return o
}

func TestF4(t *testing.T) {
	fault(t, "F4", "4 processes × 50 goroutines on one key", "exactly L admitted, none lost", func(r *report) {
		for name, url := range map[string]string{
			"single":  redistest.Start(t).URL(),
			"cluster": redistest.StartCluster(t).URL(),
		} {
			for _, limit := range pick([]int64{100, 1000}, []int64{1000}) {
				o := processes(t, 4, job{calm(url), stint.FailurePolicy{Mode: stint.FailError, Budget: patience},
					load{Subject: fmt.Sprint(limit), Limits: []stint.Limit{stint.PerHour(limit)}, Callers: 50, Calls: 20}})
				if len(o.Admitted) != int(limit) || o.failures() > 0 {
					t.Errorf("%s: %d admitted under a limit of %d, errors %v", name, len(o.Admitted), limit, o.Failed)
				}
				r.saw("%s %d of %d", name, len(o.Admitted), o.decisions())
			}
		}
	})
}
