// Package retryafter says how long those who are denied wait, such that they do not all come back
// together.
package retryafter

import "time"

// Default is how long to pause when an API says to slow down, but not for how long.
const Default = time.Second

const (
	// defaultJitter is a fifth.
	defaultJitter = 0.2
	// maxMore bounds how much longer than necessary somebody waits.
	maxMore = time.Minute
)

// Spread returns how long somebody waits who has to wait at least that long: in whole units, at
// least one, never too short, and by up to the jitter longer, which is a share: 0 is a fifth, and
// below 0 none. Random is from 0 to below 1.
func Spread(jitter float64, wait, unit time.Duration, random float64) time.Duration {
	if jitter == 0 {
		jitter = defaultJitter
	}
	n := max((wait+unit-1)/unit, 1)
	if jitter > 0 {
		more := min(max(time.Duration(jitter*float64(n)), 1), maxMore/unit)
		n += time.Duration(random * float64(more+1))
	}
	return n * unit
}
