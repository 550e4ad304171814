package control

import (
	"context"
	"time"

	"github.com/stint-limiter/stint/driver"
)

// scopeCache caches the scopes of subjects. To list them, a store scans everything it holds, and a
// page that shows a subject asks repeatedly. So only one caller scans at a time, and a list stays
// valid for a few times as long as the scan took, which leaves the store time for other work.
type scopeCache struct {
	turn chan struct{} // holds one value while a caller reads or scans
	last map[string]scopeList
}

type scopeList struct {
	scopes []string
	err    error
	until  time.Time // when to scan again
}

const (
	// scanTime is the timeout of a scan. A list is valid for cacheFactor times the duration of its
	// scan.
	scanTime    = 2 * time.Second
	cacheFactor = 4
)

func newScopeCache() scopeCache {
	return scopeCache{turn: make(chan struct{}, 1), last: map[string]scopeList{}}
}

// list returns the scopes of a subject, from the cache if they were listed recently.
func (c *scopeCache) list(ctx context.Context, store driver.Inspector, subject string) ([]string, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	began := time.Now()
	for known, found := range c.last {
		if !began.Before(found.until) {
			delete(c.last, known)
		}
	}
	if found, ok := c.last[subject]; ok {
		return found.scopes, found.err
	}
	within, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	scopes, err := store.Scopes(within, subject)
	if ctx.Err() == nil {
		now := time.Now()
		c.last[subject] = scopeList{scopes, err, now.Add(cacheFactor * now.Sub(began))}
	}
	return scopes, err
}
