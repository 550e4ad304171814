package control

import (
	"context"
	"time"

	"github.com/stint-limiter/stint"
)

// finds remembers what was found. To list the scopes of a subject is to look at all that is stored, and who watches a
// subject asks again and again: one looks at a time, and what was found is good for some times as long as it took. So the
// store has most of its time for other things.
type finds struct {
	turn chan struct{} // holds one while somebody looks
	last map[string]find
}

type find struct {
	scopes []string
	err    error
	until  time.Time // when to look again
}

const (
	// findTime is how long a look at a subject may take to find the parts, and restFor for how many times as long what
	// it found is good.
	findTime = 2 * time.Second
	restFor  = 4
)

func newFinds() finds { return finds{turn: make(chan struct{}, 1), last: map[string]find{}} }

// scopes lists the scopes of a subject, as they were found not long ago.
func (f *finds) scopes(ctx context.Context, store stint.Inspector, subject string) ([]string, error) {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	began := time.Now()
	for known, found := range f.last {
		if !began.Before(found.until) {
			delete(f.last, known)
		}
	}
	if found, ok := f.last[subject]; ok {
		return found.scopes, found.err
	}
	within, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	scopes, err := store.Scopes(within, subject)
	if ctx.Err() == nil {
		now := time.Now()
		f.last[subject] = find{scopes, err, now.Add(restFor * now.Sub(began))}
	}
	return scopes, err
}
