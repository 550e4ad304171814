package resilience

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/storetest"
)

// errDown is what a flaky store fails with if nothing else is asked for.
var errDown = errors.New("down")

// flaky is a store in memory that fails when it is told to. A batch is one call to it. It is a
// Pinger too; notPinger hides that.
type flaky struct {
	stint.Store

	mu     sync.Mutex
	errs   map[string]error // by op; "" stands for all of them
	hangs  bool
	looks  bool // peeks work although takes fail
	before func(op string)

	takes, batches, amends, commands, inspects, pings atomic.Int64
}

// newFlaky returns a flaky store over a store in memory, or over the given one.
func newFlaky(t testing.TB, over ...stint.Store) *flaky {
	f := &flaky{errs: map[string]error{}}
	if len(over) > 0 {
		f.Store = over[0]
		return f
	}
	s, err := memorystore.New(memorystore.Config{MaxSubjects: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	f.Store = s
	return f
}

// fail makes calls fail with an error: those of the given ops ("take", "peek", "amend", "command",
// "ping"), or all of them. Nil lets them work again.
func (f *flaky) fail(err error, ops ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(ops) == 0 {
		clear(f.errs)
		ops = []string{""}
	}
	for _, op := range ops {
		f.errs[op] = err
	}
}

// down makes every call fail as an unreachable store does; up ends that.
func (f *flaky) down() { f.fail(unreachable()) }
func (f *flaky) up()   { f.fail(nil) }

// hang makes every call wait until its context ends.
func (f *flaky) hang(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hangs = on
}

// hook sets what is called at the beginning of every call.
func (f *flaky) hook(before func(op string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = before
}

// calls is how many calls there were, pings aside.
func (f *flaky) calls() int64 {
	return f.takes.Load() + f.batches.Load() + f.amends.Load() + f.commands.Load()
}

func unreachable() error {
	return &stint.StoreError{Op: "take", Kind: errkind.Unreachable, Err: errDown}
}

func (f *flaky) do(ctx context.Context, op string, n *atomic.Int64) error {
	n.Add(1)
	f.mu.Lock()
	err, hangs, before := f.errs[op], f.hangs, f.before
	if err == nil {
		err = f.errs[""]
	}
	f.mu.Unlock()
	if before != nil {
		before(op)
	}
	if hangs {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return &stint.StoreError{Op: op, Kind: errkind.Timeout, Err: ctx.Err()}
	}
	return err
}

func (f *flaky) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	op := "take"
	if f.looks && r.Mode == stint.ModePeek {
		op = "peek"
	}
	if err := f.do(ctx, op, &f.takes); err != nil {
		return stint.Decision{}, err
	}
	return f.Store.Take(ctx, r)
}

func (f *flaky) TakeBatch(ctx context.Context, batch []*driver.Call) {
	err := f.do(ctx, "take", &f.batches)
	for _, c := range batch {
		if c.Err = err; err == nil {
			c.Decision, c.Err = f.Store.Take(ctx, c.Request)
		}
	}
}

func (f *flaky) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if err := f.do(ctx, "amend", &f.amends); err != nil {
		return stint.Amended{}, err
	}
	return f.Store.Amend(ctx, c, a)
}

func (f *flaky) Command(ctx context.Context, c stint.Command) error {
	if err := f.do(ctx, "command", &f.commands); err != nil {
		return err
	}
	return f.Store.Command(ctx, c)
}

func (f *flaky) Ping(ctx context.Context) error { return f.do(ctx, "ping", &f.pings) }

// notPinger is a store that cannot be pinged.
type notPinger struct{ driver.BatchStore }

// openMemory opens a store in memory on a clock that tests move.
func openMemory(t *testing.T) storetest.Harness {
	clock := &storetest.Clock{}
	s, err := memorystore.New(memorystore.Config{MaxSubjects: 10_000, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return storetest.Harness{Store: s, Clock: clock}
}
