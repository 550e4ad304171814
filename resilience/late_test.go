package resilience

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// lateBy is how long a late answer takes.
const lateBy = 50 * time.Millisecond

// A request that was sent and not answered in time is charged once if its caller was admitted, and
// not if it was denied.
func TestLateAnswers(t *testing.T) {
	limit := stint.PerHour(4)
	type row struct {
		way     way
		mode    stint.FailureMode
		id      string
		used    int // by others, before
		allowed bool
		want    int64 // used in the end
	}
	each(t, map[string]row{
		"charged, allowed":   {way: way{there: time.Millisecond, back: lateBy}, allowed: true, want: 1},
		"denied, allowed":    {way: way{back: lateBy}, used: 4, allowed: true, want: 5},
		"too late, allowed":  {way: way{there: lateBy}, allowed: true, want: 1},
		"no answer, allowed": {way: way{there: lateBy, back: 2 * time.Second}, allowed: true, want: 1},
		// The store has charged it, and cannot know that when it is charged again.
		"lost, allowed":             {way: way{back: lateBy, loses: true}, allowed: true, want: 2},
		"lost, allowed, with an ID": {way: way{back: lateBy, loses: true}, id: "x", allowed: true, want: 1},
		"charged, denied":           {way: way{back: lateBy}, mode: stint.FailDeny, want: 0},
		"charged, error":            {way: way{back: lateBy}, mode: stint.FailError, want: 0},
		"denied, denied":            {way: way{back: lateBy}, mode: stint.FailDeny, used: 4, want: 4},
		"too late, denied":          {way: way{there: lateBy}, mode: stint.FailDeny, want: 0},
	}, Config{Instances: 1}, func(t *testing.T, store *fake, s *Stack, test row) {
		r := oneUnit("a", limit)
		admitted(t, store, test.used, r)
		r.ID, r.Failure = test.id, &stint.FailurePolicy{Mode: test.mode}
		store.change(test.way)
		d, err := s.Take(t.Context(), r)
		if (err != nil) != (test.mode == stint.FailError) || d.Allowed != test.allowed || err == nil && !d.Degraded {
			t.Fatalf("allowed %v, degraded %v, %v", d.Allowed, d.Degraded, err)
		}
		time.Sleep(5 * time.Millisecond)
		store.change(way{})
		time.Sleep(3 * time.Second)
		wantUsed(t, store, "a", limit, test.want)
		wantState(t, s, "closed")
	})
}

// Where every failure allows, a place or a booking that the store turns out to have given is given
// back: its caller does not know of it.
func TestLateAnswersWhereFailuresAllow(t *testing.T) {
	c := alone
	c.Failure.Mode = stint.FailAllow
	over(t, c, func(t *testing.T, store *fake, s *Stack) {
		place, limit := stint.Concurrency(5, time.Minute), stint.PerHour(1)
		mustDecide(t, store, oneUnit("b", limit))
		store.change(way{back: 100 * time.Millisecond})
		for _, r := range []stint.Request{oneUnit("a", place), booking(oneUnit("b", limit))} {
			if d := mustDecide(t, s, r); !d.Allowed || !d.Degraded || d.Charge.Data().ID != 0 {
				t.Errorf("%s: allowed %v, degraded %v", r.Claims[0].Subject, d.Allowed, d.Degraded)
			}
		}
		time.Sleep(time.Second)
		wantUsed(t, store, "a", place, 0)
		wantUsed(t, store, "b", limit, 1)
	})
}

// A caller that has its answer may use its claims for something else: the late answer is one to what
// was asked.
func TestCallersReuseTheirClaims(t *testing.T) {
	for mode, used := range map[stint.FailureMode]int{stint.FailLocal: 1, stint.FailDeny: 0} {
		over(t, alone, func(t *testing.T, store *fake, s *Stack) {
			limit := stint.PerHour(10)
			r := oneUnit("a", limit)
			r.Failure = &stint.FailurePolicy{Mode: mode}
			store.change(way{back: lateBy})
			wantAdmitted(t, s, 1, r, used)
			r.Claims[0] = oneUnit("b", stint.PerMinute(1)).Claims[0]
			time.Sleep(2 * time.Second)
			wantUsed(t, store, "a", limit, int64(used))
			store.fail(refusedCall())
			wantAdmitted(t, s, 10, oneUnit("a", limit), 10-used)
		})
	}
}

// What the store turns out to have charged is amended there, whether the caller settles before the
// answer comes or after.
func TestLateChargesAreAmended(t *testing.T) {
	limit, budget := stint.PerHour(100), stint.PerDay(100).WithName("budget")
	pauses := map[string]time.Duration{"before": 0, "after": time.Second}
	each(t, pauses, alone, func(t *testing.T, store *fake, s *Stack, pause time.Duration) {
		store.change(way{back: lateBy})
		r := and(oneUnit("a", limit), ask("a", 5, budget))
		whole, part := mustDecide(t, s, r), mustDecide(t, s, r)
		time.Sleep(pause)
		wantChange(t, s, whole.Charge, settleTo(0), true)
		wantChange(t, s, part.Charge.Part(1), settleTo(20), true)
		time.Sleep(2 * time.Second)
		wantUsed(t, store, "a", limit, 1)
		wantUsed(t, store, "a", budget, 20)
	})
}

// A booking is given back if its waiter gives up while it asks to move it, and the store refuses.
func TestRefusedMoveOfACanceledWaiter(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		r := oneUnit("a", stint.Per(1, 10*time.Second))
		mustDecide(t, s, r)
		mine := mustDecide(t, s, booking(r))
		banned := r
		banned.Bans = &stint.BanPolicy{After: 1, Within: time.Minute, Durations: []time.Duration{time.Minute}}
		mustDecide(t, store, banned)
		store.change(way{back: 5 * time.Millisecond})
		move := booking(banned)
		move.Terms().Booked = mine.Charge.Data()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := s.Take(ctx, move); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want it canceled", err)
		}
		time.Sleep(time.Second)
		if theirs := mustDecide(t, store, booking(r)); theirs.RetryAfter > 10*time.Second {
			t.Errorf("the next place is in %v, behind one that is not taken", theirs.RetryAfter)
		}
	})
}

// Units are refunded while the store is being charged with them. Others that were granted meanwhile
// are charged in full: the refill was of the store's level.
func TestRefillBesideARefund(t *testing.T) {
	for _, id := range []string{"", "id"} {
		over(t, alone, func(t *testing.T, store *fake, s *Stack) {
			limit := stint.Per(10, 10*time.Second).BurstTimes(2)
			time.Sleep(time.Second)
			begin := time.Now()
			wantAdmitted(t, s, 1, ask("a", 10, limit), 1)
			store.fail(refusedCall())
			d := mustDecide(t, s, named(ask("a", 5, limit), id))
			var others sync.WaitGroup
			store.hook(func(op string) {
				if op != opTake { // a probe
					return
				}
				store.hook(nil)
				store.fail(refusedCall())
				others.Go(func() {
					mustAmend(t, s, d.Charge, settleTo(0))
					wantAdmitted(t, s, 1, ask("a", 5, limit), 1)
				})
			})
			store.change(way{there: 10 * time.Millisecond})
			store.fail(nil)
			time.Sleep(3 * time.Second)
			others.Wait()
			store.up()
			time.Sleep(12*time.Second - time.Since(begin)) // the log is empty, and the meter is not
			wantUsed(t, store, "a", limit, 3)
		})
	}
}

// wantReset checks how long a store counts anything of a limit of "a".
func wantReset(t *testing.T, store *fake, limit stint.Limit, least, most time.Duration) {
	t.Helper()
	if got := usageOf(t, store, "a", limit).ResetAfter; got < least || got > most {
		t.Errorf("%v is fully reset in %v, want %v to %v", limit, got, least, most)
	}
}

// TestRefillOfLateCharges checks that the refill of units that the store turns out to have charged
// is not credited to units that were granted at the same time and are still owed.
func TestRefillOfLateCharges(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		limit := stint.TokenBucket(5, 10, time.Second)
		time.Sleep(time.Second)
		mustDecide(t, s, oneUnit("a", limit)) // what was used before is known
		time.Sleep(time.Second)
		store.change(way{back: 80 * time.Millisecond})
		var callers sync.WaitGroup
		callers.Go(func() { wantAdmitted(t, s, 1, ask("a", 3, limit), 1) })
		time.Sleep(time.Millisecond)
		store.fail(refusedCall())
		callers.Wait()
		wantAdmitted(t, s, 1, oneUnit("a", limit), 1)
		time.Sleep(60 * time.Millisecond)
		wantAdmitted(t, s, 1, oneUnit("a", limit), 1)
		store.up()
		time.Sleep(20 * time.Millisecond) // the answer to the first has come
		mustDecide(t, s, ask("a", 5, limit))
		const left = 405 * time.Millisecond // 5 units, less those of the 95 ms since
		wantReset(t, store, limit, left, left)
	})
}

// TestRefillOfSettledDebts checks that requests which were settled before the store is charged with
// them are charged less what was refilled since, and that the refill is taken off only once.
func TestRefillOfSettledDebts(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		limit := stint.TokenBucket(20, 1, time.Second)
		time.Sleep(time.Second)
		mustDecide(t, s, oneUnit("a", limit))
		time.Sleep(2 * time.Second)
		store.change(way{silent: true})
		begin := time.Now()
		for range 3 {
			mustAmend(t, s, mustDecide(t, s, ask("a", 5, limit)).Charge, settleTo(5))
		}
		store.change(way{})
		store.fail(refusedCall())
		time.Sleep(3 * time.Second)
		store.up()
		time.Sleep(2 * time.Second)
		left := 15*time.Second - time.Since(begin)
		wantReset(t, store, limit, left, left+50*time.Millisecond)
	})
}

// TestRefillOfARefund checks that units which were refunded, and have left the log, are not charged
// to a limit that refills: the store would not give them back there.
func TestRefillOfARefund(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		limit, hour := stint.PerSecond(2).BurstTimes(4), stint.PerHour(1000)
		time.Sleep(time.Second)
		mustDecide(t, s, oneUnit("a", limit, hour))
		time.Sleep(1100 * time.Millisecond)
		store.fail(refusedCall())
		d := mustDecide(t, s, named(ask("a", 8, limit, hour), "id"))
		mustAmend(t, s, d.Charge, settleTo(0))
		time.Sleep(2 * time.Second)
		store.up()
		wantAdmitted(t, s, 8, oneUnit("a", limit, hour), 8)
		time.Sleep(time.Second)
		wantUsed(t, store, "a", hour, 9)
	})
}

// TestRefundOfTwoSubjectsWithoutAnAnswer checks that a request on two subjects which was not
// answered, and was settled before the store is charged with it, takes no room from the store.
func TestRefundOfTwoSubjectsWithoutAnAnswer(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		short, hour := stint.PerSecond(1).BurstTimes(3), stint.PerHour(10)
		time.Sleep(time.Second)
		mustDecide(t, s, oneUnit("a", short))
		time.Sleep(1100 * time.Millisecond)
		store.change(way{silent: true})
		d := mustDecide(t, s, and(ask("a", 3, short), ask("b", 3, hour)))
		mustAmend(t, s, d.Charge, settleTo(1))
		time.Sleep(4 * time.Second)
		store.up()
		wantAdmitted(t, s, 5, oneUnit("a", short), 3)
		time.Sleep(2 * time.Second)
		wantUsed(t, store, "b", hour, 1)
	})
}

// TestOverruledChargesRefill checks that the refill of charges which are overruled, and which count
// in the store until they are refunded, is not credited to what is owed.
func TestOverruledChargesRefill(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		limit := stint.Per(1, 10*time.Second).BurstTimes(3)
		begin := time.Now()
		store.change(way{silent: true})
		wantAdmitted(t, s, 3, oneUnit("a", limit), 3)
		store.change(way{})
		store.fail(refusedCall(), opAmend)
		for range 3 { // whether the first three were charged is not known yet
			time.Sleep(200 * time.Millisecond)
			wantDecided(t, s, oneUnit("a", limit), false, true)
		}
		time.Sleep(2 * time.Second) // now they are charged
		mustDecide(t, s, oneUnit("a", limit))
		store.up()
		time.Sleep(5 * time.Second)
		left := 30*time.Second - time.Since(begin)
		wantReset(t, store, limit, left, left+100*time.Millisecond)
	})
}
