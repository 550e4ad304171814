package stint

import (
	"context"
	"time"
)

// WakeLate makes each waiter of l wake later than planned, by the duration that late returns.
func (l *Limiter) WakeLate(late func() time.Duration) {
	l.sleep = func(ctx context.Context, d time.Duration, wake <-chan struct{}) (time.Duration, error) {
		took, err := sleep(ctx, d, wake)
		more := late()
		time.Sleep(more)
		return took + more, err
	}
}
