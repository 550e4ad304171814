package tiers_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint/examples/tiers"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// TestInventedFingerprints tries to log in with a new fingerprint every time, as often as it can in
// an hour: that makes no more than an address may.
func TestInventedFingerprints(t *testing.T) {
	var minutes atomic.Int64
	store := guardtest.MemoryWith(t, memorystore.Config{Now: func() time.Time { return time.Unix(1_800_000_000+60*minutes.Load(), 0) }})
	guard := guardtest.New(t, guardtest.Unhurried{Store: store}, string(tiers.YAML), policy.GuardConfig{})
	allowed := 0
	for minute := range 60 {
		for i := range 10 {
			in := policy.Input{
				Method: http.MethodPost, Path: "/login", Peer: netip.MustParseAddr("203.0.113.9"),
				Header: http.Header{"X-Fingerprint": {fmt.Sprint(minute, i)}},
			}
			var v policy.Verdict
			if err := guard.Decide(context.Background(), &in, &v); err != nil {
				t.Fatal(err)
			}
			if v.Decision.Allowed {
				allowed++
			}
		}
		minutes.Add(1)
	}
	if allowed != 20 {
		t.Errorf("%d logins in an hour, want 20", allowed)
	}
}
