package observe

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/resilience"
)

// What is asked of a store, and in the end whatever a later version of package resilience may think of.
var storeOps = [...]string{"take", "amend", "command", "ping", other}

const pingOp = 3

func opIndex(op string) int {
	for i, name := range storeOps[:len(storeOps)-1] {
		if name == op {
			return i
		}
	}
	return len(storeOps) - 1
}

var (
	// fallbackModes are those in which decisions are made without the store, and savers what makes calls to it needless.
	fallbackModes = [...]string{stint.FailLocal: "local", stint.FailAllow: "allow", stint.FailDeny: "deny"}
	savers        = [...]string{resilience.ByDenyCache: "denycache", resilience.ByLease: "lease"}
)

const errorKinds = int(stint.KindRefused) + 1

// storeCounters are what a stack tells of its store.
type storeCounters struct {
	calls     [len(storeOps)]*histogram
	errors    [len(storeOps)][errorKinds]atomic.Int64
	carried   atomic.Int64
	fallbacks tally // by mode
	saved     tally // by saver
	breaker   atomic.Int32
}

func newStoreCounters() *storeCounters {
	c := &storeCounters{fallbacks: newTally(len(fallbackModes)), saved: newTally(len(savers))}
	for i := range c.calls {
		c.calls[i] = newHistogram()
	}
	return c
}

// totals returns the calls of all kinds but pings, which say nothing about decisions.
func (c *storeCounters) totals() (calls buckets, failed int64) {
	for op := range storeOps {
		if op == pingOp {
			continue
		}
		b := c.calls[op].snapshot()
		calls.add(&b)
		for kind := range c.errors[op] {
			failed += c.errors[op][kind].Load()
		}
	}
	return calls, failed
}

// totalSaved is how many decisions needed no call.
func (c *storeCounters) totalSaved() (n int64) {
	for by := range savers {
		n += c.saved.sum(by)
	}
	return n
}

// Decided implements [resilience.Observer]. It does nothing: what a stack decides has been asked by a guard, or
// by Envoy's service, or for an outbound call, and is counted there. For stacks that limiters ask see [Monitor.Limiters].
func (m *Monitor) Decided(*stint.Request, *stint.Decision, error, time.Duration) {}

// StoreCalled implements [resilience.Observer].
func (m *Monitor) StoreCalled(op string, requests int, took time.Duration, err error) {
	i := opIndex(op)
	m.store.calls[i].add(shardOf(&i), took)
	m.store.carried.Add(int64(requests))
	if failure, ok := errors.AsType[*stint.StoreError](err); ok {
		m.store.errors[i][min(int(failure.Kind), errorKinds-1)].Add(1)
	}
	m.watch.called(err, time.Now())
}

// BreakerChanged implements [resilience.Observer].
func (m *Monitor) BreakerChanged(_, to resilience.BreakerState) {
	m.store.breaker.Store(int32(to))
	m.watch.breaker(to.String(), time.Now())
}

// FellBack implements [resilience.Observer].
func (m *Monitor) FellBack(r *stint.Request, mode stint.FailureMode, _ error) {
	if int(mode) < len(fallbackModes) {
		m.store.fallbacks.add(shardOf(r), int(mode), 1)
	}
}

// Saved implements [resilience.Observer].
func (m *Monitor) Saved(r *stint.Request, by resilience.Saver) {
	if int(by) < len(savers) {
		m.store.saved.add(shardOf(r), int(by), 1)
	}
}

// Limiters returns an observer for a stack that limiters ask directly, without a guard. It hears what the monitor does, and
// counts the stack's decisions, which have neither tier nor policy.
func (m *Monitor) Limiters() resilience.Observer { return limiters{m} }

type limiters struct{ *Monitor }

// Decided implements [resilience.Observer].
func (l limiters) Decided(r *stint.Request, d *stint.Decision, err error, took time.Duration) {
	if r.Mode == stint.Peek {
		return
	}
	ruling := Ruling{Subject: r.Subject, Decision: *d, Err: err, Took: took}
	if err == nil && len(d.Usages()) > 0 {
		limit := *d.Decisive().Limit // which is the caller's
		ruling.Limit = &limit
	}
	l.Ruled(&ruling)
}
