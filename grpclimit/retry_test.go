package grpclimit_test

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint/grpclimit"
)

// eager is a retry policy that would be back in a millisecond, were it not for the pushback.
const eager = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}`

// gRPC's own retries come when there is room, and not at all if there will be none.
func TestRetryPolicy(t *testing.T) {
	tests := []struct {
		name     string
		limits   string
		want     codes.Code
		attempts int64 // of a call after one that was let through
	}{
		{"room in a while", "1/1s", codes.OK, 2},
		{"never any room", "0/1h", codes.ResourceExhausted, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // one of them waits
			guard := newGuard(t, "tiers: [{name: anonymous, identity: ip, limits: "+test.limits+"}]", nil)
			var attempts atomic.Int64
			count := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
				attempts.Add(1)
				return next(ctx, req)
			}
			// What the limit says of usage must not stand in the way of retries.
			limit := grpclimit.UnaryServerInterceptor(guard, grpclimit.WithUsage())
			conn := (&echo{}).serve(t, []grpc.UnaryServerInterceptor{count, limit}, nil,
				grpc.WithDefaultServiceConfig(eager))
			_ = say(t.Context(), conn)
			attempts.Store(0)
			if err := say(t.Context(), conn); status.Code(err) != test.want {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if got := attempts.Load(); got != test.attempts {
				t.Errorf("got %d attempts, want %d", got, test.attempts)
			}
		})
	}
}
