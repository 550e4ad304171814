package sizing

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// TestBucketIsKept for twice its refill, as redisstore keeps it, and an eighth more.
func TestBucketIsKept(t *testing.T) {
	limits := []stint.Limit{stint.TokenBucket(60, 1, time.Second)}
	var s State
	s.Charge(NewLayout(limits), 20, []stint.Usage{{Used: 1, ResetAfter: time.Second}}, 1, 1e15)
	if got, want := s.Expires-1e15, int64(121e6*9/8); got != want {
		t.Errorf("kept for %d µs, want %d", got, want)
	}
}
