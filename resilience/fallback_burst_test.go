package resilience

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
)

// What the store granted of a burst counts in both of its parts, as in the store: in the log for a
// window, and in the meter until it has refilled.
func TestFallbackHoldsBursts(t *testing.T) {
	limit := stint.PerMinute(80).WithBurst(3)
	for _, test := range []struct {
		down     time.Duration // after the burst
		after    time.Duration // the first local decision
		admitted int           // at once
	}{
		{0, 0, 0},                                 // all 240 are used
		{0, 31 * time.Second, 0},                  // the log has them for a window
		{30 * time.Second, 0, 0},                  // the log is full
		{30 * time.Second, 40 * time.Second, 93},  // of the meter: 70 seconds
		{30 * time.Second, 3 * time.Minute, 240},  // all of it
		{30 * time.Second, 90 * time.Second, 160}, // a window, and one more
	} {
		synctest.Test(t, func(t *testing.T) {
			inner := newFlaky(t)
			f := newFallbackFor(t, inner, Config{Instances: 1})
			burst := oneUnit("a", limit)
			burst.Claims[0].Cost = 240
			if d := mustDecide(t, f, burst); !d.Allowed {
				t.Fatal("denied")
			}
			time.Sleep(test.down)
			mustDecide(t, f, oneUnit("a", limit)) // the last that is heard
			inner.down()
			time.Sleep(test.after)
			if got := admitted(t, f, 300, oneUnit("a", limit)); got < test.admitted-2 || got > test.admitted {
				t.Errorf(
					"down after %v, asked %v later: %d admitted, want %d",
					test.down,
					test.after,
					got,
					test.admitted,
				)
			}
		})
	}
}

// A charge from memory can be amended, whichever states it was charged to.
func TestFallbackAmendsSeveralStates(t *testing.T) {
	inner := newFlaky(t)
	inner.down()
	f := newFallbackFor(t, inner, Config{Instances: 2})
	r := oneUnit("a", stint.PerHour(10), stint.PerHour(20).WithName("other"))
	r.ID = "once"
	r.Claims = append(
		r.Claims[:1:1],
		stint.Claim{Subject: "b", Limits: []stint.Limit{stint.PerHour(10).WithBurst(2)}, Cost: 1},
	)
	d := mustDecide(t, f, r)
	if ok, err := f.Amend(t.Context(), d.Charge, stint.Amendment{Kind: stint.AmendSettle}); !ok.Changed || err != nil {
		t.Fatalf("refunded %v, %v", ok, err)
	}
	if d = mustDecide(t, f, r); d.Repeat || d.Usages()[2].Used != 11 {
		t.Errorf("repeat %v, usages %v; want it charged anew, to a part of 10", d.Repeat, d.Usages())
	}
}
