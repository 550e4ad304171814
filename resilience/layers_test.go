package resilience

import (
	"context"

	"github.com/stint-limiter/stint"
)

// Layers are stores in tests, which ask them one by one.

func (c *denyCache) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	return take(ctx, c, r)
}

func (l *leases) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	return take(ctx, l, r)
}

func (f *fallback) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	return take(ctx, f, r)
}

func (d *deadlines) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	return take(ctx, d, r)
}

func (b *batching) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	return take(ctx, b, r)
}
