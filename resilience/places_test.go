package resilience

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// An answer does not count a holder that a heartbeat made known to the store after it, although the
// heartbeat was answered first.
func TestAnswersFromBeforeAHeartbeat(t *testing.T) {
	over(t, alone, func(t *testing.T, _ *fake, s *Stack) {
		l, r := s.ledger, oneUnit("a", stint.AtOnce(5, time.Second))
		rec := l.record(&r.Claims[0], l.now())
		n := l.count(rec, &r.Claims[0].Limits[0], 0)
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
