package outbound

import (
	"context"

	"github.com/stint-limiter/stint"
)

// noting is a store that notes in the context whether a turn was booked. The decision after a wait
// is as of the admission, and does not say so.
type noting struct{ stint.Store }

type bookedKey struct{}

func (n noting) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	d, err := n.Store.Take(ctx, r)
	if err == nil && d.Allowed && d.RetryAfter > 0 {
		if booked, ok := ctx.Value(bookedKey{}).(*bool); ok {
			*booked = true
		}
	}
	return d, err
}
