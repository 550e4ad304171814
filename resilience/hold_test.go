package resilience

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/testkit"
)

const holdLife = time.Minute

// held asks for units with a hold.
func held(r stint.Request) stint.Request {
	r.Hold = holdLife
	return r
}

func settleTo(cost int64) stint.Amendment {
	return stint.Amendment{Kind: stint.AmendSettle, Cost: cost}
}

func report(total int64) stint.Amendment {
	return stint.Amendment{Kind: stint.AmendExtend, Cost: total}
}

// wantOnce makes an amendment three times: the first changes something, if any does.
func wantOnce(t *testing.T, s *Stack, c stint.Charge, a stint.Amendment, changes bool) {
	t.Helper()
	for n := range 3 {
		wantChange(t, s, c, a, changes && n == 0)
	}
}

// A hold and the place beside it are settled once each, whether the store is there or not. A
// settlement to more than 0 keeps the place.
func TestPlaceSettledAgain(t *testing.T) {
	place, stock := stint.Concurrency(1, 10*time.Minute), stint.PerDay(100)
	for _, byStore := range []bool{true, false} {
		each(t, failures, alone, func(t *testing.T, store *fake, s *Stack, fail func(*fake)) {
			if !byStore {
				fail(store)
			}
			both := mustDecide(t, s, held(ask("a", 10, stock, place)))
			only := mustDecide(t, s, held(ask("b", 10, place)))
			fail(store)
			wantOnce(t, s, both.Charge, settleTo(30), true)
			wantOnce(t, s, only.Charge, settleTo(30), false)
			wantOnce(t, s, both.Charge, settleTo(0), true)
			wantOnce(t, s, only.Charge, settleTo(0), true)
			time.Sleep(time.Second)
			store.up()
			time.Sleep(10 * time.Second)
			wantUsed(t, store, "a", stock, 30)
			wantUsed(t, store, "a", place, 0)
			wantUsed(t, store, "b", place, 0)
		})
	}
}

// What heartbeats report of a hold that was granted without the store is charged when that is back,
// also if no heartbeat comes afterwards.
func TestTotalsWithoutTheStore(t *testing.T) {
	limit := stint.PerDay(1000)
	each(t, failures, alone, func(t *testing.T, store *fake, s *Stack, fail func(*fake)) {
		fail(store)
		less, more := mustDecide(t, s, held(ask("a", 100, limit))), mustDecide(t, s, held(ask("a", 100, limit)))
		for _, total := range []int64{10, 40, 30} {
			time.Sleep(10 * time.Second)
			wantChange(t, s, less.Charge, report(total), true)
			wantChange(t, s, more.Charge, report(total), true)
		}
		mustAmend(t, s, more.Charge, report(170))
		store.up()
		time.Sleep(5 * time.Second)
		wantUsed(t, store, "a", limit, 100+170)
		time.Sleep(2 * holdLife)
		wantUsed(t, store, "a", limit, 40+170)
	})
}

// A request that streams for longer than its ID lives is not admitted a second time under that,
// with the store or without.
func TestIDOfALongHold(t *testing.T) {
	r := held(named(ask("a", 100, stint.PerDay(1000)), "x"))
	r.IDLife = time.Second
	for _, without := range []bool{false, true} {
		over(t, alone, func(t *testing.T, store *fake, s *Stack) {
			if without {
				store.down()
			}
			d := mustDecide(t, s, r)
			for range 6 {
				time.Sleep(holdLife / 2)
				mustAmend(t, s, d.Charge, report(0))
			}
			if again := mustDecide(t, s, r); !again.Repeat || again.Charge.Data().ID != d.Charge.Data().ID {
				t.Errorf("%+v, want the charge of the first", again)
			}
			other := r
			other.Hold = 2 * holdLife
			if d := mustDecide(t, s, other); !d.Repeat || !d.Charge.IsZero() {
				t.Errorf("with another hold: %+v, want no charge", d)
			}
		})
	}
}

// Heartbeats keep a place of a request with a hold, also where nothing else was charged.
func TestPlaceWithAHold(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		place := stint.Concurrency(1, 10*time.Second)
		store.down()
		d := mustDecide(t, s, held(oneUnit("a", place)))
		for range 5 {
			time.Sleep(5 * time.Second)
			wantChange(t, s, d.Charge, report(0), true)
			wantAdmitted(t, s, 1, oneUnit("a", place), 0)
		}
		store.up()
		time.Sleep(5 * time.Second)
		mustAmend(t, s, d.Charge, report(0))
		wantUsed(t, store, "a", place, 1)
	})
}

// A hold that was granted without the store lasts for as long as heartbeats come, however long the
// outage is, and is then settled. What a rate was charged at first has left its window by then.
func TestLongHoldWithoutTheStore(t *testing.T) {
	testkit.SkipUnderRace(t)
	for limit, want := range map[stint.Limit]int64{stint.PerHour(1000): 250, stint.PerSecond(1000): 150} {
		each(t, failures, alone, func(t *testing.T, store *fake, s *Stack, fail func(*fake)) {
			fail(store)
			d := mustDecide(t, s, held(ask("a", 100, limit)))
			for i := range 40 {
				if i == 20 {
					store.up()
				}
				time.Sleep(holdLife / 2)
				wantChange(t, s, d.Charge, report(0), true)
			}
			wantSettled(t, s, d.Charge, 250, true)
			wantUsed(t, store, "a", limit, want)
		})
	}
}

// TestSettledBeforeAnOutage checks that a settlement which the store has made is not promised again
// while the store is away.
func TestSettledBeforeAnOutage(t *testing.T) {
	for _, r := range []stint.Request{held(ask("a", 10, stint.PerDay(100))), ask("a", 10, stint.PerDay(100))} {
		each(t, failures, alone, func(t *testing.T, store *fake, s *Stack, fail func(*fake)) {
			d := mustDecide(t, s, r)
			wantOnce(t, s, d.Charge, settleTo(30), true)
			fail(store)
			wantOnce(t, s, d.Charge, settleTo(30), false)
		})
	}
}

// TestSettleWithoutTheStore checks that requests and costs of one subject are settled together, with
// the store and without.
func TestSettleWithoutTheStore(t *testing.T) {
	requests, tokens := stint.PerDay(100), stint.PerDay(1000).WithName("tokens")
	for _, settle := range []func(stint.Charge, []int, stint.Amendment, func(stint.Charge, stint.Amendment) (
		stint.Amended, error)) (stint.Amended, error){contract.Settle, contract.SettleOnce} {
		each(t, failures, alone, func(t *testing.T, store *fake, s *Stack, fail func(*fake)) {
			var charges []stint.Charge
			for range 2 { // with the store, then without
				r := held(and(oneUnit("a", requests), ask("a", 100, tokens)))
				charges = append(charges, mustDecide(t, s, r).Charge)
				fail(store)
			}
			amend := func(c stint.Charge, a stint.Amendment) (stint.Amended, error) { return s.Amend(t.Context(), c, a) }
			for _, c := range charges {
				done, err := settle(c, []int{1}, settleTo(30), amend)
				if err != nil || done != (stint.Amended{Changed: true, Charged: 30}) {
					t.Errorf("%+v, %v", done, err)
				}
			}
			time.Sleep(time.Second)
			store.up()
			time.Sleep(3 * holdLife)
			wantUsed(t, store, "a", requests, 2)
			wantUsed(t, store, "a", tokens, 60)
		})
	}
}

// TestAnswersFromBeforeAHeartbeat checks that an answer is not taken to count a holder that a
// heartbeat made known to the store after it, although the heartbeat was answered first.
func TestAnswersFromBeforeAHeartbeat(t *testing.T) {
	over(t, alone, func(t *testing.T, _ *fake, s *Stack) {
		l, r := s.ledger, oneUnit("a", stint.Concurrency(5, time.Second))
		n := l.count(l.record(&r.Claims[0], l.now()), &r.Claims[0].Limits[0], 0)
		n.hold(1, l.now(), false)
		before := l.wall(l.now())
		time.Sleep(time.Millisecond)
		n.hold(1, l.now(), true)
		if got := n.uncounted(before, 1, l.now()); got != 1 {
			t.Errorf("%d holders are not counted by an answer from before, want 1", got)
		}
		if got := n.uncounted(l.wall(l.now()), 2, l.now()); got != 0 {
			t.Errorf("%d holders are not counted by an answer of now, want 0", got)
		}
	})
}
