package resilience

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// What is booked stays where it is when earlier units are given back, and counts until it is given
// back itself.
func TestBookingBesideRefunds(t *testing.T) {
	for _, test := range []struct {
		limit stint.Limit
		ahead time.Duration // of the booking
		free  int           // at once, without the booking
	}{
		{stint.TokenBucket(32, 16, 16*time.Second), 19 * time.Second, 31}, // of 32 refunded, one was refilled
		{stint.Per(32, 16*time.Second), 15 * time.Second, 32},
	} {
		for name, kept := range map[string]bool{"kept": true, "given back": false} {
			t.Run(test.limit.String()+"/"+name, func(t *testing.T) {
				over(t, alone, func(t *testing.T, store *fake, s *Stack) {
					first := mustDecide(t, s, ask("a", 16, test.limit))
					second := mustDecide(t, s, ask("a", 16, test.limit))
					time.Sleep(time.Second)
					booked := book(t, s, ask("a", 20, test.limit), test.ahead)
					if !kept {
						mustAmend(t, s, booked, settleTo(0))
					}
					mustAmend(t, s, first.Charge, settleTo(0))
					mustAmend(t, s, second.Charge, settleTo(0))
					store.fail(refusedCall())
					if !kept {
						wantAdmitted(t, s, 40, oneUnit("a", test.limit), test.free)
						return
					}
					time.Sleep(test.ahead)
					wantAdmitted(t, s, 40, oneUnit("a", test.limit), 12)
				})
			})
		}
	}
}

// The refund of a charge whose caller was denied takes nothing off that its answer has not added:
// the answer was explained by units that count a little longer here than in the store.
func TestRefundOfWhatWasNotCounted(t *testing.T) {
	refund := func(t *testing.T, store *fake, s *Stack, r stint.Request) {
		store.change(way{back: 50 * time.Millisecond})
		r.Failure = &stint.FailurePolicy{Mode: stint.FailDeny}
		wantAdmitted(t, s, 1, r, 0)
		time.Sleep(100 * time.Millisecond)
		store.fail(refusedCall())
	}
	t.Run("a booking", func(t *testing.T) {
		over(t, alone, func(t *testing.T, store *fake, s *Stack) {
			limit := stint.Per(16, 16*time.Second)
			time.Sleep(500 * time.Millisecond) // the middle of a sixteenth
			wantAdmitted(t, s, 1, ask("a", 16, limit), 1)
			time.Sleep(15 * time.Second)
			book(t, s, oneUnit("a", limit), time.Second)
			time.Sleep(1200 * time.Millisecond)
			refund(t, store, s, oneUnit("a", limit))
			time.Sleep(time.Second)
			wantAdmitted(t, s, 20, oneUnit("a", limit), 15)
		})
	})
	t.Run("a level", func(t *testing.T) {
		over(t, alone, func(t *testing.T, store *fake, s *Stack) {
			limit := stint.Per(16, 16*time.Second).BurstTimes(2)
			time.Sleep(500 * time.Millisecond)
			wantAdmitted(t, s, 1, ask("a", 32, limit), 1)
			time.Sleep(16*time.Second + 200*time.Millisecond)
			refund(t, store, s, oneUnit("a", limit))
			time.Sleep(time.Second)
			wantAdmitted(t, s, 20, oneUnit("a", limit), 17)
		})
	})
}

// The answer to a booking says what others have used, to a process that has heard nothing else.
func TestBookingsTeach(t *testing.T) {
	over(t, among(2), func(t *testing.T, store *fake, s *Stack) {
		bucket := stint.TokenBucket(2, 1, time.Second)
		wantAdmitted(t, store, 2, oneUnit("a", bucket), 2)
		book(t, s, oneUnit("a", bucket), time.Second)
		time.Sleep(1500 * time.Millisecond)
		store.fail(refusedCall())
		wantAdmitted(t, s, 1, oneUnit("a", bucket), 0) // of three units, half of one has come back
	})
}

// book reserves units that have no room yet, and checks when they are booked.
func book(t *testing.T, s *Stack, r stint.Request, want time.Duration) stint.Charge {
	t.Helper()
	d := mustDecide(t, s, booking(r))
	if !d.Allowed || d.Degraded || d.RetryAfter != want {
		t.Fatalf("allowed %v, degraded %v, in %v; want it booked in %v", d.Allowed, d.Degraded, d.RetryAfter, want)
	}
	return d.Charge
}
