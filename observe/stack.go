package observe

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/resilience"
)

// storeOps lists the operations of a store. The last one stands for all other operations, such as
// "inspect".
var storeOps = [...]string{"take", "amend", "command", "ping", other}

const pingOp = 3

var (
	// fallbackModes holds the names of the modes in which a stack decides if the store fails.
	// savers lists the sources of decisions that need no call to the store.
	fallbackModes = [...]string{stint.FailLocal: "local", stint.FailAllow: "allow", stint.FailDeny: "deny"}
	savers        = [...]resilience.Source{resilience.SourceDenyCache, resilience.SourceLease}
	breakerStates = [...]resilience.BreakerState{resilience.BreakerClosed, resilience.BreakerHalfOpen, resilience.BreakerOpen}
)

const errorKinds = len(errkind.Kinds)

type storeCounters struct {
	calls     [len(storeOps)]*histogram
	errors    [len(storeOps)][errorKinds]atomic.Int64
	carried   atomic.Int64
	fallbacks tally        // decisions without the store, by mode
	saved     tally        // decisions that needed no call, indexed like savers
	breaker   atomic.Int32 // an index of breakerStates
}

func newStoreCounters() *storeCounters {
	c := &storeCounters{fallbacks: newTally(len(fallbackModes)), saved: newTally(len(savers))}
	for i := range c.calls {
		c.calls[i] = newHistogram()
	}
	return c
}

// totals returns the durations of all calls to the store, and the number of calls that failed. It
// omits pings, which do not belong to decisions.
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

func (c *storeCounters) totalSaved() (n int64) {
	for by := range savers {
		n += c.saved.sum(by)
	}
	return n
}

func (m *Monitor) storeCalled(e *resilience.StoreCall) {
	i := slices.Index(storeOps[:], e.Op)
	if i < 0 {
		i = len(storeOps) - 1
	}
	m.store.calls[i].add(shardOf(&i), e.Took)
	m.store.carried.Add(int64(e.Requests))
	if failure, ok := errors.AsType[*stint.StoreError](e.Err); ok {
		m.store.errors[i][errkind.Index(failure.Kind)].Add(1)
	}
	if i == pingOp {
		m.watch.pinged(e.Err, time.Now())
	} else {
		m.watch.called(e.Err, time.Now())
	}
}

// decided counts decisions that needed no call to the store, and decisions made because the store
// failed.
func (m *Monitor) decided(e *resilience.Decided) {
	if mode := int(e.Mode); e.Source == resilience.SourceFallback && mode < len(fallbackModes) {
		m.store.fallbacks.add(shardOf(&mode), mode, 1)
	}
	if by := slices.Index(savers[:], e.Source); by >= 0 {
		m.store.saved.add(shardOf(&by), by, 1)
	}
}

// StackObserver returns an observer for a stack that limiters use directly, without a guard. It
// passes every event to the monitor. It also counts the decisions of the stack, under no tier and
// no policy.
func (m *Monitor) StackObserver() stint.Observer { return limiters{m} }

type limiters struct{ *Monitor }

// noRule is the rule under which decisions of limiters are counted, because their limits do not
// come from a configuration.
var noRule = policy.Rule{Index: -1}

// Observe implements [stint.Observer].
func (l limiters) Observe(ctx context.Context, event stint.Event) {
	l.Monitor.Observe(ctx, event)
	e, ok := event.(*resilience.Decided)
	if !ok || e.Request.Mode == stint.ModePeek {
		return
	}
	v := policy.Verdict{Decision: *e.Decision, Err: e.Err, Took: max(e.Took, 1)}
	if e.Err == nil {
		about := e.Request.Claims[max(int(e.Decision.Denier)-1, 0)]
		v.Results = []policy.Result{{
			Rule: &noRule, Claim: about, Usages: e.Decision.Usages(), Denied: !e.Decision.Allowed,
		}}
		if len(e.Request.Claims) > 1 && len(v.Decision.Usages()) > 0 {
			// Count the decision for the denied subject, or for the first subject of the request if
			// none was denied. The limit is the decisive one among all claims.
			s := v.Decision.Decisive()
			v.Results[0].Limits, v.Results[0].Usages = []stint.Limit{*s.Limit}, []stint.Usage{s.Usage}
		}
		v.Decision.Denier = min(v.Decision.Denier, 1)
	}
	l.verdict(&v)
}
