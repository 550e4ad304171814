package resilience

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// wantReset holds the time until nothing is used of a limit in the store to a range.
func wantReset(t *testing.T, store *fake, subject string, limit stint.Limit, least, most time.Duration) {
	t.Helper()
	r := oneUnit(subject, limit)
	r.Mode = stint.ModePeek
	d := mustDecide(t, store, r)
	if got := d.Usages()[0].ResetAfter; got < least || got > most {
		t.Errorf("%v is fully reset in %v, want %v to %v", limit, got, least, most)
	}
}

// levels are those of the meter of a request's first limit, and the weight of a unit.
func (s *Stack) levels(r *stint.Request) (stored, local, unit int64) {
	l, c := s.ledger, &r.Claims[0]
	defer l.unlock(l.lock(r.Claims))
	n := l.find(c).of(&c.Limits[0], 0)
	m := n.metered(l.now())
	return m.stored, m.local, n.unit
}

// A charge that is overruled counts in the store until it is refunded. The meter gives it back
// meanwhile, and not what is owed.
func TestOverruledChargesRefill(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		limit := stint.Per(1, 10*time.Second).WithBurst(3)
		begin := time.Now()
		store.change(way{silent: true})
		wantAdmitted(t, s, 3, oneUnit("a", limit), 3)
		store.change(way{})
		store.fail(refusedCall(), opAmend)
		for range 3 { // whether the first three were charged is not known yet
			time.Sleep(200 * time.Millisecond)
			if d := mustDecide(t, s, oneUnit("a", limit)); d.Allowed || !d.Degraded {
				t.Errorf("allowed %v, degraded %v", d.Allowed, d.Degraded)
			}
		}
		time.Sleep(2 * time.Second) // now they are charged
		mustDecide(t, s, oneUnit("a", limit))
		store.up()
		time.Sleep(5 * time.Second)
		left := 30*time.Second - time.Since(begin)
		wantReset(t, store, "a", limit, left, left+100*time.Millisecond)
	})
}

// Debts are in the order of their grants, although the request of an older one was answered later:
// what the meter gave back is credited to the oldest first.
func TestDebtsAreInOrder(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		r := oneUnit("a")
		rec := s.ledger.record(&r.Claims[0], 0)
		for _, at := range []int64{5, 3, 5, 7, 1} {
			s.ledger.addDebt(&debt{home: rec, claims: r.Claims, at: at, state: openDebt})
		}
		if !slices.IsSortedFunc(rec.debts, func(a, b *debt) int { return cmp.Compare(a.at, b.at) }) {
			t.Errorf("got %v", rec.debts)
		}
	})
}

// The answer to a booking says what others have used, to a process that has heard nothing else.
func TestBookingsTeach(t *testing.T) {
	over(t, among(2), func(t *testing.T, store *fake, s *Stack) {
		bucket := stint.TokenBucket(2, 1, time.Second)
		wantAdmitted(t, store, 2, oneUnit("a", bucket), 2)
		booking := oneUnit("a", bucket)
		booking.Mode, booking.MaxWait = stint.ModeReserve, 5*time.Second
		if d := mustDecide(t, s, booking); !d.Allowed || d.RetryAfter == 0 {
			t.Fatalf("not booked: %+v", d)
		}
		time.Sleep(1500 * time.Millisecond)
		store.fail(refusedCall())
		wantAdmitted(t, s, 1, oneUnit("a", bucket), 0) // of three units, half of one has come back
	})
}

// A debt that the store knows by its id was charged when it was first sent: the store's meter has
// given it back since, and the local level is that of newer units.
func TestRepeatedDebtsWereChargedBefore(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		l, bucket := s.ledger, stint.TokenBucket(2, 2, 2*time.Second)
		mustDecide(t, s, oneUnit("a", bucket))
		time.Sleep(time.Second)
		r := named(oneUnit("a", bucket), "id")
		_, owes, err := l.decide(&r, true)
		if err != nil || owes == nil {
			t.Fatalf("got no debt, %v", err)
		}
		first := l.wall(l.now())
		time.Sleep(600 * time.Millisecond)
		store.fail(refusedCall())
		wantAdmitted(t, s, 1, oneUnit("a", bucket), 1)
		time.Sleep(400 * time.Millisecond)
		answer := stint.Decision{Allowed: true, Repeat: true}
		answer.Charge.SetClaims(r.Claims)
		data := answer.Charge.Data()
		data.ID, data.At, data.Now = 7, first, l.wall(l.now())
		l.resolve(owes, &answer, nil, l.nextCall())
		if stored, local, unit := s.levels(&r); stored != 0 || local != unit {
			t.Errorf("%d in the store and %d here, want 0 and a unit of %d", stored, local, unit)
		}
	})
}

// A process that has just started knows what others have used of a window, and not only how full
// the meter is.
func TestWindowOfAProcessBefore(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		limit := stint.Per(2, 5*time.Second).WithBurst(3)
		wantAdmitted(t, store, 6, oneUnit("a", limit), 6)
		wantAdmitted(t, s, 1, oneUnit("a", limit), 0)
		time.Sleep(2600 * time.Millisecond) // the meter has room
		store.fail(refusedCall())
		wantAdmitted(t, s, 1, oneUnit("a", limit), 0)
		time.Sleep(2500 * time.Millisecond)
		wantAdmitted(t, s, 1, oneUnit("a", limit), 1)
	})
}

// A refund of what the store has charged lowers the store's level, and not that of units that are
// still owed.
func TestRefundOfAChargedUnit(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		limit := stint.Per(4, 5*time.Second).WithBurst(3)
		mustDecide(t, s, ask("a", 8, limit))
		store.fail(refusedCall())
		charged := mustDecide(t, s, oneUnit("a", limit))
		store.up()
		time.Sleep(time.Second)
		wantUsed(t, store, "a", limit, 9)
		store.fail(refusedCall())
		r := oneUnit("a", limit)
		mustDecide(t, s, r)
		mustAmend(t, s, charged.Charge, stint.Amendment{Kind: stint.AmendSettle})
		if _, local, unit := s.levels(&r); local != unit {
			t.Errorf("the level here is %d, want that of one unit, %d", local, unit)
		}
	})
}

// A raise that the store makes late is of units that the meter has given back since they were
// counted here: the local level is that of newer ones.
func TestLateRaiseRefills(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		bucket := stint.TokenBucket(10, 10, time.Second)
		r := ask("a", 5, bucket)
		d := mustDecide(t, s, r)
		store.fail(refusedCall(), opTake, opAmend)
		mustAmend(t, s, d.Charge, settleTo(8))
		time.Sleep(900 * time.Millisecond)
		wantAdmitted(t, s, 5, oneUnit("a", bucket), 5)
		store.fail(nil, opAmend) // the raise is made, and the debts are not
		time.Sleep(200 * time.Millisecond)
		if stored, local, unit := s.levels(&r); local < 3*unit {
			t.Errorf("%d in the store and %d here, want 3 units of %d here", stored, local, unit)
		}
	})
}
