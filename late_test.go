package stint

import (
	"context"
	"testing"
	"time"
)

// bookings is a store on which every place is a second away. It notes what is
// booked and what is given back.
type bookings struct{ booked, returned int }

func (b *bookings) Take(_ context.Context, r Request) (Decision, error) {
	b.booked++
	return Decision{Allowed: true, RetryAfter: time.Second, Charge: Charge{ID: uint64(b.booked), Claim: r.Claim}}, nil
}

func (b *bookings) Amend(_ context.Context, c Charge, _ Amendment) (bool, error) {
	b.returned = int(c.ID)
	return true, nil
}

func (b *bookings) Command(context.Context, Command) error { return nil }

// A waiter that wakes long after its place came, gives it back and books again.
func TestLateWaiterBooksAgain(t *testing.T) {
	for _, test := range []struct {
		late   []time.Duration
		booked int
	}{
		{[]time.Duration{0}, 1},
		{[]time.Duration{20 * time.Millisecond}, 1},
		{[]time.Duration{21 * time.Millisecond, 0}, 2},
		{[]time.Duration{time.Hour, time.Minute, time.Millisecond}, 3},
	} {
		store := &bookings{}
		lim, err := New(store, PerSecond(1))
		if err != nil {
			t.Fatal(err)
		}
		naps := 0
		lim.sleep = func(context.Context, time.Duration) (time.Duration, error) {
			naps++
			return test.late[naps-1], nil
		}
		d, err := lim.Wait(t.Context(), "late")
		if err != nil || store.booked != test.booked || store.returned != test.booked-1 || d.Charge.ID != uint64(test.booked) {
			t.Errorf("late by %v: %d booked, charge %d returned, %d used, %v", test.late, store.booked, store.returned, d.Charge.ID, err)
		}
	}
}
