package resilience

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

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
