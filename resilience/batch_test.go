package resilience

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/errkind"
)

// caller takes in the background; its answer is there once the group is done.
type caller struct {
	d    stint.Decision
	err  error
	took time.Duration
}

func call(group *sync.WaitGroup, ctx context.Context, s stint.Store, r stint.Request) *caller {
	c := &caller{}
	group.Go(func() {
		start := time.Now()
		c.d, c.err = s.Take(ctx, r)
		c.took = time.Since(start)
	})
	synctest.Wait()
	return c
}

// within is a request with a time budget of its own.
func within(budget time.Duration, r stint.Request) stint.Request {
	r.Failure = &stint.FailurePolicy{Budget: budget}
	return r
}

// A request is sent at once if hardly any is under way. Others gather, and leave together in their
// order: half of all when a call comes back, 1024 at most.
func TestRequestsGather(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		store.change(way{there: 200 * time.Microsecond, back: 200 * time.Microsecond})
		var group sync.WaitGroup
		var callers []*caller
		for i := range 10 {
			callers = append(callers, call(&group, t.Context(), s, oneUnit(fmt.Sprint(i))))
		}
		group.Wait()
		sent := store.batches()
		slices.SortFunc(sent, slices.Compare) // the last two leave at the same time
		if got := fmt.Sprint(sent); got != "[[0] [1] [2 3 4 5 6] [7 8 9]]" {
			t.Errorf("sent %v", got)
		}
		for range 3000 {
			callers = append(callers, call(&group, t.Context(), s, oneUnit("many", stint.PerHour(2900))))
		}
		group.Wait()
		sizes, allowed := []int{}, 0
		for _, batch := range store.batches()[4:] {
			sizes = append(sizes, len(batch))
		}
		slices.Sort(sizes) // the last two leave at the same time
		if got := fmt.Sprint(sizes); got != "[1 1 950 1024 1024]" {
			t.Errorf("batches of %v", got)
		}
		for _, c := range callers {
			if c.err != nil || c.d.Degraded {
				t.Fatalf("%+v", c)
			}
			if c.d.Allowed {
				allowed++
			}
		}
		if allowed != 10+2900 {
			t.Errorf("%d allowed, want 2910", allowed)
		}
	})
}

// Requests that gather are answered in time if the store needs most of the budget, be they few or
// more than there are flights for.
func TestGatheringMakesNoRequestLate(t *testing.T) {
	each(t, map[string]struct {
		trip     time.Duration
		requests int // within a second
	}{
		"few": {contract.DefaultBudget * 9 / 10, 300}, "many": {contract.DefaultBudget * 13 / 15, 20_000},
	}, alone, func(t *testing.T, store *fake, s *Stack, test struct {
		trip     time.Duration
		requests int
	}) {
		store.change(way{back: test.trip})
		var late atomic.Int64
		var group sync.WaitGroup
		for range test.requests {
			group.Go(func() {
				if d, err := s.Take(t.Context(), oneUnit("a", stint.PerHour(1e6))); err != nil || d.Degraded {
					late.Add(1)
				}
			})
			time.Sleep(time.Second / time.Duration(test.requests))
		}
		group.Wait()
		if n := int(late.Load()); n > test.requests/50 { // some at the start, when the round trip is unknown
			t.Errorf("%d of %d are late", n, test.requests)
		}
	})
}

// An answer that is there by the time a caller notices its deadline is the decision.
func TestAnswerThatComesWithTheDeadline(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		store.change(way{back: 20 * time.Millisecond})
		limit := stint.PerHour(3)
		q := &question{request: oneUnit("a", limit), asked: time.Now()}
		late, err := s.ask(t.Context(), q)
		if late == nil || errkind.Of(err) != stint.KindTimeout {
			t.Fatalf("late %v, %v; want that the time is up", late, err)
		}
		time.Sleep(10 * time.Millisecond) // the goroutine has to wait for the CPU
		if err := s.without(t.Context(), q, late, err); err != nil || !q.decision.Allowed || q.decision.Degraded {
			t.Errorf("allowed %v, degraded %v, %v", q.decision.Allowed, q.decision.Degraded, err)
		}
		time.Sleep(time.Second)
		wantUsed(t, store, "a", limit, 1)
		mustAmend(t, s, q.decision.Charge, settleTo(0))
		store.fail(refusedCall())
		wantAdmitted(t, s, 5, oneUnit("a", limit), 3)
	})
}

// A store that neither answers nor notices that its time is up costs its callers their budget, and
// does not pile anything up: calls are few, and so are those who wait for one.
func TestASilentStore(t *testing.T) {
	c := alone
	c.MaxWaiting, c.Failure.Mode = 10, stint.FailError
	over(t, c, func(t *testing.T, store *fake, s *Stack) {
		store.change(way{there: 3 * time.Second, deaf: true})
		var group sync.WaitGroup
		var callers []*caller
		for i := range 1000 {
			callers = append(callers, call(&group, t.Context(), s, oneUnit(fmt.Sprint(i))))
			if i%20 == 19 {
				time.Sleep(time.Millisecond)
			}
		}
		group.Wait()
		why := map[error]int{}
		for i, c := range callers {
			for _, err := range []error{errTooMany, errAllLate, context.DeadlineExceeded} {
				if errors.Is(c.err, err) {
					why[err]++
				}
			}
			if c.err == nil || c.took > contract.DefaultBudget {
				t.Errorf("caller %d: %v after %v", i, c.err, c.took)
			}
		}
		if len(why) != 3 || store.most != maxFlights {
			t.Errorf("%v; at most %d calls at once", why, store.most)
		}
	})
}

// A canceled request is not sent, or refunded if it was. Others that travel with it are decided.
func TestCanceledCallers(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		store.change(way{back: 400 * time.Microsecond})
		var group sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		sent := call(&group, ctx, s, oneUnit("sent"))
		call(&group, t.Context(), s, oneUnit("other"))
		waiting, well := call(&group, ctx, s, oneUnit("waiting")), call(&group, t.Context(), s, oneUnit("well"))
		expired := call(&group, t.Context(), s, within(200*time.Microsecond, oneUnit("expired")))
		cancel()
		synctest.Wait()
		for _, c := range []*caller{sent, waiting} {
			if !errors.Is(c.err, context.Canceled) || c.took != 0 {
				t.Errorf("canceled: %v after %v", c.err, c.took)
			}
		}
		if errkind.Of(waiting.err) != stint.KindRefused { // it certainly did nothing: a booking can be given back
			t.Errorf("canceled before it was sent: %v", waiting.err)
		}
		if errkind.Of(sent.err) != stint.KindOther { // it may have been charged, and the store was not too slow
			t.Errorf("canceled after it was sent: %v", sent.err)
		}
		group.Wait()
		if well.err != nil || well.d.Degraded || expired.err != nil || !expired.d.Degraded {
			t.Errorf("well: %+v, expired: %+v", well, expired)
		}
		if got := fmt.Sprint(store.batches()); got != "[[sent] [other] [well]]" {
			t.Errorf("sent %v", got)
		}
		time.Sleep(5 * time.Millisecond)
		wantUsed(t, store, "sent", stint.PerHour(1000), 0)
	})
}

// A call's deadline is as long as the budget: of the request, of the configuration or of a lease. A
// settlement waits for the budget and is made later; a heartbeat or a command has a second.
func TestBudgets(t *testing.T) {
	c := alone
	c.Failure.Budget = 50 * time.Millisecond
	over(t, c, func(t *testing.T, store *fake, s *Stack) {
		var left time.Duration
		store.reply(func(c *driver.Call) { left = time.Until(c.Deadline) })
		lease := oneUnit("a")
		lease.Terms().Lease = time.Second
		for want, r := range map[time.Duration]stint.Request{50 * time.Millisecond: oneUnit("a"),
			3 * time.Millisecond: within(3*time.Millisecond, oneUnit("a")), 500 * time.Millisecond: lease} {
			if mustDecide(t, s, r); left != want {
				t.Errorf("%v left, want %v", left, want)
			}
		}
		place := oneUnit("a", stint.Concurrency(2, time.Minute))
		kept, released := mustDecide(t, s, place), mustDecide(t, s, place)
		store.change(way{silent: true})
		for want, do := range map[time.Duration]func() error{
			50 * time.Millisecond: func() error { _, err := s.Amend(t.Context(), released.Charge, release); return err },
			time.Second: func() error {
				if _, err := s.Amend(t.Context(), kept.Charge, extend); err == nil {
					t.Error("a silent store has kept a place")
				}
				return nil
			},
		} {
			start := time.Now()
			if err := do(); err != nil || time.Since(start) != want {
				t.Errorf("%v after %v, want %v", err, time.Since(start), want)
			}
		}
	})
}

// A deadline of the wall clock alone is compared by what is left of it, however the wall clock was
// set since the other was made.
func TestEarlierDeadline(t *testing.T) {
	now := time.Now()
	for _, own := range []time.Duration{time.Second, time.Hour} {
		for _, at := range []time.Time{now.Add(own), now.Add(own).Round(0)} {
			ctx, cancel := context.WithDeadline(t.Context(), at)
			deadline := now.Add(time.Minute)
			if got := earlier(ctx, deadline); (got == at) != (own < time.Minute) {
				t.Errorf("of %v and %v: %v", at, deadline, got)
			}
			cancel()
		}
	}
}

// Close waits for the answers of those who ask, or for their deadlines.
func TestCloseAnswersThoseWhoWait(t *testing.T) {
	type row struct {
		way      way
		degraded bool
	}
	each(t, map[string]row{
		"answers": {way{there: 10 * time.Millisecond}, false}, "silent": {way{silent: true}, true},
	}, alone, func(t *testing.T, store *fake, s *Stack, test row) {
		store.change(test.way)
		var group sync.WaitGroup
		var callers []*caller
		for i := range 10 {
			callers = append(callers, call(&group, t.Context(), s, oneUnit(fmt.Sprint(i))))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		for i, c := range callers {
			if c.err != nil || !c.d.Allowed || c.d.Degraded != test.degraded {
				t.Errorf("caller %d: %+v", i, c)
			}
		}
		if _, err := s.Take(t.Context(), oneUnit("later")); !errors.Is(err, errClosed) {
			t.Errorf("after Close: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// An answer that comes before others of its flight reaches its caller before them.
func TestEarlyAnswers(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		for range 3 { // waiters are used again
			store.change(way{there: 400 * time.Microsecond})
			var group sync.WaitGroup
			call(&group, t.Context(), s, oneUnit("alone"))
			call(&group, t.Context(), s, oneUnit("alone too"))
			store.change(way{each: 5 * time.Millisecond})
			first, second := call(&group, t.Context(), s, oneUnit("a")), call(&group, t.Context(), s, oneUnit("a"))
			group.Wait()
			if first.err != nil || second.err != nil || first.d.Degraded || second.d.Degraded ||
				second.took-first.took != 5*time.Millisecond {
				t.Errorf("%+v, %+v", first, second)
			}
		}
		store.fail(refusedCall())
		wantUsed(t, s, "a", stint.PerHour(1000), 6)
	})
}

// The budget measures the store: if this process lags behind, deadlines are put off for as long as
// it did, and by a quarter of a second at most.
func TestProcessThatLagsBehind(t *testing.T) {
	type row struct {
		lag  time.Duration
		back time.Duration
		took time.Duration // less means that the store decided
	}
	each(t, map[string]row{
		"in time":    {0, 40 * time.Millisecond, 15 * time.Millisecond},
		"lagged":     {50 * time.Millisecond, 40 * time.Millisecond, 40 * time.Millisecond},
		"for longer": {time.Minute, time.Second, 265 * time.Millisecond},
	}, alone, func(t *testing.T, store *fake, s *Stack, test row) {
		store.change(way{back: test.back})
		var group sync.WaitGroup
		c := call(&group, t.Context(), s, oneUnit("a"))
		time.Sleep(5 * time.Millisecond)
		if test.lag > 0 {
			s.batch.lag(test.lag)
		}
		group.Wait()
		if c.err != nil || c.took != test.took || c.d.Degraded != (test.took < test.back) {
			t.Errorf("%+v", c)
		}
	})
}

// lag has the timer run as late.
func (b *batch) lag(by time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.checkAt = now.Add(-by)
	b.catchUp(now)
}

// Many callers at once, in flights that answer early, and some of them give up: each gets its own
// answer, and the store has charged those who were admitted and nobody else. For the race detector.
func TestWaitersAreReusedSafely(t *testing.T) {
	store := newFake(t)
	c := alone
	c.Failure = patient
	s := newStack(t, store, c)
	const callers, requests = 32, 200
	var got [callers]int64
	var group sync.WaitGroup
	for i := range callers {
		if i == callers/2 {
			store.change(way{each: time.Nanosecond})
		}
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 0))
			subject, limits := fmt.Sprint(i%8), []stint.Limit{stint.PerHour(1 << 40).WithName(fmt.Sprint(i))}
			for range requests {
				ctx, cancel := context.WithCancel(context.Background())
				if random.IntN(4) == 0 {
					time.AfterFunc(time.Duration(random.IntN(200))*time.Microsecond, cancel)
				}
				r := ask(subject, 1+random.Int64N(9), limits...)
				d, err := s.Take(ctx, r)
				switch {
				case err == nil && (!d.Allowed || d.Degraded || !reflect.DeepEqual(d.Charge.Claims(), r.Claims)):
					t.Errorf("%+v is the answer to %+v", d, r)
				case err == nil:
					got[i] += r.Claims[0].Cost
				case !errors.Is(err, context.Canceled):
					t.Error(err)
				}
				cancel()
			}
		})
	}
	group.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for i, want := range got {
		wantUsed(t, store, fmt.Sprint(i%8), stint.PerHour(1<<40).WithName(fmt.Sprint(i)), want)
	}
}

// The deadline of a caller is its own, and no outage: the store decides all the same within the
// budget. One without any time is not decided.
func TestHurriedCallers(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		store.change(way{there: 3 * time.Millisecond})
		for i := range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			d, err := s.Take(ctx, oneUnit("a", stint.PerHour(5)))
			if err != nil || d.Degraded || d.Allowed != (i < 5) {
				t.Errorf("request %d: allowed %v, degraded %v, %v", i, d.Allowed, d.Degraded, err)
			}
			cancel()
		}
		ended, cancel := context.WithTimeout(t.Context(), -time.Second)
		defer cancel()
		if _, err := s.Take(ended, oneUnit("b")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without any time: %v", err)
		}
	})
}

// TestASlowStoreHoldsUpNobody checks that a store that is far away decides every request that it
// can answer in time: none has to wait for those before it.
func TestASlowStoreHoldsUpNobody(t *testing.T) {
	trips := map[string]time.Duration{"1ms": time.Millisecond, "5ms": 5 * time.Millisecond, "12ms": 12 * time.Millisecond}
	each(t, trips, alone, func(t *testing.T, store *fake, s *Stack, trip time.Duration) {
		store.change(way{there: trip})
		mustDecide(t, s, oneUnit("first")) // from then on it is known how far away the store is
		var group sync.WaitGroup
		for i := range 1000 {
			group.Go(func() { wantDecided(t, s, oneUnit(fmt.Sprint(i%7)), true, false) })
			time.Sleep(time.Duration(i*7919%100) * time.Microsecond)
		}
		group.Wait()
	})
}

// TestAnswersAreCountedBeforeTheirCallersGoOn checks that a caller that is back finds its own answer
// counted, and those before it in the same call.
func TestAnswersAreCountedBeforeTheirCallersGoOn(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		const callers = 50
		store.reply(func(c *driver.Call) {
			if c.Decision.Usages()[0].Used == callers {
				store.fail(refusedCall())
			}
		})
		store.change(way{there: time.Millisecond})
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				d := mustDecide(t, s, oneUnit("a"))
				used := d.Usages()[0].Used
				if known := usedOf(t, s, "a", stint.PerHour(1000)); known < used {
					t.Errorf("%d were used, but %d are known to be", used, known)
				}
			})
		}
		group.Wait()
	})
}

// TestDeadlinesOfOneFlight checks that each caller of a flight waits until its own deadline. One that
// is answered too late gets a local decision, and what the store charged is its charge. One with more
// time gets the store's answer.
func TestDeadlinesOfOneFlight(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		store.change(way{there: time.Millisecond, back: 19 * time.Millisecond})
		var group sync.WaitGroup
		for range eagerFlights { // so that the others gather
			call(&group, t.Context(), s, within(time.Second, oneUnit("before")))
		}
		limit := stint.PerHour(3)
		hurried := call(&group, t.Context(), s, within(5*time.Millisecond, oneUnit("a", limit)))
		unhurried := call(&group, t.Context(), s, within(50*time.Millisecond, oneUnit("a", limit)))
		group.Wait()
		if hurried.err != nil || !hurried.d.Allowed || !hurried.d.Degraded || hurried.took != 5*time.Millisecond {
			t.Errorf("the hurried caller: %+v", hurried)
		}
		if unhurried.err != nil || !unhurried.d.Allowed || unhurried.d.Degraded {
			t.Errorf("the other one: %+v", unhurried)
		}
		synctest.Wait()
		wantUsed(t, store, "a", limit, 2)
		store.fail(refusedCall())
		wantAdmitted(t, s, 5, oneUnit("a", limit), 1)
		store.up()
		wantChange(t, s, hurried.d.Charge, settleTo(0), true)
		time.Sleep(time.Second)
		wantUsed(t, store, "a", limit, 2)
	})
}

// TestAtMostSoManyFlights checks that requests are decided at once while all calls that may be under
// way are late, and that the store is asked again once they have been given up.
func TestAtMostSoManyFlights(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		store.change(way{silent: true})
		wantAdmitted(t, s, maxFlights, oneUnit("a"), maxFlights)
		start := time.Now()
		wantDecided(t, s, oneUnit("a"), true, true)
		if took, n := time.Since(start), len(store.batches()); n != maxFlights || took != 0 {
			t.Errorf("decided after %v, %d calls", took, n)
		}
		store.change(way{})
		time.Sleep(2 * time.Second)
		wantDecided(t, s, oneUnit("a"), true, false)
	})
}
