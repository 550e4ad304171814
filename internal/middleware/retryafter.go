package middleware

import (
	"time"

	"github.com/stint-limiter/stint/policy"
)

// DefaultRetryAfter is the time to pause when an API refuses a call because of a limit, but does
// not say when to retry.
const DefaultRetryAfter = time.Second

const (
	defaultJitter = 0.2
	// maxMore is the maximum time that jitter adds to a wait.
	maxMore = time.Minute
)

// RetryAfter returns the wait to report to a denied request, rounded up to whole units. If all
// callers share the limit that denied the request, RetryAfter adds a random time, so that they do
// not all retry at the same moment. The random time is at most a share of the wait: *jitter, or a
// fifth if jitter is nil. It may be one unit even if that is more than the share, and it is never
// more than a minute. The function random returns numbers in [0, 1).
func RetryAfter(v *policy.Verdict, jitter *float64, unit time.Duration, random func() float64) time.Duration {
	share := defaultJitter
	if jitter != nil {
		share = *jitter
	}
	if share == 0 || !deniedByShared(v) {
		return spread(v.Decision.RetryAfter, unit, 0, 0)
	}
	return spread(v.Decision.RetryAfter, unit, share, random())
}

// deniedByShared reports whether all callers share the limit that decided the denial; see
// [policy.Verdict.Decisive].
func deniedByShared(v *policy.Verdict) bool {
	if v.Decision.Banned { // a ban applies to one subject
		return false
	}
	for i := range v.Results {
		if v.Results[i].Claim.Shared { // most requests have no shared claim
			decisive := v.Decisive()
			return decisive != nil && decisive.Claim.Shared
		}
	}
	return false
}

// spread rounds a wait up to whole units, at least one. Unless share is 0, it adds a random time of
// whole units. This time is at most that share of the wait or one unit, whichever is longer, and at
// most maxMore.
func spread(wait, unit time.Duration, share, random float64) time.Duration {
	n := max((wait+unit-1)/unit, 1)
	if share > 0 {
		more := min(max(time.Duration(share*float64(n)), 1), maxMore/unit)
		n += time.Duration(random * float64(more+1))
	}
	return n * unit
}
