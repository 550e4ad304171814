package resilience

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// slowDenial is a store that denies after some time, and counts how often it was asked.
type slowDenial struct {
	deniesAll
	takes  int
	delay  time.Duration
	during func()
}

func (s *slowDenial) Take(_ context.Context, r stint.Request) (stint.Decision, error) {
	s.takes++
	time.Sleep(s.delay)
	if s.during != nil {
		s.during()
	}
	d := stint.Decision{
		RetryAfter: time.Minute,
		Charge:     driver.NewCharge([]stint.Claim{r.Claims[0]}, driver.ChargeData{}),
	}
	d.MakeUsages(1)[0] = stint.Usage{Used: 1, ResetAfter: time.Minute, RetryAfter: time.Minute}
	return d, nil
}

// A denial that a refund overtakes on its way is not remembered, and the time for which one is
// remembered counts from before the request was sent.
func TestStackReadsTimeAndGenerationBeforeItSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowDenial{delay: 600 * time.Millisecond}
		s := newDenyCache(bottom{store}, Config{}.withDefaults()).stack()
		ask := func(want int, when string) {
			t.Helper()
			if d, err := s.Take(t.Context(), oneUnit("a", stint.PerMinute(1))); err != nil || d.Allowed {
				t.Fatal(d.Allowed, err)
			}
			if store.takes != want {
				t.Errorf("%s: the store was asked %d times, want %d", when, store.takes, want)
			}
		}
		ask(1, "at first")
		ask(1, "at once again")
		time.Sleep(500 * time.Millisecond) // 1.1 s since it was sent, 0.5 s since it was answered
		store.during = func() { s.drop("a", false) }
		ask(2, "a second after it was sent")
		store.during = nil
		ask(3, "after a refund that came during the call")
		ask(3, "after a call that nothing overtook")
	})
}
