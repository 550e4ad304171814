package faults

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// movers are callers in a slot that moves, each of another kind. Their requests have keys that do
// not exist, or are on different nodes.
type movers struct {
	stacks  []stack
	limits  []stint.Limit
	failed  sync.Map // what became of calls that failed, by its text
	asked   atomic.Int64
	moving  atomic.Int64 // calls that could not be decided because the slot was moving
	kept    atomic.Int64 // refunds of which that is so
	wrong   atomic.Int64 // decisions that are not as they have to be
	allowed [3]atomic.Int64
}

// take decides a request. It reports whether it was decided.
func (m *movers) take(s stack, r stint.Request) (stint.Decision, bool) {
	m.asked.Add(1)
	d, err := s.Take(context.Background(), r)
	switch {
	case errkind.Of(err) == stint.KindMigrating:
		m.moving.Add(1)
	case err != nil:
		m.failed.Store(err.Error(), true)
	case d.Degraded:
		m.failed.Store("degraded", true)
	}
	if s.Breaker() != "closed" {
		m.failed.Store("the breaker is not closed", true)
	}
	return d, err == nil
}

func (m *movers) request(scope, id string, bans *stint.BanPolicy) stint.Request {
	r := request("shared", m.limits...)
	r.Claims[0].Scope, r.ID, r.Bans = scope, id, bans
	return r
}

// call makes one round of calls through one of the stacks.
func (m *movers) call(caller, n int) {
	s := m.stacks[caller%len(m.stacks)]
	unique := fmt.Sprint(caller, ":", n)
	// Bans are looked for, and denials counted, though there are too few of them for a ban.
	bans := &stint.BanPolicy{After: 125, Within: 10 * time.Millisecond, Durations: []time.Duration{time.Second}}
	if d, _ := m.take(s, m.request("bans", "", bans)); d.Allowed {
		m.allowed[0].Add(1)
	}
	// Every request is sent twice under its ID.
	r := m.request("ids", unique, nil)
	if d, _ := m.take(s, r); d.Allowed {
		m.allowed[1].Add(1)
		if again, decided := m.take(s, r); decided && (!again.Allowed || !again.Repeat) {
			m.wrong.Add(1)
		}
	}
	// New scopes have their own limits.
	r = m.request("scope"+unique, "", &stint.BanPolicy{})
	r.Claims[0].Limits = []stint.Limit{stint.PerHour(1)}
	if first, decided := m.take(s, r); decided {
		again, decided := m.take(s, r)
		if !first.Allowed || decided && again.Allowed {
			m.wrong.Add(1)
		}
	}
	// What is refunded can be used again.
	r = m.request("refunds", "", nil)
	if d, _ := m.take(s, r); d.Allowed {
		m.allowed[2].Add(1)
		done, err := s.Amend(context.Background(), d.Charge, stint.Amendment{Kind: stint.AmendSettle})
		switch {
		case errkind.Of(err) == stint.KindMigrating:
			m.kept.Add(1)
		case err != nil || !done.Changed:
			m.failed.Store(fmt.Sprint("a refund: ", done, err), true)
		}
	}
}

// inTwoKeys is a request with limits in two keys, in one of fifty scopes.
func inTwoKeys(n int) stint.Request {
	r := request("shared", stint.PerHour(1_000_000), stint.PerDay(1_000_000).WithName("day"))
	r.Claims[0].Scope = fmt.Sprint("two", n%50)
	return r
}

func TestF42(t *testing.T) {
	const what = "slots migrate under requests with bans, ids and new scopes"
	const promise = "within the bound of docs/resilience.md, no outage declared; the failure policy decides for requests of that slot that need several keys, only while it migrates"
	fault(t, "F42", what, promise, func(r *report) {
		const callers, limit = 8, 150
		cluster := redistest.StartCluster(t)
		slot, from, to := cluster.SlotOf(t, "{shared}"), cluster.MasterOf(t, "{shared}"), cluster.Nodes[0]
		if from == to {
			to = cluster.Nodes[1]
		}
		for i := range pick(30, 3) { // so that a move takes its time
			from.CLI(t, "EVAL", "for i = 1, 1000 do redis.call('SET', KEYS[1] .. ARGV[1] .. ':' .. i, 'v', 'EX', '600') end",
				"1", "other:{shared}:", strconv.Itoa(i))
		}
		m := &movers{limits: []stint.Limit{stint.PerHour(limit)}}
		for range 2 {
			m.stacks = append(m.stacks, newStack(t, calm(cluster.URL()), patient(nil)))
		}
		other := newStack(t, calm(cluster.URL()), patient(nil))
		stop := make(chan struct{})
		var group sync.WaitGroup
		for caller := range callers {
			group.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					case <-time.After(2 * time.Millisecond):
						m.call(caller, n)
					}
				}
			})
		}
		// Whose limits are in two keys cannot be decided while these are on two nodes; nobody else
		// is concerned, and the breaker stays closed.
		undecided, decided := 0, 0
		group.Go(func() {
			one := request("another subject", inTwoKeys(0).Claims[0].Limits...)
			one.Bans = &stint.BanPolicy{}
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				_, err := other.Take(context.Background(), inTwoKeys(n))
				if err != nil && errkind.Of(err) != stint.KindMigrating {
					r.Errorf("two keys: %v", err)
				}
				if err != nil {
					undecided++
				}
				if _, err := other.Take(context.Background(), one); err != nil {
					r.Errorf("somebody else: %v", err)
				}
				if decided++; other.Breaker() != "closed" {
					r.Error("the breaker is not closed")
				}
			}
		})
		moves := pick(8, 2)
		for range moves {
			cluster.MigrateSlot(t, slot, from, to)
			from, to = to, from
			time.Sleep(200 * time.Millisecond)
		}
		testkit.Eventually(t, "the limits are used up",
			func() bool { return m.allowed[0].Load() >= limit && m.allowed[1].Load() >= limit })
		close(stop)
		group.Wait()
		m.failed.Range(func(what, _ any) bool {
			r.Errorf("failed: %v", what)
			return true
		})
		if n := m.wrong.Load(); n > 0 {
			r.Errorf("%d wrong decisions", n)
		}
		for i, what := range []string{"bans", "ids"} {
			if n := m.allowed[i].Load(); n != limit {
				r.Errorf("with %s %d of %d admitted", what, n, limit)
			}
		}
		kept := m.kept.Load()
		refunded := m.request("refunds", "", nil)
		refunded.Mode = stint.ModePeek
		d := ask(r, m.stacks[0], refunded)
		if used := d.Usages()[0].Used; used > kept {
			r.Errorf("%d units stay charged though %d refunds failed", used, kept)
		}
		for n := range 50 {
			ask(r, other, inTwoKeys(n)) // after the moves
		}
		r.saw("slot moved %d times under %d decisions, %d of them undecided; with bans %d, with ids %d of %d admitted; "+
			"%d of %d refunded; limits in two keys: %d of %d undecided", moves, m.asked.Load(), m.moving.Load(),
			m.allowed[0].Load(), m.allowed[1].Load(), limit, m.allowed[2].Load()-kept, m.allowed[2].Load(), undecided, decided)
		wantTTLs(r, cluster.Nodes...)
	})
}
