package resilience

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
)

// strict is a configuration that returns every failure of the store.
var strict = Config{Instances: 1, NoDenyCache: true, NoLeases: true,
	Failure: stint.FailurePolicy{Mode: stint.FailError}}

// takes makes n calls, one after the other, and returns how many of them were refused.
func takes(s *Stack, n int) (refused int) {
	for range n {
		if _, err := s.Take(context.Background(), oneUnit("a")); errors.Is(err, errBreakerOpen) {
			refused++
		}
	}
	return refused
}

// untilPinged waits for as long as a ping may take to come.
func untilPinged() {
	time.Sleep(301 * time.Millisecond)
	synctest.Wait()
}

func TestBreakerOpensAfterFailuresInARow(t *testing.T) {
	w, c := new(witness), strict
	c.Observer = w
	over(t, c, func(t *testing.T, store *fake, s *Stack) {
		store.down()
		takes(s, 4)
		store.up()
		takes(s, 1) // starts the count again
		store.down()
		takes(s, 4)
		wantState(t, s, "closed")
		if n := takes(s, 1); n != 0 {
			t.Error("the fifth failure was refused, want it made")
		}
		wantState(t, s, "open")
		calls := len(store.batches())
		if n := takes(s, 7); n != 7 || len(store.batches()) != calls {
			t.Errorf("%d of 7 refused, %d made, want all refused", n, len(store.batches())-calls)
		}
		w.want(t, slices.Concat(slices.Repeat([]string{"take 1 true"}, 4), []string{"take 1 false"},
			slices.Repeat([]string{"take 1 true"}, 5), []string{"closed to open"})...)
	})
}

// Every verb counts, and is refused with a reason: why the store was last known to fail. The error
// of a take is not made anew for every call.
func TestBreakerRefusesEveryVerb(t *testing.T) {
	over(t, strict, func(t *testing.T, store *fake, s *Stack) {
		place := mustDecide(t, s, oneUnit("p", stint.Concurrency(1, time.Minute)))
		verbs := map[string]func() error{
			"take":    func() error { _, err := s.Take(t.Context(), oneUnit("a")); return err },
			"amend":   func() error { _, err := s.Amend(t.Context(), place.Charge, extend); return err },
			"command": func() error { return s.Command(t.Context(), resetOf(oneUnit("a").Claims[0])) },
			"inspect": func() error { _, err := s.Inspect(t.Context(), oneUnit("a").Claims[0]); return err },
		}
		store.fail(&stint.StoreError{Op: "ping", Kind: stint.KindUnreachable, Err: syscall.ECONNREFUSED}, "ping")
		store.fail(storeError(stint.KindFull), "take", "amend", "command", "inspect")
		for op, call := range verbs {
			if err := call(); errkind.Of(err) != stint.KindFull {
				t.Errorf("%s: %v, want what the store said", op, err)
			}
		}
		takes(s, 2)
		wantState(t, s, "open") // all but looking inside counted
		for _, cause := range []error{errDown, syscall.ECONNREFUSED} {
			for op, call := range verbs {
				var failure *stint.StoreError
				if err := call(); !errors.As(err, &failure) || failure.Op != op || failure.Kind != stint.KindRefused ||
					!errors.Is(err, errBreakerOpen) || !errors.Is(err, cause) {
					t.Errorf("%s: %v, want it refused because of %v", op, err, cause)
				}
			}
			if verbs["take"]() != verbs["take"]() {
				t.Error("another error for every take")
			}
			untilPinged() // which fails
		}
	})
}

func TestWhatIsAFailure(t *testing.T) {
	type row struct {
		err  error
		want BreakerState
	}
	each(t, map[string]row{
		"store error":       {storeError(stint.KindUnreachable), "open"},
		"deadline":          {&stint.StoreError{Kind: stint.KindTimeout, Err: context.DeadlineExceeded}, "open"},
		"wrapped":           {fmt.Errorf("there: %w", storeError(stint.KindBusy)), "open"},
		"canceled caller":   {&stint.StoreError{Err: context.Canceled}, "closed"},
		"caller's mistake":  {&stint.InvalidError{Err: errDown}, "closed"},
		"a slot that moves": {storeError(stint.KindMigrating), "closed"},
	}, strict, func(t *testing.T, store *fake, s *Stack, test row) {
		store.fail(test.err)
		takes(s, 5)
		wantState(t, s, test.want)
	})
}

// A batch counts once, and has failed if none of its calls was decided. Of batches that are under
// way at the same time, one failure counts.
func TestBatchesCountOnce(t *testing.T) {
	type row struct {
		partly bool
		states string // after each of some rounds
	}
	each(t, map[string]row{
		"all fail": {false, "closed closed open open"}, "some fail": {true, "closed closed closed closed"},
	}, strict, func(t *testing.T, store *fake, s *Stack, test row) {
		store.change(way{there: 400 * time.Microsecond})
		store.reply(func(c *driver.Call) {
			if !test.partly || c.Request.Claims[0].Subject != "good" {
				c.Decision, c.Err = stint.Decision{}, storeError(stint.KindOther)
			}
		})
		var states []string
		for range 4 {
			var group sync.WaitGroup
			for _, subject := range []string{"bad", "bad", "bad", "good", "bad"} { // the last three together
				call(&group, t.Context(), s, oneUnit(subject))
			}
			group.Wait()
			states = append(states, string(s.Breaker()))
			time.Sleep(time.Millisecond)
		}
		if got := strings.Join(states, " "); got != test.states {
			t.Errorf("the breaker is %s, want %s", got, test.states)
		}
	})
}

// While a store is silent, all calls that may be made at the same time are soon under way, and one of
// those that are late counts. No other call can be made, so each further budget counts, until a call
// is answered. This also holds if some callers are more patient.
func TestBreakerOpensWhenNoCallCanBeMade(t *testing.T) {
	for _, budget := range []time.Duration{0, 10 * time.Second} {
		over(t, strict, func(t *testing.T, store *fake, s *Stack) {
			var group sync.WaitGroup
			store.change(way{back: 50 * time.Millisecond})
			flood(t, &group, s, budget)
			time.Sleep(time.Minute)
			wantState(t, s, "closed")
			store.change(way{there: 3 * time.Second, deaf: true})
			flood(t, &group, s, budget)
			wantState(t, s, "closed")
			time.Sleep(100 * time.Millisecond)
			wantState(t, s, "open")
			group.Wait()
		})
	}
}

// flood makes 200 requests within 10 ms, and waits for another 20 ms. Two of the callers have the
// given budget, if there is one.
func flood(t *testing.T, group *sync.WaitGroup, s *Stack, budget time.Duration) {
	t.Helper()
	for i := range 200 {
		r := oneUnit(fmt.Sprint(i))
		if i%100 == 0 && budget > 0 {
			r = within(budget, r)
		}
		call(group, t.Context(), s, r)
		time.Sleep(50 * time.Microsecond)
	}
	time.Sleep(20 * time.Millisecond)
}

// If each call brings an answer in time, as when one node of a Cluster is silent, the breaker stays
// closed although no further call can be made.
func TestBreakerStaysClosedIfSomeAreAnswered(t *testing.T) {
	over(t, strict, func(t *testing.T, store *fake, s *Stack) {
		store.change(way{each: 20 * time.Millisecond})
		store.hook(func(string) { time.Sleep(time.Millisecond) })
		var group sync.WaitGroup
		flood(t, &group, s, 0)
		if s.batch.mu.Lock(); len(s.batch.flights) != maxFlights {
			t.Errorf("%d calls under way, want %d", len(s.batch.flights), maxFlights)
		}
		s.batch.mu.Unlock()
		time.Sleep(150 * time.Millisecond)
		wantState(t, s, "closed")
		group.Wait()
	})
}

// A process whose timers are all a little late still finds out that the store is silent. One that is
// late by more than the budget cannot tell.
func TestBreakerOfAProcessThatLags(t *testing.T) {
	type row struct {
		lag  time.Duration
		want BreakerState
	}
	each(t, map[string]row{
		"a little":                {2 * time.Millisecond, "open"},
		"by more than the budget": {20 * time.Millisecond, "closed"},
	}, strict, func(t *testing.T, store *fake, s *Stack, test row) {
		store.change(way{there: 3 * time.Second, deaf: true})
		store.fail(errDown, opPing)
		var group sync.WaitGroup
		flood(t, &group, s, 0)
		for range 500 {
			s.batch.lag(test.lag)
			time.Sleep(time.Millisecond)
		}
		wantState(t, s, test.want)
		group.Wait()
	})
}

// What began before the breaker opened does not count after it has closed.
func TestBreakerIgnoresStragglers(t *testing.T) {
	c := strict
	c.Failure.Budget, c.BreakerFailures = time.Minute, 2
	over(t, c, func(t *testing.T, store *fake, s *Stack) {
		fail := func() { _ = s.Command(t.Context(), resetOf(oneUnit("a").Claims[0])) }
		store.change(way{silent: true})
		var group sync.WaitGroup
		for range 4 {
			call(&group, t.Context(), s, oneUnit("a"))
			time.Sleep(time.Millisecond) // a flight of its own
		}
		store.change(way{})
		store.down()
		fail()
		fail()
		wantState(t, s, "open")
		store.up()
		untilPinged()
		takes(s, 1)
		wantState(t, s, "closed")
		group.Wait() // and four failures of before
		store.down()
		fail()
		wantState(t, s, "closed")
	})
}

// An open breaker pings about every 250 ms, until Close. Once a ping succeeds, the next call decides.
func TestBreakerProbesUntilTheStoreIsBack(t *testing.T) {
	w, c := new(witness), strict
	c.Observer = w
	over(t, c, func(t *testing.T, store *fake, s *Stack) {
		store.down()
		takes(s, 5)
		time.Sleep(10 * time.Second)
		wantState(t, s, "open")
		if n := store.pings.Load(); n < 33 || n > 50 { // 250 ms ± 20%
			t.Errorf("%d pings in 10 s, want about 40", n)
		}
		store.fail(nil, "")
		store.fail(storeError(stint.KindFull), "take", "peek") // which answers pings
		calls := len(store.batches())
		for range 10 {
			untilPinged()
			takes(s, 3)
			wantState(t, s, "open")
		}
		if n := len(store.batches()) - calls; n < 10 || n > 15 { // and those of the process itself
			t.Errorf("%d of 30 calls were made, want one after every ping", n)
		}
		store.up()
		untilPinged()
		wantState(t, s, "half-open")
		w.take()
		takes(s, 2)
		wantState(t, s, "closed")
		w.want(t, "take 1 false", "half-open to closed", "take 1 false")
		for _, next := range []func(){func() {}, func() {
			store.down()
			takes(s, 5)
			store.change(way{silent: true})
			untilPinged() // a ping hangs
			_ = s.Close()
		}} {
			next()
			pings := store.pings.Load()
			if time.Sleep(time.Minute); store.pings.Load() != pings {
				t.Error("pings go on")
			}
		}
	})
}

// While the breaker is half-open, one call goes through alone, whoever makes it.
func TestHalfOpenLetsOneThrough(t *testing.T) {
	over(t, strict, func(t *testing.T, store *fake, s *Stack) {
		store.down()
		takes(s, 5)
		store.up()
		untilPinged()
		var made, refused atomic.Int64
		store.hook(func(string) {
			made.Add(1)
			time.Sleep(10 * time.Millisecond)
		})
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				var err error
				if i%4 == 0 {
					err = s.Command(t.Context(), resetOf(oneUnit("a").Claims[0]))
				} else {
					_, err = s.Take(t.Context(), oneUnit("a"))
				}
				if errors.Is(err, errBreakerOpen) {
					refused.Add(1)
				}
			})
		}
		group.Wait()
		// A call is a command, or one batch of takes.
		if n := made.Load(); n != 1 || refused.Load() < 25 {
			t.Errorf("%d made, %d refused, want one and all others", n, refused.Load())
		}
		wantState(t, s, "closed")
	})
}

// A trial that says nothing about the store leaves it to another call.
func TestTrialThatIsGivenUp(t *testing.T) {
	over(t, strict, func(t *testing.T, store *fake, s *Stack) {
		store.down()
		takes(s, 5)
		store.up()
		untilPinged()
		store.fail(&stint.StoreError{Err: context.Canceled})
		takes(s, 1)
		wantState(t, s, "half-open")
		store.up()
		store.hook(func(string) { panic("of the store's") })
		func() {
			defer func() { _ = recover() }()
			_ = s.Command(t.Context(), resetOf(oneUnit("a").Claims[0]))
		}()
		wantState(t, s, "half-open")
		store.hook(nil)
		store.change(way{silent: true}) // that one says something
		takes(s, 1)
		wantState(t, s, "open")
		store.change(way{})
		untilPinged()
		takes(s, 1)
		wantState(t, s, "closed")
	})
}

// A store that cannot be pinged is tried after half a minute.
func TestBreakerWithoutPings(t *testing.T) {
	for name, pings := range map[string]bool{"not permitted": true, "no Ping": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFake(t)
				s := newStack(t, map[bool]driver.BatchStore{true: store, false: bare{store}}[pings], strict)
				store.down()
				takes(s, 5)
				store.up()
				store.fail(storeError(stint.KindAuth), "ping")
				time.Sleep(30*time.Second - time.Millisecond)
				wantState(t, s, "open")
				time.Sleep(400 * time.Millisecond)
				takes(s, 1)
				wantState(t, s, "closed")
			})
		})
	}
}

// TestSilenceOpensTheBreaker checks that a call that is not answered in time is a failure, and that
// what the store answers later does not count.
func TestSilenceOpensTheBreaker(t *testing.T) {
	c := strict
	c.Failure.Mode = stint.FailAllow // nothing is refunded, which would work
	each(t, map[string]way{"silent": {silent: true}, "late": {back: 20 * time.Millisecond}}, c,
		func(t *testing.T, store *fake, s *Stack, to way) {
			store.change(to)
			for range 4 {
				takes(s, 1)
				time.Sleep(10 * time.Millisecond) // a late answer comes
			}
			wantState(t, s, "closed")
			takes(s, 1)
			wantState(t, s, "open")
		})
}
