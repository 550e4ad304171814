package middleware

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// F35: callers that are denied together are told to retry at different times, none of them too
// early.
func TestF35Spread(t *testing.T) {
	tests := []struct {
		wait, unit    time.Duration
		share, random float64
		want          time.Duration
	}{
		{time.Second, time.Millisecond, 0, 0.9, time.Second},
		{time.Second, time.Millisecond, 0.2, 0, time.Second},
		{time.Second, time.Millisecond, 0.2, 0.5, 1100 * time.Millisecond},
		{1500 * time.Microsecond, time.Millisecond, 0, 0, 2 * time.Millisecond},
		{0, time.Millisecond, 0.2, 0.4, time.Millisecond},
		{0, time.Second, 0.2, 0.5, 2 * time.Second},
		{1001 * time.Millisecond, time.Second, 0, 0.5, 2 * time.Second},
		{58001 * time.Millisecond, time.Second, 0, 0.99, 59 * time.Second},
		{time.Second, time.Second, 0.2, 0.999, 2 * time.Second},
		{24 * time.Hour, time.Second, 0.2, 0.9999999, 24*time.Hour + time.Minute},
	}
	for _, test := range tests {
		if got := spread(test.wait, test.unit, test.share, test.random); got != test.want {
			t.Errorf("%+v: got %v", test, got)
		}
	}
}

// TestRetryAfter: jitter is added only if all callers share the limit that denied.
func TestRetryAfter(t *testing.T) {
	limits := []stint.Limit{stint.PerMinute(1)}
	claim := func(shared bool, wait time.Duration) policy.Result {
		return policy.Result{Claim: stint.Claim{Subject: "x", Limits: limits, Cost: 1, Shared: shared},
			Usages: []stint.Usage{{RetryAfter: wait}}, Denied: wait > 0}
	}
	shadow := claim(true, time.Hour)
	shadow.Shadow = true
	const own, all, wait, exact, more = false, true, 58500 * time.Millisecond, 59 * time.Second, 64 * time.Second
	for _, c := range []struct {
		what    string
		jitter  *float64
		banned  bool
		results []policy.Result
		want    time.Duration
	}{
		{"one's own limit", nil, false, []policy.Result{claim(own, wait)}, exact},
		{"and a jitter that was chosen", new(0.5), false, []policy.Result{claim(own, wait)}, exact},
		{"a shared one", nil, false, []policy.Result{claim(all, wait)}, more},
		{"a shared one, and a larger jitter", new(0.4), false, []policy.Result{claim(all, wait)}, 69 * time.Second},
		{"a shared one, without jitter", new(0.0), false, []policy.Result{claim(all, wait)}, exact},
		{"a shared one with room", nil, false, []policy.Result{claim(own, wait), claim(all, 0)}, exact},
		{"both, one's own for longer", nil, false, []policy.Result{claim(own, wait), claim(all, time.Second)}, exact},
		{"both, the shared one for longer", nil, false, []policy.Result{claim(own, time.Second), claim(all, wait)}, more},
		{"a ban", nil, true, []policy.Result{claim(own, 0), claim(all, time.Second)}, exact},
		{"a shared one in shadow", nil, false, []policy.Result{claim(own, wait), shadow}, exact},
		{"nothing is known", nil, false, nil, exact},
	} {
		v := &policy.Verdict{Results: c.results, Decision: stint.Decision{Banned: c.banned, RetryAfter: wait}}
		if got := RetryAfter(v, c.jitter, time.Second, func() float64 { return 0.45 }); got != c.want {
			t.Errorf("%s: got %v, want %v", c.what, got, c.want)
		}
	}
}
