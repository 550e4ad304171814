package resilience

import (
	"context"
	"time"

	"github.com/stint-limiter/stint"
)

// Layers are stores in tests, which ask them one by one. Benchmarks ask the stack of one layer.

func (c *denyCache) stack() *Stack { return &Stack{cache: c, top: c, start: c.start} }

func (l *leases) stack() *Stack { return &Stack{leases: l, top: l, start: l.start} }

func (c *denyCache) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	asked, id := c.start.Add(c.now()), c.identify(&r)
	var d stint.Decision
	if c.repeat(ctx, id, &r, &d, asked) {
		return d, nil
	}
	return take(ctx, c, &r, asked, id)
}

func (l *leases) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	return l.stack().Take(ctx, r)
}

func (f *fallback) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	return take(ctx, f, &r, time.Now(), denialID{})
}

func (d *deadlines) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	return take(ctx, d, &r, time.Now(), denialID{})
}

func (b *batching) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	return take(ctx, b, &r, time.Now(), denialID{})
}
