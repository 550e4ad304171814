package resilience

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// A decision of which nothing is known can be asked as any other.
func TestFallbackAllowsBlindly(t *testing.T) {
	inner := newFlaky(t)
	f := newFallbackFor(t, inner, Config{Failure: stint.FailurePolicy{Mode: stint.FailAllow}})
	inner.down()
	r := oneUnit("a", stint.PerMinute(5), stint.PerHour(9))
	r.Claims = append(
		r.Claims[:1:1],
		[]stint.Claim{{Subject: "b", Limits: []stint.Limit{stint.PerHour(7)}, Cost: 1}}...)
	d := mustDecide(t, f, r)
	if !d.Allowed || d.Unavailable || d.RetryAfter != 0 || d.Err() != nil || d.Charge.Data().ID != 0 {
		t.Errorf("got %+v, want an allowance that charges nothing", d)
	}
	if len(d.Usages()) != 0 || len(d.States()) != 0 || d.Remaining() != 0 || d.Decisive().ResetAfter != 0 ||
		*d.Decisive().Limit != (stint.Limit{}) {
		t.Errorf("got %+v; want that nothing is known of any limit", d.States())
	}
	lim, err := stint.New(f, stint.PerMinute(5))
	if err != nil {
		t.Fatal(err)
	}
	for name, take := range map[string]func() (stint.Decision, error){
		"Allow": func() (stint.Decision, error) { return lim.Allow(t.Context(), "a") },
		"Peek":  func() (stint.Decision, error) { return lim.Peek(t.Context(), "a") },
		"Wait":  func() (stint.Decision, error) { return lim.Wait(t.Context(), "a") },
	} {
		if d, err := take(); err != nil || !d.Allowed {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	places, err := stint.New(f, stint.AtOnce(1, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // all are let in, and none has a place to give back
		d, err := places.Allow(t.Context(), "job")
		if err != nil || !d.Allowed {
			t.Fatalf("got %+v, error %v", d, err)
		}
		held, release := places.Hold(t.Context(), d)
		if err := release(); err != nil || held.Err() != nil {
			t.Errorf("release says %v, the context %v", err, held.Err())
		}
	}
	if d, err := lim.Peek(t.Context(), "a"); err != nil || len(d.States()) != 0 {
		t.Errorf("Peek: %v, %v; want no usages", d.States(), err)
	}
}
