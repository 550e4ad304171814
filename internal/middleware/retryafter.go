package middleware

import (
	"time"

	"github.com/stint-limiter/stint/policy"
)

// DefaultRetryAfter is the pause after an API asks to slow down without saying for how long.
const DefaultRetryAfter = time.Second

const (
	// defaultJitter is a fifth.
	defaultJitter = 0.2
	// maxMore is the maximum time that is added to a wait.
	maxMore = time.Minute
)

// RetryAfter returns the wait of a denied request for its answer: in whole units, rounded up. If the limit
// that denied it is shared by all callers, a random time up to the jitter is added, because that
// limit has room for all of them at the same instant. The jitter is a share of the wait; nil is a
// fifth. Random returns numbers in [0, 1).
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

// deniedByShared reports whether the limit that denied for the longest time is shared by all
// callers.
func deniedByShared(v *policy.Verdict) bool {
	if v.Decision.Banned { // a ban is for one subject
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

// spread rounds a wait up to whole units, at least one, and adds up to a share of it at random: one
// unit or more, unless the share is 0.
func spread(wait, unit time.Duration, share, random float64) time.Duration {
	n := max((wait+unit-1)/unit, 1)
	if share > 0 {
		more := min(max(time.Duration(share*float64(n)), 1), maxMore/unit)
		n += time.Duration(random * float64(more+1))
	}
	return n * unit
}
