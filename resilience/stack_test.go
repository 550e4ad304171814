package resilience

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/storetest"
)

func openRedis(t *testing.T, url string) *redisstore.Store {
	t.Helper()
	return testkit.Opened(redisstore.Open(t.Context(), redisstore.Config{URL: url}))(t)
}

// The contract through everything, over a real server and a Cluster.
func TestContractOverRedis(t *testing.T) {
	cluster := redistest.StartCluster(t)
	for name, h := range map[string]struct {
		url   string
		split bool
	}{
		"single":  {redistest.Start(t).URL(), false},
		"cluster": {"redis://" + cluster.Addrs()[0] + "?addr=" + cluster.Addrs()[1], true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, openRedis(t, h.url), Config{Failure: patient})
			storetest.Run(t, func(*testing.T) storetest.Harness {
				return storetest.Harness{Store: s, NeverOver: true, SplitSubjects: h.split}
			})
		})
	}
}

// All but what answers from memory is exact, with company in the batches: no caller can tell it
// from a store alone.
func TestContractOfExactStores(t *testing.T) {
	s := newStack(t, openRedis(t, redistest.Start(t).URL()),
		Config{Failure: patient, NoDenyCache: true, NoLeases: true})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range 2 {
		group.Go(func() {
			for ctx.Err() == nil {
				_, _ = s.Take(ctx, oneUnit(fmt.Sprint("company", i)))
			}
		})
	}
	storetest.Run(t, func(*testing.T) storetest.Harness { return storetest.Harness{Store: s} })
	cancel()
	group.Wait()
	storetest.Linearizable(t, s)
}

// Without the store, what is left is a limiter as good as any.
func TestContractWithoutTheStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		if strings.HasSuffix(t.Name(), "/waiting_books,_sleeps_and_returns") {
			t.Skip("nobody waits in line without the store")
		}
		store := newFake(t)
		store.fail(refusedCall(), "take", "peek", "amend")
		return storetest.Harness{Store: givesUp{newStack(t, store, alone)}, NeverOver: true}
	})
}

// givesUp takes the errors that requests for leases get for denials, which the contract permits.
type givesUp struct{ stint.Store }

func (g givesUp) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	d, err := g.Store.Take(ctx, r)
	if err != nil && (r.Terms().Fit || r.Terms().Lease > 0) {
		d, err = deniedFor(&r, 0), nil
	}
	return d, err
}

// With every limit leased that can be, the contract holds too.
func TestContractOfLeases(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		return storetest.Harness{Store: leaseAll{newStack(t, newFake(t), leasing)}, NeverOver: true}
	})
}

// leaseAll marks every limit leased that can be.
type leaseAll struct{ stint.Store }

func (leaseAll) mark(limits []stint.Limit) []stint.Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		limits[i].Leased = limits[i].Algorithm == stint.AlgorithmSliding || limits[i].Algorithm == stint.AlgorithmFixed
	}
	return limits
}

func (s leaseAll) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	r.Claims = slices.Clone(r.Claims)
	for i := range r.Claims {
		r.Claims[i].Limits = s.mark(r.Claims[i].Limits)
	}
	return s.Store.Take(ctx, r)
}

func (s leaseAll) Command(ctx context.Context, c stint.Command) error {
	c.Limits = s.mark(c.Limits)
	return s.Store.Command(ctx, c)
}

// announcing is a fake store that announces what other processes do.
type announcing struct{ *fake }

func (a announcing) Announcements(ctx context.Context, f func(subject string, commanded bool)) error {
	return a.Store.Announcements(ctx, f)
}

// TestStacksHearOfEachOther checks that a process hears of what another one refunds, resets or gives
// back, and no longer repeats its denials.
func TestStacksHearOfEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := announcing{newFake(t)}
		s, theirs := newStack(t, store, remembers), store.Store
		synctest.Wait() // until it listens
		r := oneUnit("a", stint.PerHour(1))
		d := mustDecide(t, s, r)
		for name, giveBack := range map[string]func() error{
			"refund": func() error { _, err := theirs.Amend(t.Context(), d.Charge, settleTo(0)); return err },
			"reset":  func() error { return theirs.Command(t.Context(), resetOf(r.Claims[0])) },
			"give back": func() error {
				return theirs.Command(t.Context(), stint.Command{Kind: stint.CommandGiveBack, Subject: "a",
					Limits: r.Claims[0].Limits, Units: 1})
			},
		} {
			wantAdmitted(t, s, 2, r, 0)
			if err := giveBack(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if d = mustDecide(t, s, r); !d.Allowed {
				t.Fatalf("denied after a %s", name)
			}
		}
	})
}

// Every decision is observed once, with its source. What answers from memory can be switched off.
func TestSourcesOfDecisions(t *testing.T) {
	for _, c := range []Config{{}, {NoDenyCache: true}, {NoLeases: true}, {NoDenyCache: true, NoLeases: true}} {
		seen := &witness{}
		c.Observer, c.Instances = seen, 1
		over(t, c, func(t *testing.T, store *fake, s *Stack) {
			wantAdmitted(t, s, 10, oneUnit("few", stint.PerHour(1)), 1)
			for range 50 {
				wantAdmitted(t, s, 1, oneUnit("many", leased(1_000_000, time.Minute)), 1)
				time.Sleep(time.Millisecond)
			}
			before := seen.by(SourceStore)
			store.down()
			wantAdmitted(t, s, 10, oneUnit("down"), 10)
			denied, leased := seen.by(SourceDenyCache), seen.by(SourceLease)
			if (denied > 0) == c.NoDenyCache || (leased > 0) == c.NoLeases || denied+leased+before != 60 ||
				seen.by(SourceFallback) != 10 || seen.by(SourceStore) != before || s.Breaker() != "open" {
				t.Errorf("%+v: %v, breaker %s", c, seen.count, s.Breaker())
			}
		})
	}
}

// What is decided from memory allocates nothing; an observer changes nothing about that.
func TestAllocations(t *testing.T) {
	for name, c := range map[string]Config{"plain": {}, "observed": {Observer: observerFunc(func(stint.Event) {})}} {
		store := newFake(t)
		c.Failure, c.BreakerProbe, c.Instances = patient, time.Hour, 3
		s := newStack(t, store, c)
		three := []stint.Limit{stint.PerMinute(1), stint.PerHour(1), stint.PerDay(1)}
		denied, block := oneUnit("denied", three...), oneUnit("leased", leased(1<<40, time.Hour))
		local := oneUnit("local", stint.PerMinute(1<<30), stint.PerHour(1<<30), stint.PerDay(1<<30))
		local.Failure = &stint.FailurePolicy{}
		mustDecide(t, s, denied)
		leaseStarted(t, s, block, time.Millisecond)
		s.leases.blockOf(&block.Claims[0]).units.Store(1 << 30)
		allocates := func(what string, r stint.Request) {
			t.Helper()
			ctx := context.Background()
			if n := testing.AllocsPerRun(1000, func() { _, _ = s.Take(ctx, r) }); n != 0 {
				t.Errorf("%s, %s: %v allocations", name, what, n)
			}
		}
		allocates("denied", denied)
		allocates("leased", block)
		store.down()
		for range 10 {
			mustDecide(t, s, local)
		}
		allocates("local", local)
	}
}

// Everything at once, for the race detector: denials in a table that is too small, leases that come
// and go, a store that does, and callers that write to what they get. Changes of the breaker are
// announced in their order.
func TestInParallel(t *testing.T) {
	var mu sync.Mutex
	state, changes := BreakerClosed, 0
	next := map[BreakerState]string{BreakerClosed: "open", BreakerOpen: "half-open", BreakerHalfOpen: "closed open"}
	store := newFake(t)
	s := newStack(t, store, Config{Denials: 8, Leases: 8, BreakerFailures: 2, BreakerProbe: time.Millisecond,
		Failure: patient, Observer: observerFunc(func(event stint.Event) {
			if e, ok := event.(*BreakerChange); ok {
				mu.Lock()
				defer mu.Unlock()
				if e.From != state || !strings.Contains(next[e.From], string(e.To)) {
					t.Errorf("%s to %s, but it was %s", e.From, e.To, state)
				}
				state = e.To
				changes++
			}
		})})
	limits := []stint.Limit{leased(5000, 100*time.Millisecond), stint.PerSecond(3), stint.PerHour(1 << 20)}
	var group sync.WaitGroup
	for g := range 32 {
		group.Go(func() {
			for i := range 200 {
				r := ask(fmt.Sprint((g+i/50)%12), 1+int64(i%3), limits[i%len(limits)])
				d, err := s.Take(t.Context(), r)
				for k := range d.Usages() {
					if err == nil && d.Usages()[k].Used < 0 {
						t.Error("another caller wrote to the decision")
					}
					d.Usages()[k].Used = -1
				}
				switch {
				case err == nil && d.Allowed && i%7 == 0:
					_, _ = s.Amend(t.Context(), d.Charge, settleTo(int64(i%5)))
				case i%97 == 0:
					s.drop(r.Claims[0].Subject, true)
				case i%101 == 0:
					_ = s.Command(t.Context(), resetOf(r.Claims[0]))
				case i%20 == 0:
					_, _ = s.Inspect(t.Context(), r.Claims[0])
					time.Sleep(time.Millisecond)
				}
				switch {
				case g == 0 && i%40 == 20:
					store.down()
				case g == 0 && i%40 == 30:
					store.fail(nil)
				}
			}
		})
	}
	group.Wait()
	store.up()
	if err := s.Close(); err != nil || s.leases.count() != 0 {
		t.Errorf("%d leases after Close, %v", s.leases.count(), err)
	}
	mu.Lock()
	defer mu.Unlock()
	if changes == 0 || state != s.Breaker() {
		t.Errorf("%d changes, the last to %s; the breaker is %s", changes, state, s.Breaker())
	}
}
